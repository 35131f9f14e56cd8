"""Pages to look at in a browser: one file each, which fetches nothing, light and dark, usable by keyboard.

A page is made of parts: texts, tables that can be searched and sorted, plots, graphs, whole or around a node,
timelines, and entries that open. What they show travels in the page as JSON; names of models and plugins are
only ever put in as text.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class Text:
    """Paragraphs; ``kind`` is ``plain``, ``good``, ``bad`` or ``code``."""

    lines: Sequence[str]
    kind: str = "plain"


@dataclass(frozen=True)
class Grid:
    """A table. ``numbers`` are the columns to align and sort as numbers; ``marked`` the rows to point out.

    ``opens`` says which entry of the page's graph a row shows, -1 for none; ``units`` which columns are of
    ``bytes`` or ``seconds``.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | float | None]]
    numbers: Sequence[str] = ()
    marked: Sequence[int] = ()
    opens: Sequence[int] | None = None
    units: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plot:
    """Lines over the same places, with a logarithmic axis; None where there is no number."""

    title: str
    across: str
    series: Mapping[str, Sequence[float | None]]
    labels: Sequence[str] = ()
    level: float | None = None  # a line across, such as what is allowed
    logarithmic: bool = True
    marked: Sequence[int] = ()


@dataclass(frozen=True)
class Network:
    """Nodes with a label each, and edges; the page shows those around one of them."""

    title: str
    labels: Sequence[str]
    details: Sequence[str]
    edges: Sequence[tuple[int, int]]
    marked: Sequence[int] = ()
    start: int = 0


@dataclass(frozen=True)
class Timeline:
    """Spans of time in lanes, one below the other where they lie in each other, to zoom, search and open.

    Each span is (lane, depth, start, duration, name, kind), times in nanoseconds; name and kind are places in
    ``names`` and in :data:`KINDS`. ``details`` has a text for each span.
    """

    title: str
    lanes: Sequence[str]
    names: Sequence[str]
    spans: Sequence[tuple[int, int, int, int, int, int]]
    details: Sequence[str]


@dataclass(frozen=True)
class Entries:
    """Rows of four texts that open and show ``details``, each a heading and a text; to search and to filter.

    ``filters`` has for each of its names a value for each row; ``kinds`` a colour for each row: ``good``,
    ``bad``, ``warn`` or ``plain``.
    """

    title: str
    rows: Sequence[tuple[str, str, str, str]]
    filters: Mapping[str, Sequence[str]]
    kinds: Sequence[str]
    details: Sequence[Sequence[tuple[str, str]]]


@dataclass(frozen=True)
class Sheet:
    """One of a graph's drawings: those of its nodes, boxes and edges from ``first`` on, up to the next one's.

    ``owner`` is the node that opens it, None for the first; width and height are those of the drawing.
    """

    title: str
    owner: int | None
    first_node: int
    first_box: int
    first_edge: int
    width: float
    height: float


@dataclass(frozen=True)
class Graph:
    """Nodes in boxes, with the values between them, to zoom, search, filter and walk through by keyboard.

    Nodes, boxes and edges are columns: each field holds a value for each. Kinds say whom a node belongs to,
    and give it its colour; ``texts`` are what several nodes say. A node's entry is its place, a box's is its
    place behind all nodes.
    """

    title: str
    kinds: Sequence[str]
    colours: Sequence[
        int
    ]  # of the kinds, places in the page's palette: 0 for what is nobody's, 1 for the rest
    sheets: Sequence[Sheet]
    labels: Sequence[str]
    operators: Sequence[str]  # "" for what is no node of the model: its inputs and outputs
    node_kinds: Sequence[int]
    node_boxes: Sequence[int]
    places: Sequence[tuple[float, float]]  # left upper corners; a node is NODE_SIZE wide and high
    notes: Sequence[Sequence[int]]  # places in ``texts``
    seconds: Sequence[float | None]
    reads: Sequence[Sequence[int]]  # values
    makes: Sequence[Sequence[int]]
    values: Sequence[tuple[str, str, int | None]]  # name, type, bytes
    edges: Sequence[tuple[int, int, int]]  # from a node to a node, a value
    bends: Mapping[int, Sequence[tuple[float, float]]]  # of some edges, points on their way
    box_titles: Sequence[str]
    box_kinds: Sequence[int]
    box_places: Sequence[tuple[float, float, float, float]]  # left, top, width, height
    box_details: Sequence[Sequence[str]]
    box_seconds: Sequence[float | None]
    texts: Sequence[str]


NODE_SIZE = (160.0, 38.0)
KINDS = ("one", "two", "bad")  # colours of a timeline: of one side, of the other, of what failed
Part = Text | Grid | Plot | Network | Timeline | Entries | Graph


@dataclass
class Page:
    """A page of parts under a title."""

    title: str
    parts: list[Part] = field(default_factory=list)

    def html(self) -> str:
        """The whole file."""
        data = [{"part": type(part).__name__, **_plain(vars(part))} for part in self.parts]
        # "<" ends the element that holds the data, whatever else it is a part of.
        text = json.dumps(data, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
        folder = files("ephost.page_files")
        page = _FRAME.format(
            title=html.escape(self.title),
            style=(folder / "page.css").read_text(encoding="utf-8"),
            script="\n".join((folder / name).read_text(encoding="utf-8") for name in self._scripts()),
            data=text,
        )
        return page.encode("utf-8", "replace").decode("utf-8")  # a path may be any bytes

    def _scripts(self) -> list[str]:
        """The graph's script only where there is one: most pages are mailed without."""
        return ["graph.js", "page.js"] if any(isinstance(part, Graph) for part in self.parts) else ["page.js"]


def _plain(value: Any) -> Any:
    """As JSON can hold it: numbers that are not finite become texts."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | range):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Sheet):
        return vars(value)
    return value


_FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; \
script-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header><h1>{title}</h1><button id="theme" type="button">Dark or light</button></header>
<main id="main"></main>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""
