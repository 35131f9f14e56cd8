"""Rows of Ray Data through a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ephost.errors import Fail, InvalidArgument, PluginFault
from ephost.ray.opened import Source
from ephost.serving.datatypes import DATATYPES
from ephost.suggestions import did_you_mean

Batch = Mapping[str, np.ndarray]


class Predictor:
    """A model for ``Dataset.map_batches(Predictor, fn_constructor_args=[model], batch_format="numpy")``.

    Each actor opens one session, when it starts. A row is an element along the first axis of every input
    and output, so that rows know nothing of each other; rows of other shapes than their neighbours are run
    apart from them.
    """

    def __init__(
        self,
        model: str,
        *,
        columns: Mapping[str, str] | None = None,
        outputs: Mapping[str, str] | None = None,
        constants: Mapping[str, Any] | None = None,
        keep: Sequence[str] | None = None,
        version: int | None = None,
        libraries: Mapping[str, str] | None = None,
        isolated: bool = False,
        devices: Mapping[str, str] | None = None,
    ) -> None:
        """Open the model.

        Args:
            model: a model's folder or file, see :class:`ephost.ray.opened.Source`.
            columns: for inputs whose column has another name, that name.
            outputs: the outputs that are wanted, and the columns that they become; None: all, by their names.
            constants: whole tensors for inputs that are the same in each run, such as a threshold.
            keep: the columns of a batch that stay; None: those that are no input's.
            version: of a folder; None: the highest.
            libraries: plugin libraries to register: names, and paths or packages.
            isolated: whether they are loaded into processes of their own.
            devices: what a device must be to be taken.

        Raises:
            InvalidArgument: a name that the model does not have, or an input without an axis for rows.
            What opening raises.
        """
        source = Source(str(model), version, dict(libraries or {}), isolated, dict(devices or {}))
        self._opened = source.open()
        self._label = str(model)
        signature = self._opened.signature
        for kind, given, there in (
            ("columns", columns, signature.inputs),
            ("constants", constants, signature.inputs),
            ("outputs", outputs, signature.outputs),
        ):
            for name in given or {}:
                if name not in there:
                    raise InvalidArgument(
                        f"{kind}: the model {model} has no '{name}'{did_you_mean(name, there)}; "
                        f"it has {', '.join(there)}"
                    )
        self._constants = {name: np.asarray(value) for name, value in (constants or {}).items()}
        self._columns = {
            name: (columns or {}).get(name, name)
            for name, spec in signature.inputs.items()
            if name not in self._constants and (spec.required or name in (columns or {}))
        }
        self._outputs = dict(outputs) if outputs is not None else {name: name for name in signature.outputs}
        self._keep = keep
        self._rows = self._rows_of_a_run()

    def _rows_of_a_run(self) -> int | None:
        """How many rows each run must have; None: any number."""
        fixed = set()
        for name in self._columns:
            shape = self._opened.signature.inputs[name].shape
            if not shape:
                raise InvalidArgument(
                    f"input '{name}' of the model {self._label} has no axis for rows: give it in `constants`"
                )
            fixed.add(shape[0])
        fixed.discard(-1)
        if len(fixed) > 1:
            raise InvalidArgument(
                f"the inputs of the model {self._label} have different numbers of rows: {sorted(fixed)}"
            )
        return fixed.pop() if fixed else None

    def __call__(self, batch: Batch) -> dict[str, np.ndarray]:
        """Run a batch.

        Args:
            batch: columns of one length; what is an input's is of the input's dtype, a row of it with one
            axis less.

        Returns:
            The columns that stay, and the outputs: arrays, or arrays of arrays where rows differ in shape.

        Raises:
            InvalidArgument: a column is missing, or an output's is there already.
            Fail: an output has not a row for each row.
            What running raises.
        """
        missing = [column for column in (*self._columns.values(), *(self._keep or ())) if column not in batch]
        if missing:
            raise InvalidArgument(
                f"the batch has no column '{missing[0]}'{did_you_mean(missing[0], batch)}; "
                f"it has {', '.join(batch)}"
            )
        used = set(self._columns.values())
        kept = self._keep if self._keep is not None else [name for name in batch if name not in used]
        if twice := set(kept) & set(self._outputs.values()):
            raise InvalidArgument(
                f"the column '{min(twice)}' is the batch's and an output's: rename the output, "
                "or leave it out of `keep`"
            )
        columns = {name: self._typed(name, batch[column]) for name, column in self._columns.items()}
        count = len(next(iter(columns.values()))) if columns else 0
        parts = [(at, self._run(columns, at)) for at in self._runs(columns, count)]
        answer = {name: batch[name] for name in kept}
        for name, column in self._outputs.items():
            answer[column] = self._joined(name, [(at, results[name]) for at, results in parts], count)
        return answer

    def _typed(self, name: str, column: np.ndarray) -> np.ndarray:
        """A column whose rows, where they are objects, are arrays of the input's dtype or texts."""
        datatype = self._opened.signature.inputs[name].datatype
        if column.dtype != object or datatype == "BYTES":
            return column
        rows = np.empty(len(column), object)
        for at, row in enumerate(column):
            # Lists come from tables that know no tensors; what has a dtype keeps it.
            rows[at] = row if isinstance(row, np.ndarray) else np.asarray(row, DATATYPES[datatype])
        return rows

    def _runs(self, columns: Batch, count: int) -> Iterator[list[int]]:
        """The indices of the rows of each run: rows that are alike, as many as a run may have."""
        most = self._opened.config.batching.max_size
        step = self._rows or (most if most > 1 else count) or 1
        for group in _alike(columns, count):
            for start in range(0, len(group), step):
                yield group[start : start + step]

    def _run(self, columns: Batch, at: list[int]) -> dict[str, np.ndarray]:
        """The outputs of the rows of a run."""
        feed = {name: _stacked(column, at) for name, column in columns.items()}
        rows = self._rows or len(at)
        if rows > len(at):  # the last row stands in for those that are not there
            feed = {
                name: np.concatenate([each, each[-1:].repeat(rows - len(at), 0)])
                for name, each in feed.items()
            }
        names = list(self._outputs)
        try:
            results = self._opened.session.run(names, {**feed, **self._constants})
        except PluginFault:
            self._opened.reopen()  # for the batches after this one
            raise
        for name, value in zip(names, results, strict=True):
            if value.ndim == 0 or value.shape[0] != rows:
                raise Fail(
                    f"output '{name}' of {self._label} has the shape {list(value.shape)} for {rows} rows: "
                    "it has no row for each of them"
                )
        return {name: value[: len(at)] for name, value in zip(names, results, strict=True)}

    def _joined(self, name: str, parts: list[tuple[list[int], np.ndarray]], count: int) -> np.ndarray:
        """An output's column of the parts that runs gave, each with the indices of its rows."""
        if not parts:
            spec = self._opened.signature.outputs[name]
            return np.empty((0, *(max(dim, 0) for dim in spec.shape[1:])), DATATYPES[spec.datatype])
        _, first = parts[0]
        if len(parts) == 1:
            return first
        if len({rows.shape[1:] for _, rows in parts}) == 1:
            column = np.empty((count, *first.shape[1:]), first.dtype)
            for at, rows in parts:
                column[at] = rows
            return column
        column = np.empty(count, object)
        for at, rows in parts:
            for index, row in zip(at, rows, strict=True):
                column[index] = row
        return column


def _alike(columns: Batch, count: int) -> list[list[int]]:
    """The indices of rows whose shapes are the same, in the order in which shapes come."""
    ragged = [column for column in columns.values() if column.dtype == object and column.ndim == 1]
    groups: dict[tuple[Any, ...], list[int]] = {}
    for at in range(count):
        groups.setdefault(tuple(np.shape(column[at]) for column in ragged), []).append(at)
    return list(groups.values())


def _stacked(column: np.ndarray, at: list[int]) -> np.ndarray:
    if column.dtype == object and column.ndim == 1 and isinstance(column[at[0]], np.ndarray):
        return np.stack([column[index] for index in at])
    return column if len(at) == len(column) else column[at]
