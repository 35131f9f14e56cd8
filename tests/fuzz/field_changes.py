"""Changes of the models' fuzzer to types, constants and what a model says of itself.

Each says what it did, "" if there was nothing to do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.fuzz.hostile import DTYPES
from tests.fuzz.model_draft import NAMES, Draft

DIMS: list[int | str | None] = [
    0,
    1,
    2,
    3,
    5,
    -1,
    -(2**63),
    2**31,
    2**62,
    2**63 - 1,
    "n",
    "m",
    "",
    "\0",
    None,
]
DATA_FIELDS = ["float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data"]


def _infos(draft: Draft) -> list[onnx.ValueInfoProto]:
    found: list[onnx.ValueInfoProto] = []
    for place in draft.places():
        if place.graph is not None:
            found += [*place.graph.input, *place.graph.output, *place.graph.value_info]
        if place.function is not None:
            found += place.function.value_info
    return found


def _tensor_type(kind: onnx.TypeProto) -> onnx.TypeProto.Tensor:
    """The tensor in a type, however deep it is."""
    match kind.WhichOneof("value"):
        case "sequence_type":
            return _tensor_type(kind.sequence_type.elem_type)
        case "optional_type":
            return _tensor_type(kind.optional_type.elem_type)
        case "map_type":
            return _tensor_type(kind.map_type.value_type)
    return kind.tensor_type


def declared(draft: Draft) -> str:
    """What the model says of a value's type."""
    random = draft.random
    infos = _infos(draft)
    if not infos:
        return ""
    info = random.choice(infos)
    match random.randrange(12):
        case 0:
            info.ClearField("type")
            return f"{info.name[:20]!r} has no type"
        case 1 | 2:
            _tensor_type(info.type).elem_type = random.choice(
                [1, 1, 7, 6, 9, 10, 11, 8, random.randrange(30)]
            )
            return f"{info.name[:20]!r} is of type {_tensor_type(info.type).elem_type}"
        case 3:
            _tensor_type(info.type).ClearField("shape")
            return f"{info.name[:20]!r} has no shape"
        case 4:
            was = onnx.TypeProto()
            was.CopyFrom(info.type)
            outer = onnx.TypeProto()
            random.choice([outer.sequence_type, outer.optional_type]).elem_type.CopyFrom(was)
            info.type.CopyFrom(outer)
            return f"{info.name[:20]!r} is a {outer.WhichOneof('value')}"
        case 5:
            kind = onnx.TypeProto()
            match random.randrange(4):
                case 0:
                    kind.map_type.key_type = random.choice([7, 8, 1])
                    kind.map_type.value_type.tensor_type.elem_type = 1
                case 1:
                    kind.sparse_tensor_type.elem_type = 1
                case 2:
                    kind.sequence_type.SetInParent()
                case _:
                    kind.tensor_type.SetInParent()
            info.type.CopyFrom(kind)
            return f"{info.name[:20]!r} is a {kind.WhichOneof('value')}"
    return _shape(draft, info)


def _shape(draft: Draft, info: onnx.ValueInfoProto) -> str:
    random = draft.random
    shape = _tensor_type(info.type).shape
    match random.randrange(5):
        case 0:
            del shape.dim[:]
        case 1:
            shape.dim.add(dim_value=random.choice([1, 2]))
        case 2 if shape.dim:
            del shape.dim[random.randrange(len(shape.dim))]
        case _:
            if not shape.dim:
                return ""
            dim = random.choice(shape.dim)
            dim.Clear()
            value = random.choice(DIMS)
            if isinstance(value, int):
                dim.dim_value = value
            elif value is not None:
                dim.dim_param = value
    if not shape.dim:
        shape.SetInParent()
    said = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in shape.dim]
    return f"{info.name[:20]!r} is said to be {str(said)[:60]}"


def lie(draft: Draft) -> str:
    """A type of a value inside, or of one that there is not."""
    graph = draft.graph()
    made = [name for node in graph.node for name in node.output if name]
    name = draft.random.choice(made) if made and draft.random.random() < 0.9 else draft.random.choice(NAMES)
    kind = draft.random.choice([1, 1, 1, 7, 9, 10, 11])
    dims = [draft.random.choice(DIMS) for _ in range(draft.random.randrange(5))]
    graph.value_info.append(helper.make_tensor_value_info(name, kind, dims))
    return f"{name[:20]!r} is listed as {kind} {str(dims)[:60]}"


def tensor(draft: Draft) -> str:
    """A constant: its type, its shape, its content, and how that is written."""
    random = draft.random
    held = draft.tensors()
    if not held:
        return ""
    changed = random.choice(held)
    said = f"constant {changed.name[:20]!r}"
    match random.randrange(14):
        case 0:
            changed.data_type = random.choice([1, 7, 6, 9, 10, 11, 8, 2, 16, 22, random.randrange(30)])
            return f"{said} is of type {changed.data_type}"
        case 1:
            changed.dims[:] = (
                draft.dims(list(changed.dims))
                if random.random() < 0.6
                else [random.choice([-1, 2**31, 2**62])]
            )
            return f"{said} is of shape {list(changed.dims)[:8]}"
        case 2 if changed.raw_data:
            changed.raw_data = changed.raw_data[: random.randrange(len(changed.raw_data))]
            return f"{said} is cut short"
        case 3:
            changed.raw_data += bytes(random.randrange(1, 9))
            return f"{said} has more bytes"
        case 4:
            field = random.choice(DATA_FIELDS)
            getattr(changed, field).extend([b"1"] if field == "string_data" else [1])
            return f"{said} has {field}, too"
        case 5:
            return f"{said} {_external(draft, changed)}"
        case 6:
            changed.name = random.choice(NAMES)
            return f"{said} is named {changed.name[:20]!r}"
        case 7:
            changed.ClearField(random.choice(["data_type", "dims", "raw_data"]))
            return f"{said} lacks a field"
        case 8:
            changed.segment.begin, changed.segment.end = 0, 1
            return f"{said} is a segment"
    try:
        array = numpy_helper.to_array(changed)
    except Exception:  # changed before
        return ""
    if array.dtype.kind not in "iufbO" or array.size > 1 << 12:
        return ""
    match random.randrange(4):
        case 0 if array.dtype.kind != "O":  # in fields instead of bytes
            made = helper.make_tensor(
                changed.name, changed.data_type, changed.dims, array.reshape(-1).tolist()
            )
            said += " is written in fields"
        case 1:
            shaped = np.resize(array, draft.dims(list(array.shape))) if array.size else array
            made = numpy_helper.from_array(shaped, changed.name)
            said += f" becomes {shaped.shape}"
        case 2 if array.dtype.kind != "O":
            with np.errstate(all="ignore"):
                made = numpy_helper.from_array(array.astype(random.choice(DTYPES)), changed.name)
            said += f" becomes {made.data_type}"
        case _:
            made = numpy_helper.from_array(draft.elements(array), changed.name)
            said += " has other elements"
    changed.CopyFrom(made)
    return said


def _external(draft: Draft, changed: onnx.TensorProto) -> str:
    random = draft.random
    if not changed.external_data or random.random() < 0.3:
        changed.data_location = random.choice([TensorProto.EXTERNAL, TensorProto.DEFAULT])
        name = random.choice(
            [*draft.files, "weights.data", "../weights.data", "/etc/passwd", "", "nowhere", "."]
        )
        changed.external_data.add(key=random.choice(["location", "location", ""]), value=name)
        return f"lies in {name!r}"
    entry = random.choice(changed.external_data)
    if random.random() < 0.2:
        changed.external_data.remove(entry)
        return f"has no {entry.key}"
    entry.value = random.choice([str(draft.number()), "", "x", "1e3", " 4", "0x10", "٣"])
    return f"has {entry.key} {entry.value!r}"


def sparse(draft: Draft) -> str:
    """A weight becomes sparse; what is sparse has other fields."""
    random, graph = draft.random, draft.graph()
    if graph.sparse_initializer and random.random() < 0.6:
        held = random.choice(graph.sparse_initializer)
        match random.randrange(4):
            case 0:
                held.dims[:] = draft.dims(list(held.dims)) if random.random() < 0.6 else [2**31, 2**31]
            case 1:
                indices = draft.elements(np.arange(max(1, len(held.values.raw_data) // 4)))
                held.indices.CopyFrom(numpy_helper.from_array(indices))
            case 2:
                held.ClearField(random.choice(["indices", "values", "dims"]))
            case _:
                graph.sparse_initializer.append(held)
        return "a sparse weight is another"
    if not graph.initializer:
        return ""
    at = random.randrange(len(graph.initializer))
    weight = graph.initializer[at]
    try:
        array = numpy_helper.to_array(weight)
    except Exception:
        return ""
    if array.dtype.kind not in "fiu" or not 0 < array.size < 1 << 12:
        return ""
    kept = np.flatnonzero(array)
    made = graph.sparse_initializer.add(dims=weight.dims)
    made.values.CopyFrom(numpy_helper.from_array(array.reshape(-1)[kept], weight.name))
    indices = kept if random.random() < 0.5 else np.argwhere(array)
    made.indices.CopyFrom(numpy_helper.from_array(indices.astype(np.int64)))
    del graph.initializer[at]
    return f"{made.values.name[:20]!r} is sparse"


def weight_to_input(draft: Draft) -> str:
    graph = draft.graph()
    if not graph.initializer:
        return ""
    at = draft.random.randrange(len(graph.initializer))
    weight = graph.initializer[at]
    if not 0 <= weight.data_type < 26:
        return ""
    dims: list[Any] = list(weight.dims) if draft.random.random() < 0.7 else [None] * len(weight.dims)
    graph.input.append(helper.make_tensor_value_info(weight.name, weight.data_type, dims))
    keeps = draft.random.random() < 0.4
    if not keeps:
        try:
            draft.feeds[weight.name] = numpy_helper.to_array(weight)
        except Exception:
            draft.feeds.pop(weight.name, None)
        del graph.initializer[at]
    return f"weight {graph.input[-1].name[:20]!r} is an input{', too' if keeps else ''}"


def input_to_weight(draft: Draft) -> str:
    graph = draft.model.graph
    fed = [at for at, i in enumerate(graph.input) if isinstance(draft.feeds.get(i.name), np.ndarray)]
    if not fed:
        return ""
    at = draft.random.choice(fed)
    name = graph.input[at].name
    value = draft.feeds[name]
    if value.dtype.kind not in "iufbO":
        return ""
    graph.initializer.append(numpy_helper.from_array(value, name))
    if draft.random.random() < 0.85:
        del graph.input[at]
    return f"input {name[:20]!r} is a weight"


def weight_to_constant(draft: Draft) -> str:
    """A weight becomes a Constant node, also by the attributes of lists."""
    random, graph = draft.random, draft.graph()
    if not graph.initializer:
        return ""
    at = random.randrange(len(graph.initializer))
    weight = onnx.TensorProto()
    weight.CopyFrom(graph.initializer[at])
    attributes: dict[str, Any] = {"value": weight}
    if weight.data_type in (TensorProto.FLOAT, TensorProto.INT64) and len(weight.dims) < 2:
        suffix = "s" if weight.dims else ""
        name = ("value_float" if weight.data_type == TensorProto.FLOAT else "value_int") + suffix
        try:
            attributes = random.choice([attributes, {name: numpy_helper.to_array(weight).tolist()}])
        except Exception:
            return ""
    if not attributes.get("value", 1):
        return ""
    try:
        node = helper.make_node("Constant", [], [weight.name], **attributes)
    except (ValueError, TypeError):  # an empty list
        return ""
    del graph.initializer[at]
    graph.node.insert(0, node)
    return f"weight {weight.name[:20]!r} is a Constant"


def constant_to_weight(draft: Draft) -> str:
    graph = draft.graph()
    for at, node in enumerate(graph.node):
        if node.op_type != "Constant" or not node.attribute or node.attribute[0].ref_attr_name:
            continue
        held = helper.get_attribute_value(node.attribute[0])
        if isinstance(held, float | int | list):
            held = numpy_helper.from_array(
                np.float32(held) if "float" in node.attribute[0].name else np.array(held)
            )
        if isinstance(held, onnx.TensorProto):
            weight = graph.initializer.add()
            weight.CopyFrom(held)
            weight.name = node.output[0] if node.output else ""
            del graph.node[at]
            return f"Constant {weight.name[:20]!r} is a weight"
    return ""


def duplicate_weight(draft: Draft) -> str:
    graph = draft.graph()
    if not graph.initializer:
        return ""
    at = draft.random.randrange(len(graph.initializer))
    if draft.random.random() < 0.4:
        name = graph.initializer[at].name
        del graph.initializer[at]
        return f"no weight {name[:20]!r}"
    graph.initializer.append(graph.initializer[at])
    return f"weight {graph.initializer[at].name[:20]!r} twice"


def opset(draft: Draft) -> str:
    """Of the model or a function: newer, older, none, twice, another domain's."""
    random = draft.random
    held = random.choice([draft.model, draft.model, *draft.model.functions]).opset_import
    match random.randrange(8):
        case 0 if held:
            del held[random.randrange(len(held))]
            return "an opset less"
        case 1 if held:
            held.add(domain=held[0].domain, version=draft.number())
            return f"{held[0].domain!r} has opset {held[-1].version}, too"
        case 2:
            held.add(domain=random.choice([*NAMES, "ai.onnx"]), version=random.choice([1, 0, -1, 22]))
            return f"opset {held[-1].version} of {held[-1].domain[:20]!r}"
        case _:
            if not held:
                return ""
            changed = random.choice(held)
            near = changed.version + random.choice([-8, -4, -2, -1, 1, 2, 3])
            changed.version = random.choice(
                [near, near, random.randint(1, 27), random.randint(7, 25), draft.number()]
            )
            return f"opset {changed.version} of {changed.domain!r}"


def about(draft: Draft) -> str:
    """What a model says of itself."""
    random, model = draft.random, draft.model
    match random.randrange(7):
        case 0 | 1:
            model.ir_version = random.choice(
                [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 100, -1, 2**62]
            )
            return f"IR version {model.ir_version}"
        case 2:
            model.metadata_props.add(key=random.choice(NAMES), value=random.choice(NAMES) * 9)
            return "metadata"
        case 3:
            model.producer_name, model.domain = random.choice(NAMES), random.choice(NAMES)
            model.model_version = draft.number()
            return "another producer"
        case 4:
            graph = draft.graph()
            graph.name = random.choice(NAMES)
            return f"a graph is named {graph.name[:20]!r}"
        case 5:
            model.training_info.add().algorithm.name = "training"
            return "training"
        case _:
            graph = draft.graph()
            graph.quantization_annotation.add(tensor_name=random.choice(NAMES))
            return "quantization is annotated"


def function(draft: Draft) -> str:
    """A function is missing, there twice, called by itself, of another name, or takes other attributes."""
    random, functions = draft.random, draft.model.functions
    if not functions:
        return ""
    changed = random.choice(functions)
    name = changed.name
    match random.randrange(7):
        case 0:
            functions.remove(changed)
            return f"no function {name!r}"
        case 1:
            functions.append(changed)
            return f"function {name!r} twice"
        case 2:
            call = helper.make_node(name, list(changed.input), list(changed.output), domain=changed.domain)
            del changed.node[random.randrange(len(changed.node) + 1) :]
            changed.node.append(call)
            return f"function {name!r} calls itself"
        case 3:
            changed.name = random.choice([*NAMES, *(f.name for f in functions), "Add", "Relu"])
            return f"function {name!r} is {changed.name[:20]!r}"
        case 4:
            changed.domain = random.choice(["", "ai.onnx", "f", "nowhere"])
            return f"function {name!r} is of {changed.domain!r}"
        case 5:
            changed.attribute.append(random.choice(["alpha", "", "axis"]))
            return f"function {name!r} takes an attribute"
        case _:
            del changed.opset_import[:]
            return f"function {name!r} has no opset"


FIELD_CHANGES = [
    (16, declared),
    (8, lie),
    (16, tensor),
    (4, sparse),
    (5, weight_to_input),
    (5, input_to_weight),
    (4, weight_to_constant),
    (3, constant_to_weight),
    (3, duplicate_weight),
    (8, opset),
    (4, about),
    (6, function),
]
