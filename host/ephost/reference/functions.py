"""Function bodies: those of the model and those that ONNX's schemas carry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ..messages import AttributeProto, FunctionProto, NodeProto
from .attributes import bind_attributes
from .body import Body, MakeKernel
from .values import Value, type_of

# The onnx package's stubs leave out what a schema says of its functions: here schemas are `Any`.

MakeKernelFor = Callable[[Mapping[str, int]], MakeKernel]
"""Gives the way to make kernels of nodes that stand under these opset imports."""


def function_body(
    function: FunctionProto,
    node: NodeProto,
    defaults: Mapping[str, AttributeProto],
    opset_imports: Mapping[str, int],
    make_kernel_for: MakeKernelFor,
) -> Body:
    """The body of `function` as `node` calls it.

    `defaults` are attributes that hold where the node gives none; the function's own come before them. The
    function's opset imports hold inside; `opset_imports` are the caller's, for domains that the function does
    not name.
    """
    bindings = {**defaults, **{attribute.name: attribute for attribute in function.attribute_proto}}
    bindings.update((attribute.name, attribute) for attribute in node.attribute)
    imports = {**opset_imports, **{entry.domain: entry.version for entry in function.opset_import}}
    make_kernel = make_kernel_for(imports)
    nodes = body_nodes(function, node.input)
    kernels = [make_kernel(bind_attributes(inner, bindings)) for inner in nodes]
    return Body(kernels, function.input, function.output)


def body_nodes(function: FunctionProto, given: Sequence[Any]) -> list[NodeProto]:
    """The nodes of a function that is called with these inputs, of which those that are left out are empty:
    an input that has the name of a Constant stands in its place, as in onnxruntime.
    """
    names = {name for name, value in zip(function.input, given, strict=False) if value}
    return [
        node
        for node in function.node
        if node.op_type != "Constant" or node.domain not in ("", "ai.onnx") or names.isdisjoint(node.output)
    ]


def schema_function(schema: Any, version: int) -> FunctionProto | None:
    """The newest function body of a schema that is valid at opset `version`, or None."""
    versions = [candidate for candidate in schema.function_opset_versions if candidate <= version]
    if not versions:
        return None
    return FunctionProto.FromString(schema.get_function_with_opset_version(max(versions)))


class ContextFunction:
    """An operator whose schema builds the function body from the types of the inputs: known when it is
    called.
    """

    _BODIES_KEPT = 16

    def __init__(
        self,
        schema: Any,
        version: int,
        node: NodeProto,
        expand: Callable[[FunctionProto], Body],
    ) -> None:
        versions = [
            candidate
            for candidate in schema.context_dependent_function_opset_versions
            if candidate <= version
        ]
        if not versions:
            raise NotImplementedError(f"no function body of {schema.name} is valid at opset {version}")
        serialized = node.SerializeToString()

        @lru_cache(maxsize=self._BODIES_KEPT)
        def body(types: tuple[bytes, ...]) -> Body:
            text = schema.get_context_dependent_function_with_opset_version(
                max(versions), serialized, list(types)
            )
            return expand(FunctionProto.FromString(text))

        self._body = body

    def __call__(self, inputs: Sequence[Value], implicit: Mapping[str, Value]) -> list[Value]:
        """Runs the body for the types of these inputs; bodies of the last few types are kept."""
        types = tuple(type_of(value).SerializeToString() for value in inputs)
        return self._body(types)(inputs, implicit)
