"""One operator that a plugin or a library brought: what its struct says of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ephost._bindings import NULL, check, ep_api, ffi, member, onnx_element_type, text
from ephost.errors import InvalidGraph
from ephost.messages import TensorProto
from ephost.providers import DEFAULT_PROVIDER
from ephost.records import Record

_REQUIRED, _OPTIONAL, _VARIADIC = range(3)


def op_member(op: Any, name: str) -> Any:
    """A function of an ``OrtCustomOp*``, or None when it has none or is older than it."""
    return member("OrtCustomOp", op, name)


class _Formal(Record, frozen=True):
    """An input or output of an operator; element type (of ONNX) 0: any."""

    name: str
    element_type: int
    option: int
    least: int = 1  # how many values a variadic one stands for
    homogeneous: bool = True


class Elsewhere(Protocol):
    """Where an operator's functions are, when that is another process."""

    @property
    def label(self) -> str:
        """What messages call whoever has them."""

    def infer(self, model: Any, node: Any, kinds: Sequence[Any]) -> list[Any]:
        """What the operator's own function says of each output of a node: a ``TensorType``, or None."""


class CustomOp(Record):
    """One operator, read from its ``OrtCustomOp``."""

    pointer: Any  # NULL: see elsewhere
    domain: str
    name: str
    ep_name: str  # "": the host's
    since_version: int
    end_version: int
    inputs: tuple[_Formal, ...]
    outputs: tuple[_Formal, ...]
    elsewhere: Elsewhere | None = None

    @property
    def label(self) -> str:
        """What messages call it."""
        return f"the custom operator {self.domain}.{self.name}"

    @property
    def is_hosts(self) -> bool:
        """Whether the host runs its nodes."""
        return self.ep_name in ("", DEFAULT_PROVIDER)

    def formals(self, of_inputs: bool, count: int) -> list[_Formal]:
        """The formal parameter of each of so many inputs or outputs."""
        known = self.inputs if of_inputs else self.outputs
        return [known[min(at, len(known) - 1)] for at in range(count)] if known else []

    def check(self, label: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Look at how many inputs and outputs a node of that label has; None among them: left out.

        Raises:
            InvalidGraph: too few or too many, or one is left out that must be there.
        """
        for what, formals, values in (
            ("input", self.inputs, inputs),
            ("output", self.outputs, outputs),
        ):
            needed = [at for at, formal in enumerate(formals) if formal.option == _REQUIRED]
            least, most = max(needed, default=-1) + 1, len(formals)
            variadic = bool(formals) and formals[-1].option == _VARIADIC
            if variadic:
                least = max(least, len(formals) - 1 + formals[-1].least)
            if len(values) < least or (len(values) > most and not variadic):
                raise InvalidGraph(
                    f"node {label} has {len(values)} {what}s: {least} to "
                    f"{'any number' if variadic else most} are allowed"
                )
            for at in needed:
                if values[at] is None:
                    raise InvalidGraph(f"node {label} leaves out its {what} {at}, which is not optional")

    def type_error(self, kinds: Sequence[int]) -> str | None:
        """What is wrong with inputs of these element types (of ONNX; 0: not known); None: nothing."""
        name = TensorProto.DataType.Name
        first = 0
        for at, (kind, formal) in enumerate(zip(kinds, self.formals(True, len(kinds)), strict=False)):
            if not kind:
                continue
            if formal.element_type not in (0, kind):
                return (
                    f"its input {at} is tensor({name(kind).lower()}), and its operator takes "
                    f"tensor({name(formal.element_type).lower()})"
                )
            if formal.option == _VARIADIC and formal.homogeneous and not formal.element_type:
                first = first or kind
                if first != kind:
                    return (
                        f"its variadic inputs are of one type, but are tensor({name(first).lower()}) and "
                        f"tensor({name(kind).lower()})"
                    )
        return None

    def kernel_definition(self, inputs: int) -> Any:
        """A new ``OrtKernelDef*``, which says in which memory a node with so many inputs wants them."""
        builder, out = ffi.new("OrtKernelDefBuilder**"), ffi.new("OrtKernelDef**")
        check(ep_api.CreateKernelDefBuilder(builder))
        memory = op_member(self.pointer, "GetInputMemoryType")
        try:
            check(ep_api.KernelDefBuilder_SetOperatorType(builder[0], self.name.encode()))
            check(ep_api.KernelDefBuilder_SetDomain(builder[0], self.domain.encode()))
            for at in range(inputs if memory is not None and self.inputs else 0):
                kind = memory(self.pointer, min(at, len(self.inputs) - 1))
                check(ep_api.KernelDefBuilder_SetInputMemType(builder[0], at, kind))
            check(ep_api.KernelDefBuilder_Build(builder[0], out))
        finally:
            ep_api.ReleaseKernelDefBuilder(builder[0])
        return out[0]


def _formals(op: Any, prefix: str) -> tuple[_Formal, ...]:
    count = int(op_member(op, f"Get{prefix}TypeCount")(op))
    characteristic = op_member(op, f"Get{prefix}Characteristic")
    arity = op_member(op, f"GetVariadic{prefix}MinArity")
    homogeneity = op_member(op, f"GetVariadic{prefix}Homogeneity")
    made = []
    for at in range(count):
        option = int(characteristic(op, at)) if characteristic is not None else _REQUIRED
        variadic = option == _VARIADIC
        made.append(
            _Formal(
                f"{prefix}{at}",
                onnx_element_type(int(op_member(op, f"Get{prefix}Type")(op, at))),
                option,
                int(arity(op)) if variadic and arity is not None else 1,
                not variadic or homogeneity is None or bool(homogeneity(op)),
            )
        )
    return tuple(made)


def read_operator(domain: str, op: Any) -> CustomOp:
    """The operator that an ``OrtCustomOp*`` is, in a domain."""
    start, end = op_member(op, "GetStartVersion"), op_member(op, "GetEndVersion")
    ep = op_member(op, "GetExecutionProviderType")
    return CustomOp(
        pointer=op,
        domain=domain,
        name=text(op_member(op, "GetName")(op)),
        ep_name=text(ep(op)) if ep is not None else "",
        since_version=int(start(op)) if start is not None else 1,
        end_version=int(end(op)) if end is not None else 2**31 - 1,
        inputs=_formals(op, "Input"),
        outputs=_formals(op, "Output"),
    )


_SAID = ("domain", "name", "ep_name", "since_version", "end_version")


def description(op: CustomOp) -> dict[str, Any]:
    """What an operator's struct says, for another process: names, numbers and lists of them."""

    def formals(some: Sequence[_Formal]) -> list[list[Any]]:
        return [[f.name, f.element_type, f.option, f.least, f.homogeneous] for f in some]

    said = {name: getattr(op, name) for name in _SAID}
    return {**said, "inputs": formals(op.inputs), "outputs": formals(op.outputs)}


def described(row: dict[str, Any], elsewhere: Elsewhere) -> CustomOp:
    """The operator of such a description, whose functions are elsewhere.

    Raises:
        KeyError, TypeError, ValueError: it is none.
    """

    def formals(rows: Any) -> tuple[_Formal, ...]:
        return tuple(
            _Formal(str(name), int(element_type), int(option), int(least), bool(homogeneous))
            for name, element_type, option, least, homogeneous in rows
        )

    return CustomOp(
        NULL,
        str(row["domain"]),
        str(row["name"]),
        str(row["ep_name"]),
        int(row["since_version"]),
        int(row["end_version"]),
        formals(row["inputs"]),
        formals(row["outputs"]),
        elsewhere,
    )
