"""The values inside of a model, as the reference computes them: in files, since there may be many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from ephost.bisection.judging import Memory, digest
from ephost.bisection.packing import Packer, identity
from ephost.bisection.processes import Trial, Worker, require_usable
from ephost.bisection.slicing import Sliced
from ephost.bisection.worker import read_value
from ephost.errors import Fail

_UNKNOWN = 1 << 20  # bytes that a value of unknown size is taken for
# Bytes from which on a file is mapped instead of read. What is mapped keeps its file open, and a process may
# have few of these; how many values of such a size are held at once is what the budget of memory says.
_MAPPED = 4 << 20


class ReferenceValues(Mapping[str, Any]):
    """Values by name, read when they are asked for."""

    def __init__(self, feed: Mapping[str, Any]) -> None:
        self._feed = dict(feed)
        self._files: dict[str, Path] = {}
        self.shapes: dict[str, tuple[int, ...]] = {
            name: np.shape(value) for name, value in feed.items() if isinstance(value, np.ndarray)
        }
        self.bytes: dict[str, int] = {}
        self.seconds = 0.0

    def __getitem__(self, name: str) -> Any:
        if name in self._feed:
            return self._feed[name]
        path = self._files[name]
        if path.suffix == ".npy" and path.stat().st_size >= _MAPPED:
            return np.load(path, mmap_mode="r")
        return read_value(path)

    def __iter__(self) -> Iterator[str]:
        yield from self._feed
        yield from self._files

    def __len__(self) -> int:
        return len(self._feed) + len(self._files)

    def add(self, name: str, path: Path) -> None:
        """Take a file for a value."""
        self._files[name] = path
        value = self[name]
        if isinstance(value, np.ndarray):
            self.shapes[name] = value.shape
            self.bytes[name] = int(value.nbytes)


def size_of(kind: onnx.TypeProto | None) -> int:
    """The bytes of a value, or a guess."""
    if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return _UNKNOWN
    count = 1
    for dim in kind.tensor_type.shape.dim:
        if not dim.HasField("dim_value"):
            return _UNKNOWN
        count *= dim.dim_value
    return count * 4


def pieces(sizes: Mapping[Any, int], budget: int) -> list[list[Any]]:
    """Things in groups of which each takes at most so many bytes, or is one thing."""
    found: list[list[Any]] = [[]]
    total = 0
    for thing, size in sizes.items():
        if found[-1] and total + size > budget:
            found.append([])
            total = 0
        found[-1].append(thing)
        total += size
    return [piece for piece in found if piece]


def compute(
    sliced: Sliced,
    against: Worker,
    packer: Packer,
    feed: Mapping[str, Any],
    folder: Path,
    memory: Memory,
    budget: int,
    limit: float,
) -> ReferenceValues:
    """Run a model at the reference with every value kept, in as many pieces as memory asks for.

    Raises:
        Fail: the reference cannot run the model.
    """
    found = ReferenceValues(feed)
    everything = list(range(len(sliced.nodes)))
    names = [name for node in sliced.nodes for name in node.output if name]
    sizes = {name: size_of(sliced.types.get(name)) for name in names}
    key = digest(identity(packer.pack(sliced.model)), dict(feed), repr(against.target.to_dict()))
    for number, piece in enumerate(pieces(sizes, budget)):
        place = folder / f"values_{key[:12]}_{number}"
        known: Sequence[tuple[str, str]] | None = memory.known.get(f"values {place.name} {budget}")
        if known is None:
            place.mkdir(parents=True, exist_ok=True)
            model, given, _ = sliced.cut([everything], found, extra=piece)
            kept = [value for value in model.graph.output if value.name in set(piece)]
            del model.graph.output[:]
            model.graph.output.extend(kept)
            verdict = against.attempt(Trial(packer.pack(model), [given], folder=str(place)), limit)
            require_usable(verdict, against.target)
            if verdict.status != "ok":
                raise Fail(
                    f"{against.target.label} cannot run the model, so there is nothing to compare with: "
                    f"{verdict.status} at {verdict.stage}: {verdict.message}"
                )
            found.seconds += sum(verdict.run_seconds)
            known = [(name, Path(path).name) for name, path in verdict.values.items()]
            memory.keep(f"values {place.name} {budget}", known)
        for name, file in known:
            if (place / file).exists():
                found.add(name, place / file)
    return found
