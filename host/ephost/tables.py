"""Tables for people: aligned plain text for files, pipes and ``str()``; through rich for a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ephost.table_layout import aligned, stacked, wrapped

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text


# What a terminal obeys instead of showing it, or what turns a line around; and what UTF-8 has no bytes for.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_LONGEST_CELL = 2000


def printable(text: str) -> str:
    """A text of a plugin or a model, to be shown to people: control characters but the line's end and the tab
    become ``\\xNN`` or ``\\uNNNN``.
    """
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _cell(text: str) -> str:
    """The same in one line, cut where it is so long that it could be no name and no sentence."""
    if len(text) > _LONGEST_CELL:
        text = f"{text[:_LONGEST_CELL]}... ({len(text)} characters)"
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


@dataclass(slots=True)
class Table:
    """Rows of texts under a title.

    ``right`` holds the columns of numbers, by name; ``marked`` the rows that a terminal shows in a colour.
    """

    title: str
    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    right: frozenset[str] = frozenset()
    marked: set[int] = field(default_factory=set)

    def plain(self) -> str:
        """Lines of text with aligned columns, never cut to a width and never coloured."""
        rows = [list(map(_cell, row)) for row in (self.columns, *self.rows)]
        widths = [max(len(row[at]) for row in rows) for at in range(len(self.columns))]
        lines = [printable(self.title)] if self.title else []
        for row in rows:
            cells = (
                cell.rjust(width) if name in self.right else cell.ljust(width)
                for name, cell, width in zip(self.columns, row, widths, strict=True)
            )
            lines.append("  ".join(("", *cells)).rstrip())
        return "\n".join(lines)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Lines as wide as the terminal: in columns, or with a row's cells one after the other where columns
        would be so narrow that names are broken.
        """
        from rich.cells import cell_len
        from rich.text import Text

        def line(text: str, style: str = "") -> Text:
            return Text(text, style, no_wrap=True, overflow="ignore")

        width = options.max_width
        rows = [[_cell(cell) for cell in row] for row in self.rows]
        right = {at for at, name in enumerate(self.columns) if name in self.right}
        if self.title:
            yield from (line(text, "bold") for text in wrapped(printable(self.title), width, cell_len))
        lines = aligned(self.columns, rows, right, width, cell_len)
        if lines is None:
            lines = [stacked(self.columns, row, right, width, cell_len) for row in rows]
        else:
            head = lines.pop(0)
            yield from (line(text, "bold") for text in head)
            widest = max(cell_len(text) for each in (head, *lines) for text in each)
            yield line(" " + "\u2500" * (widest - 1))
        for at, each in enumerate(lines):
            yield from (line(text, "yellow" if at in self.marked else "") for text in each)
        yield line("")


def bytes_text(nbytes: int) -> str:
    """A number of bytes with a unit: ``512 B``, ``1.5 KiB``."""
    size = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{nbytes} B" if unit == "B" else f"{size:.1f} {unit}"


def time_text(seconds: float) -> str:
    """A duration with a unit that gives it three digits or so: ``8.10 us``, ``12.4 ms``."""
    if seconds < 1e-3:
        value, unit = seconds * 1e6, "us"
    elif seconds < 1.0:
        value, unit = seconds * 1e3, "ms"
    else:
        value, unit = seconds, "s"
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"


def shorten(items: Sequence[Any], limit: int) -> str:
    """The first items, and how many more there are."""
    shown = ", ".join(str(item) for item in items[:limit])
    return shown if len(items) <= limit else f"{shown} and {len(items) - limit} more"
