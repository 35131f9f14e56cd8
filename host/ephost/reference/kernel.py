"""One node, ready to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from ..messages import AttributeProto, FunctionProto, Message, NodeProto
from ..onnx_schema import newest_opset, onnx_schema
from .attributes import attribute_value
from .body import Body, MakeKernel, implicit_names, subgraph_body
from .control_flow import CONTROL_FLOW, ControlNode, Subgraph
from .errors import NodeError, describe
from .functions import ContextFunction, function_body, schema_function
from .operators import Implementation, own_operator, package_operator
from .signature import Signature, signature_of
from .values import Value, normalize

Functions = Mapping[Any, Any]
"""A model's functions by (domain, name) or (domain, name, overload); onnx's own messages are taken, too."""
_M = TypeVar("_M", bound=Message)
RunSubgraph = Callable[[str, list[Value], Mapping[str, Value]], list[Value]]
"""Runs the body in the named attribute of a node: its inputs in order, outer-scope values by name."""


def _text_generator(op_type: str, node: ControlNode) -> Implementation:
    from .generation import GENERATION  # with the first of them: few models have any

    return GENERATION[op_type](node)


_GENERATORS = ("BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch")
_WITH_BODIES: dict[tuple[str, str], Callable[[ControlNode], Implementation]] = {
    **{("", name): partial(partial, run) for name, run in CONTROL_FLOW.items()},
    **{("com.microsoft", name): partial(_text_generator, name) for name in _GENERATORS},
}
"""What makes the operators that run subgraphs, by domain and name."""


class ReferenceKernel:
    """One node, ready to run on the reference operators.

    A kernel keeps no state between calls: any number of threads may call it at once. Inputs are never written
    to; an output may be a view of an input, or the input itself.
    """

    __slots__ = (
        "_declared",
        "_described",
        "_run",
        "_signature",
        "implicit_inputs",
        "input_names",
        "output_names",
    )

    input_names: tuple[str, ...]
    """As in `node.input`; "" stands for an optional input that is absent."""
    output_names: tuple[str, ...]
    """As in `node.output`; "" stands for an output that nobody reads."""
    implicit_inputs: tuple[str, ...]
    """The outer-scope names that the node's subgraphs read, sorted."""

    def __init__(
        self,
        node: NodeProto,
        described: str,
        run: Implementation,
        signature: Signature | None,
        declared: Sequence[np.dtype | None] = (),
    ) -> None:
        self.input_names = tuple(node.input)
        self.output_names = tuple(node.output)
        self.implicit_inputs = tuple(sorted(implicit_names(node)))
        self._described = described
        self._run = run
        self._signature = signature
        self._declared = declared

    def __repr__(self) -> str:
        return f"<ReferenceKernel of {self._described}>"

    def __call__(self, inputs: Sequence[Value], implicit: Mapping[str, Value] | None = None) -> list[Value]:
        """Runs the node once.

        `inputs` are in the order of `input_names`, with None for an absent one; `implicit` holds the values
        of `implicit_inputs`. Returns one value for each of `output_names`: tensors as arrays of exactly the
        element type that ONNX demands (0-dimensional ones too), strings as object arrays of `str`.

        Raises NodeError, which names the node, for whatever goes wrong.
        """
        try:
            values = [normalize(value) for value in inputs]
            with np.errstate(all="ignore"):
                results = self._run(values, implicit or {})
                return self._finish(values, results)
        except NodeError as error:
            raise NodeError(f"{self._described}: {error}") from error
        except Exception as error:
            raise NodeError(f"{self._described}: {type(error).__name__}: {error}") from error

    def _finish(self, inputs: Sequence[Value], results: Sequence[Any]) -> list[Value]:
        outputs: list[Value] = []
        for index, name in enumerate(self.output_names):
            if index >= len(results):
                if name:
                    raise ValueError(
                        f"the implementation makes {len(results)} outputs, {name!r} is not among them"
                    )
                outputs.append(None)
                continue
            value = normalize(results[index])
            if isinstance(value, np.ndarray) and self._signature is not None:
                dtype = self._signature.output_dtype(index, inputs)
                if dtype is None and index < len(self._declared):
                    dtype = self._declared[index]
                if dtype is not None and value.dtype != dtype:
                    value = value.astype(dtype)
            outputs.append(value)
        return outputs


def create_kernel(
    node: Any,
    opset_imports: Mapping[str, int],
    functions: Functions | None = None,
    *,
    run_subgraph: RunSubgraph | None = None,
    declared: Sequence[np.dtype | None] = (),
) -> ReferenceKernel:
    """Makes the kernel of `node`, a message of this project's or of onnx's.

    `declared` are the element types that the model gives the outputs, for those of which neither the schema
    nor the inputs say any; None where it says nothing.

    A reference operator comes first, then a function of the model, then the function body of the operator's
    schema. The bodies of If, Loop, Scan and SequenceMap run through `run_subgraph` where it is given, else on
    kernels like this one. Function bodies always run on kernels like this one.

    Raises NotImplementedError, naming operator and node, where there is no implementation of the node or of
    one in a body that it needs; NodeError for a node whose attributes are wrong.
    """
    return _Maker(opset_imports, functions or {}).kernel(_own(NodeProto, node), run_subgraph, declared)


def _own(kind: type[_M], message: Any) -> _M:
    """A message as this project's; ``kind`` is its class here."""
    return message if isinstance(message, kind) else kind.FromString(message.SerializeToString())


class _Maker:
    """Makes kernels under one set of opset imports."""

    def __init__(self, opset_imports: Mapping[str, int], functions: Functions) -> None:
        self._imports = {_plain(domain): version for domain, version in opset_imports.items()}
        self._functions = functions

    def kernel(
        self,
        node: NodeProto,
        run_subgraph: RunSubgraph | None = None,
        declared: Sequence[np.dtype | None] = (),
    ) -> ReferenceKernel:
        domain = _plain(node.domain)
        version = self._imports.get(domain)
        described = describe(node, version)
        try:
            signature = signature_of(node.op_type, domain, version) if version is not None else None
            run = self._implementation(node, domain, version, signature, run_subgraph)
        except NotImplementedError as error:
            raise NotImplementedError(f"{described}: {error}") from error
        except NodeError as error:
            raise NodeError(f"{described}: {error}") from error
        except Exception as error:
            raise NodeError(f"{described}: {type(error).__name__}: {error}") from error
        if run is None:
            raise NotImplementedError(
                f"{described}: no reference operator and no function body implements it"
            )
        return ReferenceKernel(node, described, run, signature, declared)

    def _implementation(
        self,
        node: NodeProto,
        domain: str,
        version: int | None,
        signature: Signature | None,
        run_subgraph: RunSubgraph | None,
    ) -> Implementation | None:
        if version is not None:
            subgraphs = self._subgraphs(node, run_subgraph)
            make = _WITH_BODIES.get((domain, node.op_type))
            if make is not None:
                attributes = {a.name: attribute_value(a) for a in node.attribute if a.name not in subgraphs}
                return make(ControlNode(version, subgraphs, attributes, tuple(map(bool, node.output))))
            found = own_operator(node, domain, version, signature, self._imports) or package_operator(
                node, domain, version, signature, self._imports, subgraphs
            )
            if found is not None:
                return found
        function = self._functions.get((node.domain, node.op_type, node.overload)) or (
            self._functions.get((node.domain, node.op_type))
        )
        if function is not None:
            return self._expand(_own(FunctionProto, function), node, signature)
        schema: Any = onnx_schema(node.op_type, domain, version) if version is not None else None
        if schema is None:
            return None
        main = self._imports.get("", newest_opset())
        function = schema_function(schema, main)
        if function is not None:
            return self._expand(function, node, signature)
        if schema.has_context_dependent_function:
            return ContextFunction(schema, main, node, lambda body: self._expand(body, node, signature))
        return None

    def _subgraphs(self, node: NodeProto, run_subgraph: RunSubgraph | None) -> dict[str, Subgraph]:
        subgraphs = {}
        for attribute in node.attribute:
            if attribute.type != AttributeProto.GRAPH:
                continue
            subgraphs[attribute.name] = Subgraph(
                attribute.g,
                subgraph_body(attribute.g, self.kernel)
                if run_subgraph is None
                else partial(_hooked, run_subgraph, attribute.name),
            )
        return subgraphs

    def _expand(self, function: FunctionProto, node: NodeProto, signature: Signature | None) -> Body:
        defaults = signature.defaults if signature is not None else {}
        return function_body(function, node, defaults, self._imports, self._under)

    def _under(self, opset_imports: Mapping[str, int]) -> MakeKernel:
        return _Maker(opset_imports, self._functions).kernel


def _plain(domain: str) -> str:
    """ONNX's own domain has two names; "" is the one used here."""
    return "" if domain == "ai.onnx" else domain


def _hooked(
    run_subgraph: RunSubgraph, attribute: str, inputs: Sequence[Value], implicit: Mapping[str, Value]
) -> list[Value]:
    return run_subgraph(attribute, list(inputs), implicit)
