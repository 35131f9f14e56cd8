"""What somebody may have meant by a word that is not known."""

from __future__ import annotations

from collections.abc import Iterable


def closest(word: str, known: Iterable[str], cutoff: float = 0.7) -> str | None:
    """The known word that is most like another, whatever their case; None when none is.

    Args:
        word: what was written.
        known: what there is.
        cutoff: how alike they must be, from 0 to 1, as :mod:`difflib` counts.
    """
    import difflib  # only for words that are wrong

    by_lower = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a message about a word that is not known: "" where nothing is like it."""
    found = closest(word, known)
    return "" if found is None else f" (did you mean '{found}'?)"
