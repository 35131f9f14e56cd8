"""What a model takes and gives, as the protocol says it, and whether a request fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ephost.errors import NotImplemented
from ephost.serving.datatypes import OF_ONNX
from ephost.serving.errors import BadRequest
from ephost.suggestions import did_you_mean

if TYPE_CHECKING:
    from ephost.describing import NodeArg
    from ephost.session import InferenceSession


@dataclass(frozen=True)
class TensorSpec:
    """An input or output: its name, the protocol's datatype, and its shape with -1 for open dimensions."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    required: bool = True

    def described(self) -> dict[str, Any]:
        """As the protocol's metadata has it."""
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape)}


@dataclass(frozen=True)
class Signature:
    """A model's inputs, those with a default last, and its outputs."""

    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]

    @classmethod
    def of(cls, session: InferenceSession) -> Signature:
        """That of an open session.

        Raises:
            NotImplemented: it takes or gives what the protocol has no datatype for.
        """
        inputs = [_spec("input", each) for each in session.get_inputs()]
        inputs += [_spec("input", each, required=False) for each in session.get_overridable_initializers()]
        outputs = [_spec("output", each) for each in session.get_outputs()]
        return cls({each.name: each for each in inputs}, {each.name: each for each in outputs})

    def check_names(self, names: Sequence[str]) -> None:
        """Look for inputs that are unknown, missing or there twice.

        Raises:
            BadRequest: there are some.
        """
        for at, name in enumerate(names):
            if name not in self.inputs:
                raise BadRequest(
                    f"the model has no input '{name}'{did_you_mean(name, self.inputs)}; its inputs are "
                    f"{', '.join(self.inputs)}"
                )
            if name in names[:at]:
                raise BadRequest(f"input '{name}' is there twice")
        if missing := [
            each.name for each in self.inputs.values() if each.required and each.name not in names
        ]:
            raise BadRequest(f"inputs are missing: {', '.join(missing)}")

    def check_input(self, name: str, datatype: Any, shape: tuple[int, ...]) -> None:
        """Hold what a request says of an input against the model.

        Raises:
            BadRequest: another datatype, rank or dimension.
        """
        spec = self.inputs[name]
        if datatype != spec.datatype:
            raise BadRequest(f"input '{name}' is {spec.datatype}, not {datatype}")
        if len(shape) != len(spec.shape) or any(
            want not in (-1, got) for got, want in zip(shape, spec.shape, strict=True)
        ):
            raise BadRequest(
                f"input '{name}' has the shape {list(spec.shape)} (-1: any size), not {list(shape)}"
            )

    def check_outputs(self, names: Sequence[str]) -> None:
        """Look for outputs that are unknown or asked for twice.

        Raises:
            BadRequest: there are some.
        """
        for at, name in enumerate(names):
            if name not in self.outputs:
                raise BadRequest(
                    f"the model has no output '{name}'{did_you_mean(name, self.outputs)}; its outputs are "
                    f"{', '.join(self.outputs)}"
                )
            if name in names[:at]:
                raise BadRequest(f"output '{name}' is asked for twice")

    @cached_property
    def bytes_at_once(self) -> int:
        """How many bytes of a request's tensors hold nobody up while they are converted."""
        specs = (*self.inputs.values(), *self.outputs.values())
        return _TEXTS_AT_ONCE if any(spec.datatype == "BYTES" for spec in specs) else _AT_ONCE

    @property
    def unbatchable(self) -> str:
        """Why requests cannot be run as one along the first axis, as far as shapes tell; "" if they can."""
        for kind, specs in (("input", self.inputs), ("output", self.outputs)):
            for spec in specs.values():
                if spec.required and (not spec.shape or spec.shape[0] != -1):
                    return f"the first axis of {kind} '{spec.name}' {list(spec.shape)} is not open"
        return ""


# Bytes of tensors that the event loop reads or writes itself: numbers take a copy, texts a step each.
_AT_ONCE, _TEXTS_AT_ONCE = 1 << 20, 64 << 10


def _spec(kind: str, argument: NodeArg, *, required: bool = True) -> TensorSpec:
    if argument.type not in OF_ONNX:
        raise NotImplemented(
            f"the {kind} '{argument.name}' is {argument.type}, which the Open Inference Protocol has no "
            "datatype for"
        )
    dims = tuple(dim if isinstance(dim, int) else -1 for dim in argument.shape)
    return TensorSpec(argument.name, OF_ONNX[argument.type], dims, required)


def rows_of(inputs: Mapping[str, np.ndarray]) -> int:
    """How long the first axis of all inputs is; 0 where they differ, or one has none."""
    sizes = {array.shape[0] if array.ndim else 0 for array in inputs.values()}
    return sizes.pop() if len(sizes) == 1 else 0
