"""Where to draw the nodes of a graph: in rows by their distance from the start, linear but for sorting.

A graph that is much taller than wide is broken into columns, as a text is: a model of 5,000 nodes in a row
fits a window then.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

Point = tuple[float, float]
GAP = (22.0, 40.0)  # between nodes beside each other, and below each other
_SPAN = 12  # rows that an edge may pass and still be led around their nodes
_WIDEST = 6400.0  # of a row: what is wider goes on in another one
_FOLDED = 1500.0  # height from which on a graph is broken into columns
_ASPECT = 1.6  # of width and height, that columns aim at
_LANE = 14.0  # width that an edge takes between nodes


@dataclass
class Placed:
    """Left upper corners of the nodes, the points that edges are led through, and the size of all."""

    places: list[Point]
    bends: dict[int, list[Point]]  # place of an edge -> points
    width: float
    height: float


@dataclass
class _Item:
    """What takes room in a row: a node, or an edge on its way (then ``edge`` says which)."""

    width: float
    height: float
    node: int = -1
    edge: int = -1
    middle: float = 0.0
    before: list[_Item] = field(default_factory=list)
    after: list[_Item] = field(default_factory=list)


def layered(sizes: Sequence[Point], edges: Sequence[tuple[int, int]]) -> Placed:
    """Place nodes in rows.

    Args:
        sizes: width and height of each node; nodes are in topological order.
        edges: pairs of places in ``sizes``, the first of each before the second. Others are left out.

    Returns:
        The places, with the left upper corner of all at 0, 0. Nodes do not overlap.
    """
    if not sizes:
        return Placed([], {}, 0.0, 0.0)
    known = [(at, a, b) for at, (a, b) in enumerate(edges) if 0 <= a < b < len(sizes)]
    rows = _rows(sizes, known, _levels(len(sizes), known))
    for row in rows:
        _arrange(row, [_mean([item.middle for item in each.before], each.middle) for each in row], sort=True)
    for row in reversed(rows):
        near = [[item.middle for item in (*each.after, *each.before)] for each in row]
        _arrange(row, [_mean(found, each.middle) for each, found in zip(row, near, strict=True)], sort=False)
    return _folded(_wrapped(rows), sizes, known)


def _levels(count: int, edges: Sequence[tuple[int, int, int]]) -> list[int]:
    """The row of each node: behind all that it reads; what reads nothing, right before its first reader."""
    ordered = sorted(edges, key=lambda edge: edge[2])
    levels, reads = [0] * count, [False] * count
    for _, a, b in ordered:
        levels[b] = max(levels[b], levels[a] + 1)
        reads[b] = True
    nearest = [-1] * count
    for _, a, b in ordered:
        if not reads[a]:
            nearest[a] = levels[b] - 1 if nearest[a] < 0 else min(nearest[a], levels[b] - 1)
    return [level if near < 0 else near for level, near in zip(levels, nearest, strict=True)]


def _rows(
    sizes: Sequence[Point], edges: Sequence[tuple[int, int, int]], levels: Sequence[int]
) -> list[list[_Item]]:
    rows: list[list[_Item]] = [[] for _ in range(max(levels) + 1)]
    items = [_Item(width, height, node=at) for at, (width, height) in enumerate(sizes)]
    for item, level in zip(items, levels, strict=True):
        rows[level].append(item)
    for at, a, b in edges:
        last = items[a]
        if levels[b] - levels[a] <= _SPAN:
            for level in range(levels[a] + 1, levels[b]):
                item = _Item(_LANE, 0.0, edge=at)
                rows[level].append(item)
                last.after.append(item)
                item.before.append(last)
                last = item
        last.after.append(items[b])
        items[b].before.append(last)
    return rows


def _mean(values: Sequence[float], default: float) -> float:
    return math.fsum(values) / len(values) if values else default


def _arrange(row: list[_Item], wanted: Sequence[float], sort: bool) -> None:
    """Put what is in a row as near to where it wants to be as the others let it."""
    order = sorted(range(len(row)), key=lambda at: wanted[at]) if sort else range(len(row))
    row[:] = [row[at] for at in order]
    wanted = [wanted[at] for at in order]
    apart = [(a.width + b.width) / 2 + GAP[0] for a, b in pairwise(row)]
    right = list(wanted)  # pushed to the right by those before, and to the left by those behind
    for at, distance in enumerate(apart):
        right[at + 1] = max(right[at + 1], right[at] + distance)
    left = list(wanted)
    for at in range(len(apart) - 1, -1, -1):
        left[at] = min(left[at], left[at + 1] - apart[at])
    for item, a, b in zip(row, left, right, strict=True):
        item.middle = (a + b) / 2


def _wrapped(rows: Sequence[list[_Item]]) -> list[list[_Item]]:
    """The rows, none wider than allowed."""
    found: list[list[_Item]] = []
    for row in rows:
        if row[-1].middle - row[0].middle <= _WIDEST:
            found.append(row)
            continue
        part: list[_Item] = []
        end = 0.0
        for item in row:
            if part and end + item.width > _WIDEST:
                found.append(part)
                part, end = [], 0.0
            item.middle = end + item.width / 2 - _WIDEST / 2
            end += item.width + GAP[0]
            part.append(item)
        found.append(part)
    return found


def _through(column: int, place: Point, height: float) -> list[tuple[int, Point]]:
    """Where an edge passes a row: straight past the whole of a high one."""
    x, y = place
    if height < 2 * GAP[1]:
        return [(column, place)]
    return [(column, (x, y - height / 2)), (column, (x, y + height / 2))]


def _folded(
    rows: Sequence[list[_Item]], sizes: Sequence[Point], edges: Sequence[tuple[int, int, int]]
) -> Placed:
    heights = [max(item.height for item in row) + GAP[1] for row in rows]
    lefts = [min(item.middle - item.width / 2 for item in row) for row in rows]
    rights = [max(item.middle + item.width / 2 for item in row) for row in rows]
    total, wide = sum(heights), max(rights) - min(lefts) + 3 * GAP[0]
    columns = max(1, round(math.sqrt(_ASPECT * total / wide))) if total > _FOLDED else 1
    places: list[Point] = [(0.0, 0.0)] * len(sizes)
    column_of, bends = [0] * len(sizes), {}
    led: dict[int, list[tuple[int, Point]]] = {}
    x = y = width = height = 0.0
    first = column = 0
    for at in range(len(rows)):
        y += heights[at]
        height = max(height, y)
        if y < total / columns and at + 1 < len(rows):
            continue
        left, right = min(lefts[first : at + 1]), max(rights[first : at + 1])
        top = 0.0
        for number in range(first, at + 1):
            for item in rows[number]:
                place = x + item.middle - left, top + (heights[number] - GAP[1]) / 2
                if item.node >= 0:
                    w, h = sizes[item.node]
                    places[item.node] = place[0] - w / 2, place[1] - h / 2
                    column_of[item.node] = column
                else:
                    led.setdefault(item.edge, []).extend(_through(column, place, heights[number] - GAP[1]))
            top += heights[number]
        width = x + right - left
        x, y, first, column = width + 3 * GAP[0], 0.0, at + 1, column + 1
    for at, a, b in edges:
        if at in led and column_of[a] == column_of[b]:
            bends[at] = [place for _, place in led[at]]
    return Placed(places, bends, width, height - GAP[1])
