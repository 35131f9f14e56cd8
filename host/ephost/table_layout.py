"""A table's lines for a terminal of whatever width: no word that could be a name is ever broken."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

Measure = Callable[[str], int]
"""How many columns of a terminal a text takes."""

_LONG = 24  # a word that is longer may be broken, behind one of these signs
_PIECES = re.compile(r"[^/,;=]*[/,;=]|[^/,;=]+")
_SENTENCES, _NARROW = 40, 24  # a cell so long is text, and gets a column that is no narrower
_GAP = "  "


def wrapped(text: str, width: int, measure: Measure = len) -> list[str]:
    """The text in lines, broken at blanks, and behind slashes and the like where a word is longer than that;
    what still is too long is a line by itself.
    """
    lines: list[str] = []
    line = ""
    for word in text.split():
        if line and measure(line) + 1 + measure(word) <= width:
            line += f" {word}"
            continue
        if line:
            lines.append(line)
        line = ""
        for piece in _pieces(word) if measure(word) > width else [word]:
            if line and measure(line) + measure(piece) > width:
                lines.append(line)
                line = ""
            line += piece
    return [*lines, line] if line or not lines else lines


def aligned(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Collection[int],
    width: int,
    measure: Measure = len,
) -> list[list[str]] | None:
    """The lines of the head and of each row, in columns; None where these do not fit beside each other.

    ``right`` are the columns of numbers, which stay in one line.
    """
    table = [list(columns), *map(list, rows)]
    room = width - 1 - len(_GAP) * (len(columns) - 1)
    natural = [max(measure(row[at]) for row in table) for at in range(len(columns))]
    widths = list(natural)
    if sum(natural) > room:
        widths = [
            max(_least(row[at], at in right and row is not table[0], measure) for row in table)
            for at in range(len(columns))
        ]
        if sum(widths) > room:
            return None
        _widen(widths, natural, room - sum(widths))
    return [_row(row, widths, right, measure, at_foot=row is table[0]) for row in table]


def stacked(
    columns: Sequence[str], row: Sequence[str], right: Collection[int], width: int, measure: Measure = len
) -> list[str]:
    """The lines of a row whose cells stand one after the other, each behind the name of its column."""
    told = [
        cell if at == 0 and at not in right else f"{name}: {cell}"
        for at, (name, cell) in enumerate(zip(columns, row, strict=True))
        if cell
    ]
    lines = [" " + line for line in wrapped(told[0], width - 1, measure)] if told else []
    groups: list[str] = []
    for text in told[1:]:
        if groups and measure(groups[-1]) + 2 + measure(text) <= width - 3:
            groups[-1] += f"; {text}"
        else:
            groups.append(text)
    for group in groups:
        first, *more = wrapped(group, width - 5, measure) if measure(group) > width - 3 else [group]
        lines += [f"   {first}", *(f"     {line}" for line in more)]
    return lines


def _pieces(word: str) -> list[str]:
    return _PIECES.findall(word) if len(word) > _LONG else [word]


def _least(text: str, is_number: bool, measure: Measure) -> int:
    """How narrow a cell may be."""
    if is_number:
        return measure(text)
    least = max((measure(piece) for word in text.split() for piece in _pieces(word)), default=0)
    return max(least, _NARROW) if measure(text) >= _SENTENCES else least


def _widen(widths: list[int], natural: Sequence[int], spare: int) -> None:
    """Give what is to spare to the columns whose cells take most lines."""
    for _ in range(spare):
        at = max(range(len(widths)), key=lambda at: natural[at] / max(widths[at], 1))
        widths[at] += natural[at] > widths[at]


def _row(
    row: Sequence[str], widths: Sequence[int], right: Collection[int], measure: Measure, *, at_foot: bool
) -> list[str]:
    cells = [wrapped(cell, width, measure) for cell, width in zip(row, widths, strict=True)]
    height = max(map(len, cells))
    lines = []
    for number in range(height):
        line = []
        for at, (cell, width) in enumerate(zip(cells, widths, strict=True)):
            index = number - (height - len(cell)) if at_foot else number
            text = cell[index] if 0 <= index < len(cell) else ""
            blank = " " * (width - measure(text))
            line.append(blank + text if at in right else text + blank)
        lines.append((" " + _GAP.join(line)).rstrip())
    return lines
