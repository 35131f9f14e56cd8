"""Making a model that shows a symptom smaller, until nothing can go. Every step keeps the symptom."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from ephost.bisection.judging import Judge, Judgement, Mode, Symptom
from ephost.bisection.locating import smallest
from ephost.bisection.opening_bodies import opened
from ephost.bisection.slicing import Sliced
from ephost.bisection.targets import Target

_LONG_CONSTANT = 16  # elements up to which a constant of integers may be a shape


@dataclass
class Case:
    """A model with its inputs, and where and how it is run."""

    model: onnx.ModelProto
    feed: dict[str, Any]
    mode: Mode
    target: Target
    steps: list[str] = field(default_factory=list)

    def arrays(self) -> dict[str, np.ndarray]:
        """The inputs and constants."""
        found = {name: value for name, value in self.feed.items() if isinstance(value, np.ndarray)}
        for tensor in self.model.graph.initializer:
            found[tensor.name] = numpy_helper.to_array(tensor)
        return found

    def with_model(self, change: Callable[[onnx.ModelProto], None]) -> Case:
        """The same with another model; constants and inputs that it no longer reads go."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        change(model)
        read = {name for node in Sliced(_copy(model), False).reads for name in node}
        graph = model.graph
        for kept in (graph.initializer, graph.input):
            left = [each for each in kept if each.name in read]
            del kept[:]
            kept.extend(left)
        feed = {name: value for name, value in self.feed.items() if name in {v.name for v in graph.input}}
        return replace(self, model=model, feed=feed)

    def with_arrays(self, arrays: Mapping[str, np.ndarray]) -> Case:
        """The same with other inputs and constants, whose shapes may be others as well."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        for tensor in model.graph.initializer:
            if tensor.name in arrays:
                tensor.CopyFrom(
                    numpy_helper.from_array(np.asarray(arrays[tensor.name], order="C"), tensor.name)
                )
        for value in model.graph.input:
            if value.name in arrays and value.type.HasField("tensor_type"):
                dims = value.type.tensor_type.shape.dim
                for dim, size in zip(dims, arrays[value.name].shape, strict=False):
                    if dim.HasField("dim_value"):
                        dim.dim_value = size
        _forget_shapes(model)
        feed = {name: arrays.get(name, value) for name, value in self.feed.items()}
        return replace(self, model=model, feed=feed)


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    made = onnx.ModelProto()
    made.CopyFrom(model)
    return made


def _forget_shapes(model: onnx.ModelProto) -> None:
    for value in model.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]


class Shrinker:
    """Tries smaller cases.

    Args:
        judge: of cases.
        symptom: that has to stay.
        seconds: how long it may take.
        told: hears what is being done.
    """

    def __init__(self, judge: Judge, symptom: Symptom, seconds: float, told: Callable[[str], None]) -> None:
        self.judge, self.symptom, self.told = judge, symptom, told
        self._deadline = time.monotonic() + seconds

    def shown(self, case: Case) -> Judgement | None:
        """The judgement of a case that shows the symptom."""
        other = None if case.target == self.judge.target.target else case.target
        feeds = [case.feed]
        if case.mode.threads > 1:
            from ephost.bisection.locating import turned

            feeds.append(turned(case.feed))
        for _ in range(3 if case.mode.threads > 1 else 1):
            judgement = self.judge.judge(case.model, feeds, case.mode, target=other)
            if self.symptom.shown_by(judgement):
                return judgement
        return None

    def _better(self, case: Case, candidate: Case | None, step: str) -> Case | None:
        if candidate is None or self.late:
            return None
        try:
            shown = self.shown(candidate)
        except (KeyError, ValueError, TypeError):  # no model any more
            return None
        if not shown:
            return None
        candidate.steps = [*case.steps, step]
        return candidate

    @property
    def late(self) -> bool:
        """Whether time is up."""
        return time.monotonic() > self._deadline

    def shrink(self, case: Case) -> Case:
        """The smallest case that is found."""
        if self.shown(case) is None:
            return case
        passes = (
            self._bodies, self._nodes, self._runs, self._outputs, self._attributes, self._inputs,
            self._dimensions, self._sizes, self._factors, self._numbers, self._options,
        )  # fmt: skip
        while not self.late:
            before = len(case.steps)
            for each in passes:
                self.told(f"shrinking: {each.__name__.strip('_')}")
                case = each(case)
            if len(case.steps) == before:
                break
        return case

    # ---- what can go ----

    def _bodies(self, case: Case) -> Case:
        """What is in bodies in the place of the nodes that have them, for as long as that serves."""
        going = True
        while going:
            going = False
            for step, model in opened(case.model):

                def replaced(made: onnx.ModelProto, model: onnx.ModelProto = model) -> None:
                    made.CopyFrom(model)
                    _forget_shapes(made)

                if better := self._better(case, case.with_model(replaced), step):
                    case, going = better, True
                    break
        return case

    def _nodes(self, case: Case) -> Case:
        sliced = Sliced(_copy(case.model), constant_inputs=False)
        if len(sliced.nodes) < 2:
            return case
        model, _, _ = sliced.cut(
            [range(len(sliced.nodes))], case.feed,
            extra=[name for node in sliced.nodes for name in node.output if name],
        )  # fmt: skip
        answers = self.judge.expected(model, [case.feed])
        if answers is None:
            return case
        values = {**case.feed, **answers[0]}

        def build(numbers: list[int]) -> Case | None:
            try:
                made, feed, _ = sliced.cut([numbers], values)
            except KeyError:
                return None
            return replace(case, model=made, feed=feed)

        def shows(numbers: list[int]) -> bool:
            made = build(numbers)
            return not self.late and made is not None and self.shown(made) is not None

        kept = smallest(range(len(sliced.nodes)), shows)
        if len(kept) == len(sliced.nodes):
            return case
        made = build(kept)
        assert made is not None
        made.steps = [*case.steps, f"{len(sliced.nodes) - len(kept)} nodes"]
        return made

    def _runs(self, case: Case) -> Case:
        for mode, step in (
            (replace(case.mode, threads=1, repeats=1), "the other runs"),
            (replace(case.mode, repeats=case.mode.repeats - 1), "a run"),
        ):
            if mode != case.mode and mode.repeats > 0:
                case = self._better(case, replace(case, mode=mode), step) or case
        return case

    def _outputs(self, case: Case) -> Case:
        for name in [value.name for value in case.model.graph.output]:
            if len(case.model.graph.output) < 2:
                break

            def drop(model: onnx.ModelProto, name: str = name) -> None:
                left = [value for value in model.graph.output if value.name != name]
                del model.graph.output[:]
                model.graph.output.extend(left)

            case = self._better(case, case.with_model(drop), f"the output {name}") or case
        return case

    def _attributes(self, case: Case) -> Case:
        for at, node in enumerate(case.model.graph.node):
            for attribute in list(node.attribute):

                def drop(model: onnx.ModelProto, at: int = at, name: str = attribute.name) -> None:
                    changed = model.graph.node[at]
                    left = [a for a in changed.attribute if a.name != name]
                    del changed.attribute[:]
                    changed.attribute.extend(left)

                case = self._better(case, case.with_model(drop), f"the attribute {attribute.name}") or case
        return case

    def _inputs(self, case: Case) -> Case:
        for at, node in enumerate(case.model.graph.node):
            for place in reversed(range(1, len(node.input))):
                if not node.input[place]:
                    continue

                def drop(model: onnx.ModelProto, at: int = at, place: int = place) -> None:
                    changed = model.graph.node[at]
                    changed.input[place] = ""
                    while changed.input and not changed.input[-1]:
                        del changed.input[-1]

                case = self._better(case, case.with_model(drop), f"the input {node.input[place]}") or case
        return case

    def _dimensions(self, case: Case) -> Case:
        """Sizes that the model leaves open are said, where that keeps the symptom."""

        def close(model: onnx.ModelProto) -> None:
            for value in model.graph.input:
                array = case.feed.get(value.name)
                if isinstance(array, np.ndarray) and value.type.HasField("tensor_type"):
                    for dim, size in zip(value.type.tensor_type.shape.dim, array.shape, strict=False):
                        dim.dim_value = size

        opened = any(
            not dim.HasField("dim_value")
            for value in case.model.graph.input
            if value.type.HasField("tensor_type")
            for dim in value.type.tensor_type.shape.dim
        )
        return self._better(case, case.with_model(close), "open dimensions") or case if opened else case

    def _sizes(self, case: Case) -> Case:
        """Smaller sizes: of all that are alike at once, else of each."""
        for size in sorted({slot.value(case) for slot in _slots(case)} - {0, 1}, reverse=True):
            together = [slot for slot in _slots(case) if slot.value(case) == size]
            for some in [together, *([slot] for slot in together if len(together) > 1)]:
                for smaller in dict.fromkeys((1, 2, 3, 4, size // 4, size // 2, size - 1)):
                    if not 0 < smaller < size or self.late:
                        continue
                    better = None
                    for last in (False, True):
                        better = self._better(
                            case, _resized(case, dict.fromkeys(some, smaller), last), f"{size} to {smaller}"
                        )
                        if better:
                            break
                    if better:
                        case = better
                        break
        return case

    def _factors(self, case: Case) -> Case:
        """Sizes that hang together by a factor, such as groups and channels."""
        for factor in (2, 3, 5, 7):
            slots = [slot for slot in _slots(case) if slot.value(case) % factor == 0 and slot.value(case) > 1]
            if not 2 <= len(slots) <= 12:
                continue
            for count in (2, 3, 4):
                for some in itertools.islice(itertools.combinations(slots, count), 60):
                    if self.late:
                        return case
                    smaller = {slot: slot.value(case) // factor for slot in some}
                    if better := self._better(case, _resized(case, smaller, False), f"a factor of {factor}"):
                        return self._factors(better)
        return case

    def _numbers(self, case: Case) -> Case:
        """Simpler numbers."""
        for name, array in case.arrays().items():
            for step, simpler in _simpler(array):
                better = self._better(case, case.with_arrays({name: simpler}), f"{name}: {step}")
                if better:
                    case = better
                    break
        return case

    def _options(self, case: Case) -> Case:
        for library in case.target.libraries:
            for key in library.options:
                smaller = replace(case, target=case.target.without_option(library.name, key))
                case = self._better(case, smaller, f"the option {key}") or case
        for key in case.target.config:
            smaller = replace(case, target=case.target.without_entry(key))
            case = self._better(case, smaller, f"the entry {key}") or case
        return case


@dataclass(frozen=True)
class _Slot:
    """A size: of an axis of an input or constant, in an attribute, or an element of a constant."""

    kind: str  # "axis", "attribute" or "element"
    owner: str | int
    place: int | str

    def value(self, case: Case) -> int:
        if self.kind == "attribute":
            assert isinstance(self.owner, int)
            node = case.model.graph.node[self.owner]
            return next((int(a.i) for a in node.attribute if a.name == self.place), 0)
        array = case.arrays().get(str(self.owner))
        if array is None:
            return 0
        assert isinstance(self.place, int)
        if self.kind == "axis":
            return int(array.shape[self.place]) if self.place < array.ndim else 0
        return int(array.flat[self.place]) if self.place < array.size else 0


def _slots(case: Case) -> list[_Slot]:
    found = []
    for name, array in case.arrays().items():
        found += [_Slot("axis", name, axis) for axis in range(array.ndim)]
        if (
            array.dtype == np.int64
            and array.ndim <= 1
            and array.size <= _LONG_CONSTANT
            and name not in case.feed
        ):
            found += [_Slot("element", name, at) for at in range(array.size)]
    for at, node in enumerate(case.model.graph.node):
        found += [
            _Slot("attribute", at, a.name)
            for a in node.attribute
            if a.type == onnx.AttributeProto.INT and a.i > 1
        ]
    return found


def _resized(case: Case, sizes: Mapping[_Slot, int], last: bool) -> Case | None:
    arrays = case.arrays()
    changed: dict[str, np.ndarray] = {}
    attributes: dict[tuple[int, str], int] = {}
    for slot, size in sizes.items():
        if slot.kind == "attribute":
            attributes[int(slot.owner), str(slot.place)] = size
            continue
        name, place = str(slot.owner), int(slot.place)
        array = changed.get(name, arrays[name])
        if slot.kind == "axis":
            start = array.shape[place] - size if last else 0
            array = np.take(array, range(start, start + size), axis=place)
        else:
            array = array.copy()
            array.flat[place] = size
        changed[name] = array
    made = case.with_arrays(changed)
    for (at, name), size in attributes.items():
        for attribute in made.model.graph.node[at].attribute:
            if attribute.name == name:
                attribute.i = size
    return made


def _simpler(array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    if (
        not array.size
        or array.dtype.kind not in "fiu"
        or (array.dtype.kind in "iu" and array.size <= _LONG_CONSTANT)
    ):
        return
    for step, made in (
        ("zeros", np.zeros_like(array)),
        ("ones", np.ones_like(array)),
        ("small integers", (np.arange(array.size) % 7 - 3).reshape(array.shape).astype(array.dtype)),
    ):
        if np.array_equal(made, array):
            return
        yield step, made
    if array.dtype.kind == "f" and np.isfinite(array).all():
        rounded = np.round(array * 4) / 4
        if not np.array_equal(rounded, array):
            yield "quarters", rounded.astype(array.dtype)
