"""One node of which a function's text is written, and what several of such texts have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ephost.message_helpers import get_attribute_value
from ephost.messages import NodeProto

MOST_HEADS = 4096  # that are written out one by one
LONGEST_WINDOW = 4096  # of states, or elements, written out likewise

# Gives a value's rank, or None.
RankOf = Callable[[str], int | None]


class Call:
    """What the text of a function depends on."""

    def __init__(self, node: NodeProto, rank_of: RankOf):
        self.node = node
        self._rank_of = rank_of
        self._attributes = {a.name: a for a in node.attribute}

    def _value(self, name: str, otherwise: Any) -> Any:
        found = self._attributes.get(name)
        return otherwise if found is None else get_attribute_value(found)

    def has(self, at: int) -> bool:
        """Whether this input is there."""
        return at < len(self.node.input) and bool(self.node.input[at])

    def has_output(self, at: int) -> bool:
        """Whether this output is there."""
        return at < len(self.node.output) and bool(self.node.output[at])

    def number(self, name: str, otherwise: int = 0) -> int:
        """An integer attribute; `otherwise` where it is none or not there."""
        found = self._value(name, otherwise)
        return found if isinstance(found, int) else otherwise

    def numbers(self, name: str) -> list[int]:
        """An attribute of several integers; empty if it is not there."""
        found = self._value(name, [])
        return [number for number in found if isinstance(number, int)] if isinstance(found, list) else []

    def length(self, name: str) -> int:
        """How many elements a list has, 0 where there is none."""
        found = self._value(name, [])
        return len(found) if isinstance(found, list) else 0

    def text(self, name: str, otherwise: str) -> str:
        """An attribute of text."""
        found = self._value(name, otherwise)
        return found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)

    def rank(self, at: int) -> int | None:
        """Of an input; None: it is not known yet. Then a text that tells less will do: it is asked for again
        when inference has found the rank.
        """
        return self._rank_of(self.node.input[at]) if self.has(at) else None


def split_heads(of: str, heads: int, into: str) -> str:
    """A value [batch, tokens, channels] as one [batch, heads, tokens, channels of a head]."""
    return (
        f"{into}s = Constant <value_ints = [0, 0, {heads}, -1]> () {into}r = Reshape ({of}, {into}s) "
        f"{into} = Transpose <perm = [0, 2, 1, 3]> ({into}r) "
    )
