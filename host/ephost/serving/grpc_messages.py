"""The messages of the protocol's gRPC half, made of a table of their fields.

Names and numbers are the Open Inference Protocol's v2 (``inference.GRPCInferenceService``), and, for the
repository, streams, configurations and statistics, Triton's extensions of it. The messages are in a pool of
their own: a program that has a client's generated ones, which have the same names, may use both.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SERVICE = "inference.GRPCInferenceService"
_PACKAGE = "inference"
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "bool": _Field.TYPE_BOOL,
    "bytes": _Field.TYPE_BYTES,
    "double": _Field.TYPE_DOUBLE,
    "float": _Field.TYPE_FLOAT,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "string": _Field.TYPE_STRING,
    "uint32": _Field.TYPE_UINT32,
    "uint64": _Field.TYPE_UINT64,
}

# Of each message its fields: "name type" at its number; "*type" is repeated, "{type}" a map from strings,
# and those of a message whose name ends with "|" exclude each other. A "." in a name: inside of another.
_TENSOR = {1: "name string", 2: "datatype string", 3: "shape *int64"}
_NAME_AND_VERSION = {1: "name string", 2: "version string"}
_REPOSITORY_MODEL = {
    1: "repository_name string",
    2: "model_name string",
    3: "parameters {ModelRepositoryParameter}",
}
_MESSAGES: dict[str, dict[int, str]] = {
    "ServerLiveRequest": {},
    "ServerLiveResponse": {1: "live bool"},
    "ServerReadyRequest": {},
    "ServerReadyResponse": {1: "ready bool"},
    "ModelReadyRequest": _NAME_AND_VERSION,
    "ModelReadyResponse": {1: "ready bool"},
    "ServerMetadataRequest": {},
    "ServerMetadataResponse": {1: "name string", 2: "version string", 3: "extensions *string"},
    "ModelMetadataRequest": _NAME_AND_VERSION,
    "ModelMetadataResponse": {
        1: "name string",
        2: "versions *string",
        3: "platform string",
        4: "inputs *ModelMetadataResponse.TensorMetadata",
        5: "outputs *ModelMetadataResponse.TensorMetadata",
        6: "properties {string}",
    },
    "ModelMetadataResponse.TensorMetadata": _TENSOR,
    "InferParameter|": {
        1: "bool_param bool",
        2: "int64_param int64",
        3: "string_param string",
        4: "double_param double",
        5: "uint64_param uint64",
    },
    "InferTensorContents": {
        1: "bool_contents *bool",
        2: "int_contents *int32",
        3: "int64_contents *int64",
        4: "uint_contents *uint32",
        5: "uint64_contents *uint64",
        6: "fp32_contents *float",
        7: "fp64_contents *double",
        8: "bytes_contents *bytes",
    },
    "ModelInferRequest": {
        1: "model_name string",
        2: "model_version string",
        3: "id string",
        4: "parameters {InferParameter}",
        5: "inputs *ModelInferRequest.InferInputTensor",
        6: "outputs *ModelInferRequest.InferRequestedOutputTensor",
        7: "raw_input_contents *bytes",
    },
    "ModelInferRequest.InferInputTensor": {
        **_TENSOR,
        4: "parameters {InferParameter}",
        5: "contents InferTensorContents",
    },
    "ModelInferRequest.InferRequestedOutputTensor": {1: "name string", 2: "parameters {InferParameter}"},
    "ModelInferResponse": {
        1: "model_name string",
        2: "model_version string",
        3: "id string",
        4: "parameters {InferParameter}",
        5: "outputs *ModelInferResponse.InferOutputTensor",
        6: "raw_output_contents *bytes",
    },
    "ModelInferResponse.InferOutputTensor": {
        **_TENSOR,
        4: "parameters {InferParameter}",
        5: "contents InferTensorContents",
    },
    "ModelStreamInferResponse": {1: "error_message string", 2: "infer_response ModelInferResponse"},
    "ModelRepositoryParameter|": {
        1: "bool_param bool",
        2: "int64_param int64",
        3: "string_param string",
        4: "bytes_param bytes",
    },
    "RepositoryIndexRequest": {1: "repository_name string", 2: "ready bool"},
    "RepositoryIndexResponse": {1: "models *RepositoryIndexResponse.ModelIndex"},
    "RepositoryIndexResponse.ModelIndex": {
        1: "name string",
        2: "version string",
        3: "state string",
        4: "reason string",
    },
    "RepositoryModelLoadRequest": _REPOSITORY_MODEL,
    "RepositoryModelLoadResponse": {},
    "RepositoryModelUnloadRequest": _REPOSITORY_MODEL,
    "RepositoryModelUnloadResponse": {},
    "ModelConfigRequest": _NAME_AND_VERSION,
    "ModelConfigResponse": {1: "config ModelConfig"},
    # The types are an enumeration there; a number is written alike.
    "ModelInput": {1: "name string", 2: "data_type int32", 4: "dims *int64", 8: "optional bool"},
    "ModelOutput": {1: "name string", 2: "data_type int32", 3: "dims *int64"},
    "ModelInstanceGroup": {1: "name string", 2: "count int32"},
    "ModelDynamicBatching": {2: "max_queue_delay_microseconds uint64"},
    "ModelConfig": {
        1: "name string",
        2: "platform string",
        4: "max_batch_size int32",
        5: "input *ModelInput",
        6: "output *ModelOutput",
        7: "instance_group *ModelInstanceGroup",
        11: "dynamic_batching ModelDynamicBatching",
        17: "backend string",
    },
    "ModelStatisticsRequest": _NAME_AND_VERSION,
    "ModelStatisticsResponse": {1: "model_stats *ModelStatistics"},
    "StatisticDuration": {1: "count uint64", 2: "ns uint64"},
    "InferStatistics": {
        1: "success StatisticDuration",
        2: "fail StatisticDuration",
        3: "queue StatisticDuration",
        4: "compute_input StatisticDuration",
        5: "compute_infer StatisticDuration",
        6: "compute_output StatisticDuration",
    },
    "ModelStatistics": {
        1: "name string",
        2: "version string",
        3: "last_inference uint64",
        4: "inference_count uint64",
        5: "execution_count uint64",
        6: "inference_stats InferStatistics",
    },
}


def _add_message(file: Any, name: str, fields: dict[int, str]) -> None:
    exclusive = name.endswith("|")
    *outer, own = name.removesuffix("|").split(".")
    owner = file.message_type
    for each in outer:
        owner = next(message for message in owner if message.name == each).nested_type
    message = owner.add(name=own)
    if exclusive:
        message.oneof_decl.add(name="parameter_choice")
    path = f".{_PACKAGE}.{name.removesuffix('|')}"
    for number, text in fields.items():
        field_name, kind = text.split()
        field = message.field.add(name=field_name, number=number, label=_Field.LABEL_OPTIONAL)
        if exclusive:
            field.oneof_index = 0
        if kind[0] in "*{":
            field.label = _Field.LABEL_REPEATED
        if kind[0] == "{":
            entry = message.nested_type.add(name=f"{field_name.title()}Entry")
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, label=_Field.LABEL_OPTIONAL, type=_Field.TYPE_STRING)
            _set_type(entry.field.add(name="value", number=2, label=_Field.LABEL_OPTIONAL), kind.strip("{}"))
            field.type, field.type_name = _Field.TYPE_MESSAGE, f"{path}.{entry.name}"
        else:
            _set_type(field, kind.removeprefix("*"))


def _set_type(field: Any, kind: str) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"


def _make_classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(
        name="ephost_open_inference.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        _add_message(file, name, fields)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = [name.removesuffix("|") for name in _MESSAGES]
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in names
        if "." not in name
    }


# The classes by their messages' names; those inside of others are attributes of theirs.
MESSAGES: dict[str, Any] = _make_classes()
