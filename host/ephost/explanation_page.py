"""The page of an explanation: the graph by partition, who took what, what crosses borders, and the time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ephost.explained_graph import ExplainedGraph, ExplainedNode, ExplainedValue
from ephost.explanation import Explanation, Partition, Refusal
from ephost.graph_layout import layered
from ephost.pages import NODE_SIZE, Graph, Grid, Page, Part, Sheet, Text
from ephost.tables import bytes_text, shorten, time_text

_SIDE, _TOP = 14.0, 46.0  # room in a box around its nodes, and above them for its title and what comes in
_LETTER = 9.0  # width of a letter of a title
_OUTSIDE, _HOST = "outside", "the fallback"


def page_of(told: Explanation) -> Page:
    """What a browser shows of an explanation."""
    drawing = _Drawing(told)
    parts: list[Part] = [Text([told.headline()])]
    if told.profiled_runs:
        runs = f"{told.profiled_runs} run{'s'[: told.profiled_runs != 1]}"
        times = f"Times are means of {runs}; those of bodies are a part of their node's."
        inside = sorted({_who(p) for _, p, _ in _inside_groups(told)})
        if inside:
            times += f" Those of nodes inside of groups are what the profiler of {' and '.join(inside)} told."
        parts.append(Text([times]))
    parts.append(_providers(told))
    if told.graphs:
        parts.append(drawing.graph())
    parts.append(_partitions(told, drawing))
    if crossing := drawing.crossing:
        # The largest first; those of unknown size before all.
        order = sorted(crossing, key=lambda each: -float("inf") if each.bytes is None else -each.bytes)
        parts.append(
            Grid(
                "Values that cross borders between partitions",
                ("value", "type", "bytes", "from", "to"),
                [(each.name, each.type, each.bytes, each.origin, each.targets) for each in order],
                ("bytes",),
                opens=[each.node for each in order],
                units={"bytes": "bytes"},
            )
        )
    if told.copies:
        parts.append(
            Grid(
                "Copies between devices, in each run",
                ("way", "values", "bytes"),
                [(copy.way, shorten(list(copy.values), 6), copy.bytes) for copy in told.copies],
                ("bytes",),
                units={"bytes": "bytes"},
            )
        )
    if told.fallback:
        parts.append(_fallback(told, drawing))
    if passed_on := told.passed_on():
        parts.append(
            Grid(
                f"Left to later execution providers: {sum(len(each.nodes) for each in passed_on)} nodes",
                ("operator", "count", "nodes", "taken by", "why"),
                [
                    (e.operator, len(e.nodes), shorten([n.label for n in e.nodes], 4), e.ep_name, e.why)
                    for e in passed_on
                ],
                ("count",),
                opens=[drawing.place_of.get(each.nodes[0].index, -1) for each in passed_on],
            )
        )
    if told.refused:
        claims = [(c.ep_name, shorten([node.label for node in c.nodes], 8), c.reason) for c in told.refused]
        opens = [
            drawing.place_of.get(claim.nodes[0].index, -1) if claim.nodes else -1 for claim in told.refused
        ]
        parts.append(Grid("Claims that were refused", ("EP", "nodes", "why"), claims, opens=opens))
    if told.profiled_runs:
        parts.append(_slowest(told, drawing))
    stages = list(told.stages.items())
    parts.append(Grid("Opening", ("stage", "time"), stages, ("time",), units={"time": "seconds"}))
    return Page(f"ephost explain: {told.model}", parts)


def _who(partition: Partition) -> str:
    return _HOST if partition.kind == "fallback" else partition.ep_name


def _providers(told: Explanation) -> Grid:
    timed = bool(told.profiled_runs)
    rows: list[list[str | float | None]] = []
    for name in [*(p.ep_name for p in told.providers), _HOST]:
        mine = [p for p in told.partitions if _who(p) == name]
        provider = next((p for p in told.providers if p.ep_name == name and name != _HOST), None)
        row: list[str | float | None] = [
            name,
            provider.library if provider else "",
            ", ".join(provider.devices) if provider else "CPU",
            ", ".join(f"{key}={value}" for key, value in provider.options.items()) if provider else "",
            sum(len(p.nodes) for p in mine),
            len(mine),
        ]
        if timed:  # the time of a body is a part of the time of its node
            row.append(sum(p.seconds or 0.0 for p in mine if not p.in_body) or None)
        rows.append(row)
    numbers = ("nodes", "partitions", *(["a run"] if timed else []))
    columns = ("EP", "library", "devices", "options", *numbers)
    marked = [len(rows) - 1] if told.fallback else []
    return Grid("Execution providers", columns, rows, numbers, marked, units={"a run": "seconds"})


def _partitions(told: Explanation, drawing: _Drawing) -> Grid:
    timed = bool(told.profiled_runs)
    numbers = ("#", "nodes", "bytes in", "bytes out", "weights", *(["a run"] if timed else []))
    rows: list[list[str | float | None]] = []
    for at, p in enumerate(told.partitions):
        operators = [f"{name} {count}" if count > 1 else name for name, count in p.op_counts.items()]
        kind = f"{p.kind}, in a body" if p.in_body else p.kind
        row: list[str | float | None] = [at, _who(p), kind, len(p.nodes), shorten(operators, 6)]
        rows.append([*row, p.bytes_in, p.bytes_out, p.constant_bytes, *([p.seconds] if timed else [])])
    columns = ("#", "EP", "kind", "nodes", "operators", *numbers[2:])
    units = {"bytes in": "bytes", "bytes out": "bytes", "weights": "bytes", "a run": "seconds"}
    marked = [at for at, p in enumerate(told.partitions) if p.kind == "fallback"]
    opens = [drawing.entry_of_partition(at) for at in range(len(rows))]
    return Grid("Partitions, in the order of execution", columns, rows, numbers, marked, opens, units)


def _fallback(told: Explanation, drawing: _Drawing) -> Grid:
    rows = []
    for entry in told.fallback:
        why = "; ".join(f"{refusal.ep_name}: {refusal.reason}" for refusal in entry.reasons)
        types = shorten(list(entry.input_types), 4)
        operator = f"{entry.node.operator}-{entry.since_version}"
        rows.append((entry.node.label, operator, types, why or "the session was given no execution provider"))
    opens = [drawing.place_of.get(entry.node.index, -1) for entry in told.fallback]
    title = f"Left to the fallback: {len(told.fallback)} of {told.node_count} nodes"
    return Grid(title, ("node", "operator", "input types", "why"), rows, opens=opens)


def _inside_groups(told: Explanation) -> list[tuple[int, Partition, ExplainedNode]]:
    """The nodes of fused groups whose time is known, each with its partition and that one's place."""
    return [
        (at, partition, node)
        for at, partition in enumerate(told.partitions)
        if partition.kind == "compiled" and len(partition.nodes) > 1
        for node in partition.nodes
        if node.index in told.node_seconds
    ]


def _slowest(told: Explanation, drawing: _Drawing) -> Grid:
    """Where the time of a run goes: groups, nodes that are steps of their own, what is known of groups."""
    whole = sum(p.seconds or 0.0 for p in told.partitions if not p.in_body) or 1.0
    rows: list[tuple[float, tuple[str | float | None, ...], int]] = []
    for at, partition in enumerate(told.partitions):
        if partition.kind == "compiled" and partition.seconds is not None:
            label = f"partition {at}: {len(partition.nodes)} nodes"
            cells = (label, shorten(list(partition.op_counts), 4), _who(partition))
            share = 100 * partition.seconds / whole
            entry = drawing.entry_of_partition(at)
            rows.append((partition.seconds, (*cells, partition.seconds, share), entry))
            continue
        for node in partition.nodes:
            if (seconds := told.node_seconds.get(node.index)) is not None:
                cells = (node.label, node.operator, _who(partition))
                entry = drawing.place_of.get(node.index, -1)
                rows.append((seconds, (*cells, seconds, 100 * seconds / whole), entry))
    for at, partition, node in _inside_groups(told):
        seconds = told.node_seconds[node.index]
        cells = (f"{node.label}, in partition {at}", node.operator, _who(partition))
        entry = drawing.place_of.get(node.index, -1)
        rows.append((seconds, (*cells, seconds, 100 * seconds / whole), entry))
    rows.sort(key=lambda row: -row[0])
    numbers = ("a run", "% of it")
    columns = ("step", "operator", "EP", *numbers)
    opens = [entry for _, _, entry in rows]
    shown = [cells for _, cells, _ in rows]
    return Grid("Where the time goes", columns, shown, numbers, (), opens, {"a run": "seconds"})


# ---- the graph ----


@dataclass
class _Crossing:
    """A value that crosses a border; ``node`` makes it, or stands for what gives it."""

    name: str
    type: str
    bytes: int | None
    origin: str
    targets: str
    node: int


@dataclass
class _Content:
    """What a box holds: places of nodes."""

    title: str
    kind: int
    details: list[str]
    short: str = "outside"  # what it is called where there is little room
    seconds: float | None = None
    nodes: list[int] = field(default_factory=list)


class _Drawing:
    """Collects the columns of the graph, one sheet after the other."""

    def __init__(self, told: Explanation) -> None:
        self.told = told
        self.kinds = [_OUTSIDE, *dict.fromkeys([*(p.ep_name for p in told.providers), _HOST])]
        self.reasons = {entry.node.index: entry.reasons for entry in told.fallback} | told.refusals
        self.order = [p.ep_name for p in told.providers]
        self.place_of: dict[int, int] = {}  # a node's index -> its entry
        self.box_of: dict[int, int] = {}  # a partition's place -> its box
        self.crossing: list[_Crossing] = []
        self.texts: dict[str, int] = {}
        self.sheets: list[Sheet] = []
        self.labels: list[str] = []
        self.operators: list[str] = []
        self.node_kinds: list[int] = []
        self.node_boxes: list[int] = []
        self.places: list[tuple[float, float]] = []
        self.notes: list[list[int]] = []
        self.seconds: list[float | None] = []
        self.reads: list[list[int]] = []
        self.makes: list[list[int]] = []
        self.values: list[tuple[str, str, int | None]] = []
        self.edges: list[tuple[int, int, int]] = []
        self.bends: dict[int, list[tuple[float, float]]] = {}
        self.boxes: list[_Content] = []
        self.box_places: list[tuple[float, float, float, float]] = []
        for graph in told.graphs:
            self._add(graph)

    def entry_of_partition(self, at: int) -> int:
        """What a row about a partition opens."""
        return len(self.labels) + self.box_of[at] if at in self.box_of else -1

    def graph(self) -> Graph:
        """All of it."""
        # The fallback has a colour of its own; what comes from outside has none.
        colours = [0, *(2 + at for at in range(len(self.kinds) - 2)), 1]
        return Graph(
            title="The graph by partition",
            kinds=self.kinds,
            colours=colours,
            sheets=self.sheets,
            labels=self.labels,
            operators=self.operators,
            node_kinds=self.node_kinds,
            node_boxes=self.node_boxes,
            places=[(round(x, 1), round(y, 1)) for x, y in self.places],
            notes=self.notes,
            seconds=self.seconds,
            reads=self.reads,
            makes=self.makes,
            values=self.values,
            edges=self.edges,
            bends={at: [(round(x, 1), round(y, 1)) for x, y in way] for at, way in self.bends.items()},
            box_titles=[box.title for box in self.boxes],
            box_kinds=[box.kind for box in self.boxes],
            box_places=self.box_places,
            box_details=[box.details for box in self.boxes],
            box_seconds=[box.seconds for box in self.boxes],
            texts=list(self.texts),
        )

    def _add(self, graph: ExplainedGraph) -> None:
        first_node, first_box, first_edge = len(self.labels), len(self.boxes), len(self.edges)
        owner = None if graph.owner is None else self.place_of.get(graph.owner)
        inputs = self._open_box(_Content("given from outside", 0, []))
        self._nodes(graph, owner)
        outputs = self._open_box(_Content("given to the outside", 0, []))
        self._link(graph.values, inputs, outputs)
        for box in (outputs, inputs):  # a box without anything in it would only confuse
            if not self.boxes[box].nodes:
                self._close_box(box)
        width, height = self._place(first_box, first_edge)
        title = "the model's graph" if owner is None else f"{graph.name} of {self.labels[owner]}"
        self.sheets.append(Sheet(title, owner, first_node, first_box, first_edge, width, height))

    def _open_box(self, content: _Content) -> int:
        self.boxes.append(content)
        return len(self.boxes) - 1

    def _close_box(self, box: int) -> None:
        del self.boxes[box]
        self.node_boxes = [each - (each > box) for each in self.node_boxes]
        self.box_of = {at: each - (each > box) for at, each in self.box_of.items()}

    def _nodes(self, graph: ExplainedGraph, owner: int | None) -> None:
        if graph.partitions:
            for at in graph.partitions:
                self._partition(at)
        elif graph.nodes:
            kind = 0 if owner is None else self.node_kinds[owner]
            label = "" if owner is None else self.labels[owner]
            title = f"{self.kinds[kind]}, with the whole of {label}"
            box = self._open_box(_Content(title, kind, [f"{len(graph.nodes)} nodes"], self.kinds[kind]))
            note = f"runs as a part of {label}"
            for node in graph.nodes:
                self._node(node, kind, box, [note])

    def _partition(self, at: int) -> None:
        partition = self.told.partitions[at]
        kind = self.kinds.index(_who(partition))
        count = f"{len(partition.nodes)} node{'s'[: len(partition.nodes) != 1]}"
        title = f"{at} · {_who(partition)} · {count}"
        details = [
            f"{partition.kind}: {_KIND_TEXTS[partition.kind]}",
            f"{count}: {shorten([f'{name} {n}' for name, n in partition.op_counts.items()], 8)}",
            f"{len(partition.inputs)} values in, {_size(partition.bytes_in)}",
            f"{len(partition.outputs)} values out, {_size(partition.bytes_out)}",
            f"{bytes_text(partition.constant_bytes)} of constants",
        ]
        if partition.seconds is not None:
            title += f" · {time_text(partition.seconds)}"
            details.append(f"{time_text(partition.seconds)} of a run")
        box = self.box_of[at] = self._open_box(
            _Content(title, kind, details, f"{at} · {_who(partition)}", partition.seconds)
        )
        how = {"compiled": "compiled it with its partition", "kernels": "runs it by a kernel of its own"}
        for node in partition.nodes:
            notes = [f"{_who(partition)} {how.get(partition.kind, 'runs it')}"]
            self._node(node, kind, box, [*notes, *self._why(node, partition)])

    def _why(self, node: ExplainedNode, partition: Partition) -> list[str]:
        """Why not the others."""
        reasons: Sequence[Refusal] = self.reasons.get(node.index, ())
        told = [f"not {refusal.ep_name}: {refusal.reason}" for refusal in reasons]
        if partition.kind != "fallback" and partition.ep_name in self.order:
            later = self.order[self.order.index(partition.ep_name) + 1 :]
            told += [f"not {name}: it comes behind {partition.ep_name}, which took it" for name in later]
        return told

    def _node(self, node: ExplainedNode, kind: int, box: int, notes: Iterable[str]) -> int:
        self.place_of[node.index] = len(self.labels)
        seconds = self.told.node_seconds.get(node.index)
        return self._item(node.label, node.operator, kind, box, notes, seconds)

    def _item(
        self, label: str, operator: str, kind: int, box: int, notes: Iterable[str], seconds: float | None
    ) -> int:
        place = len(self.labels)
        self.labels.append(label)
        self.operators.append(operator)
        self.node_kinds.append(kind)
        self.node_boxes.append(box)
        self.notes.append([self.texts.setdefault(note, len(self.texts)) for note in notes])
        self.seconds.append(seconds)
        self.reads.append([])
        self.makes.append([])
        self.boxes[box].nodes.append(place)
        return place

    def _link(self, values: Iterable[ExplainedValue], inputs: int, outputs: int) -> None:
        for value in values:
            number = len(self.values)
            self.values.append((value.name, value.type, value.bytes))
            readers = [self.place_of[index] for index in value.consumers]
            for reader in readers:
                self.reads[reader].append(number)
            if value.producer is not None:
                origin = self.place_of[value.producer]
            elif value.is_constant and not value.is_output:
                continue
            else:
                note = "a constant" if value.is_constant else "comes from outside this graph"
                origin = self._item(value.name, "", 0, inputs, [note], None)
            self.makes[origin].append(number)
            if value.is_output:
                target = self._item(value.name, "", 0, outputs, ["goes outside this graph"], None)
                self.reads[target].append(number)
                readers.append(target)
            self.edges += [(origin, reader, number) for reader in readers]
            self._border(value, origin, readers)

    def _border(self, value: ExplainedValue, origin: int, readers: Sequence[int]) -> None:
        home = self.node_boxes[origin]
        others = dict.fromkeys(self.node_boxes[reader] for reader in readers)
        others.pop(home, None)
        if others:
            targets = shorten([self.boxes[box].short for box in others], 3)
            source = self.boxes[home].short
            self.crossing.append(_Crossing(value.name, value.type, value.bytes, source, targets, origin))

    def _place(self, first_box: int, first_edge: int) -> tuple[float, float]:
        """Give the boxes of a sheet and the nodes in them their places; returns the width and height."""
        boxes = self.boxes[first_box:]
        order: dict[int, int] = {}  # a node's place in its box
        for box in boxes:
            order.update((node, at) for at, node in enumerate(box.nodes))
        self.places += [(0.0, 0.0)] * (len(self.labels) - len(self.places))
        inner: list[list[int]] = [[] for _ in boxes]  # edges
        outer: dict[tuple[int, int], list[int]] = {}
        for at in range(first_edge, len(self.edges)):
            a, b, _ = self.edges[at]
            home, other = self.node_boxes[a] - first_box, self.node_boxes[b] - first_box
            if home == other:
                inner[home].append(at)
            else:
                outer.setdefault((home, other), []).append(at)
        drawn = [
            layered(
                [NODE_SIZE] * len(box.nodes),
                [(order[self.edges[at][0]], order[self.edges[at][1]]) for at in edges],
            )
            for box, edges in zip(boxes, inner, strict=True)
        ]
        sizes = [
            (max(each.width, _LETTER * len(box.title)) + 2 * _SIDE, each.height + _TOP + _SIDE)
            for box, each in zip(boxes, drawn, strict=True)
        ]
        whole = layered(sizes, list(outer))
        for number, between in enumerate(outer.values()):
            if number in whole.bends:
                self.bends.update((at, whole.bends[number]) for at in between)
        for box, each, size, place, edges in zip(boxes, drawn, sizes, whole.places, inner, strict=True):
            left, top = place[0] + (size[0] - each.width) / 2, place[1] + _TOP
            for node, (x, y) in zip(box.nodes, each.places, strict=True):
                self.places[node] = x + left, y + top
            for number, way in each.bends.items():
                self.bends[edges[number]] = [(x + left, y + top) for x, y in way]
            self.box_places.append(
                (round(place[0], 1), round(place[1], 1), round(size[0], 1), round(size[1], 1))
            )
        return whole.width, whole.height


_KIND_TEXTS: Mapping[str, str] = {
    "compiled": "its nodes are fused into one call of the plugin",
    "kernels": "each node is a kernel of the plugin",
    "fallback": "each node runs on the host's reference operators",
}


def _size(count: int | None) -> str:
    return "of unknown size" if count is None else bytes_text(count)
