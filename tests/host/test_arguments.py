"""Arguments of wrong types and sizes: a TypeError or an error of ephost's, and nothing from inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ephost
import numpy as np
import pytest
from ephost.errors import OnnxRuntimeException
from onnx import parser

MODEL = parser.parse_model(
    '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Neg(x) }'
).SerializeToString()
X = np.ones(2, np.float32)
CPU = ephost.OrtDevice.make("cpu", 0)
DEVICE = ephost.OrtAllocatorType.ORT_DEVICE_ALLOCATOR
OBJECTS = [
    object(),
    -1.5,
    [],
    {1},
    b"\0\xff",
    "\ud800",
    "a\0b",
    10**40,
    2**63,
    None,
    lambda: None,
    np.array(5),
]


def session() -> ephost.InferenceSession:
    return ephost.InferenceSession(MODEL)


CALLS: dict[str, Callable[[Any], Any]] = {
    "AdapterFormat": lambda value: ephost.AdapterFormat(value or 0),
    "ModelCompiler": lambda value: ephost.ModelCompiler(value, MODEL),
    "ModelCompiler's threshold": lambda value: ephost.ModelCompiler(
        ephost.SessionOptions(), MODEL, external_initializers_size_threshold=value
    ),
    "OrtArenaCfg": lambda value: ephost.OrtArenaCfg({"max_mem": value}),
    "OrtDevice": lambda value: ephost.OrtDevice(value, 0, 0),
    "OrtDevice.make, name": lambda value: ephost.OrtDevice.make(value, 0),
    "OrtDevice.make, number": lambda value: ephost.OrtDevice.make("cpu", value),
    "OrtDevice.make, vendor": lambda value: ephost.OrtDevice.make("cpu", 0, value),
    "OrtExternalInitializerInfo": lambda value: ephost.OrtExternalInitializerInfo("file", value, 0),
    "OrtMemoryInfo, name": lambda value: ephost.OrtMemoryInfo(value, DEVICE, 0, ephost.OrtMemType.DEFAULT),
    "OrtMemoryInfo, number": lambda value: ephost.OrtMemoryInfo(
        "Cpu", DEVICE, value, ephost.OrtMemType.DEFAULT
    ),
    "RunOptions.get_run_config_entry": lambda value: ephost.RunOptions().get_run_config_entry(value),
    "RunOptions.log_severity_level": lambda value: setattr(ephost.RunOptions(), "log_severity_level", value),
    "SessionOptions.add_provider": lambda value: ephost.SessionOptions().add_provider(value, {}),
    "SessionOptions.add_provider, options": lambda value: ephost.SessionOptions().add_provider(
        "CPUExecutionProvider", value or 1
    ),
    "SparseTensor": lambda value: ephost.SparseTensor.sparse_coo_from_numpy([3, 3], value, np.arange(2), CPU),
    "SparseTensor, shape": lambda value: ephost.SparseTensor.sparse_coo_from_numpy(
        [value, 3], X, np.arange(2), CPU
    ),
    "compare": lambda value: ephost.compare(MODEL, value, "cpu"),
    "copy_tensors": lambda value: ephost.copy_tensors([value], [ephost.OrtValue.ortvalue_from_numpy(X)]),
    "create_and_register_allocator": lambda value: ephost.create_and_register_allocator(value, None),
    "create_ortvalue_from_shape_and_type": lambda value: session().create_ortvalue_from_shape_and_type(
        [1], np.float32, value or 0
    ),
    "provider_options": lambda value: ephost.provider_options(value),
    "run_with_iobinding": lambda value: session().run_with_iobinding(value),
    "run_with_ortvaluevector": lambda value: session().run_with_ortvaluevector(None, [], value, [], [], []),
    "SessionOptions.add_free_dimension_override_by_denotation": lambda value: (
        ephost.SessionOptions().add_free_dimension_override_by_denotation(value, "n")  # type: ignore[arg-type]
    ),
    "SessionOptions.add_free_dimension_override_by_name": lambda value: (
        ephost.SessionOptions().add_free_dimension_override_by_name(value, "n")  # type: ignore[arg-type]
    ),
    "AdapterFormat.read_adapter": ephost.AdapterFormat.read_adapter,
    "InferenceSession, provider_options": lambda value: ephost.InferenceSession(
        MODEL, providers=["CPUExecutionProvider"], provider_options=value
    ),
    "InferenceSession, providers": lambda value: ephost.InferenceSession(MODEL, providers=value),
    "OrtValue.ortvalue_from_numpy_with_onnx_type": lambda value: (
        ephost.OrtValue.ortvalue_from_numpy_with_onnx_type(X, value)
    ),
    "OrtValue.ortvalue_from_numpy_with_onnx_type, data": lambda value: (
        ephost.OrtValue.ortvalue_from_numpy_with_onnx_type(value, 1)
    ),
    "OrtValue.ortvalue_from_shape_and_type": lambda value: ephost.OrtValue.ortvalue_from_shape_and_type(
        [2], value
    ),
    "OrtValue.ortvalue_from_shape_and_type, shape": lambda value: (
        ephost.OrtValue.ortvalue_from_shape_and_type(value, np.float32)
    ),
    "RunOptions.add_run_config_entry": lambda value: ephost.RunOptions().add_run_config_entry(value, "1"),
    "RunOptions.logid": lambda value: setattr(ephost.RunOptions(), "logid", value),
    "SessionOptions.add_external_initializers": lambda value: (
        ephost.SessionOptions().add_external_initializers(value, value)
    ),
    "SessionOptions.add_external_initializers_from_files_in_memory": lambda value: (
        ephost.SessionOptions().add_external_initializers_from_files_in_memory(["file"], [value], [1])
    ),
    "SessionOptions.add_provider_for_devices": lambda value: ephost.SessionOptions().add_provider_for_devices(
        value, {}
    ),
    "SessionOptions.add_session_config_entry": lambda value: ephost.SessionOptions().add_session_config_entry(
        value, "1"
    ),
    "SessionOptions.get_session_config_entry": lambda value: ephost.SessionOptions().get_session_config_entry(
        value
    ),
    "SessionOptions.set_load_cancellation_flag": lambda value: (
        ephost.SessionOptions().set_load_cancellation_flag(value)
    ),
    "SparseTensor, indices": lambda value: ephost.SparseTensor.sparse_coo_from_numpy([3], X, value, CPU),
    "SparseTensor, rows and columns": lambda value: ephost.SparseTensor.sparse_coo_from_numpy(
        value, X, np.zeros((2, 2), int), CPU
    ),
    "bind_input": lambda value: session().io_binding().bind_cpu_input(value, X),
    "bind_output": lambda value: session().io_binding().bind_output(value),
    "copy_tensors, all": lambda value: ephost.copy_tensors(value, value),
    "register_execution_provider_library": lambda value: ephost.register_execution_provider_library(
        "name", value
    ),
    "run_with_ort_values": lambda value: session().run_with_ort_values(value, {}),
    "set_default_logger_severity": ephost.set_default_logger_severity,
    "set_seed": ephost.set_seed,
    "set_default_logger_verbosity": ephost.set_default_logger_verbosity,
    "set_ep_dynamic_options": lambda value: session().set_ep_dynamic_options({"key": value}),
    "set_ep_dynamic_options, all": lambda value: session().set_ep_dynamic_options(value),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_no_call_takes_is_an_error_of_its_own(name: str) -> None:
    for value in OBJECTS:
        try:
            CALLS[name](value)
        except (TypeError, ValueError, OnnxRuntimeException) as error:
            said = str(error)
            inner = ("cdata", "ctype", "codec", "object has no", "unhashable", "initializer for", "unsized")
            inner += ("interpreted", "not iterable", "truth value", "int() ", "data type", "data-type")
            assert said and not any(part in said for part in inner), (value, said)
            assert not isinstance(error, UnicodeError), (value, said)


def test_a_pool_has_a_number_of_threads() -> None:
    for value in (-1, 10**40, "x", None, 1.5):
        with pytest.raises((TypeError, OnnxRuntimeException), match="the number of threads of a pool is"):
            ephost.set_global_thread_pool_sizes(value)


@pytest.mark.parametrize("at", range(1, 6))
def test_what_is_no_list_of_names_values_or_devices_is_told_by_name(at: int) -> None:
    names = ("feed_names", "feeds", "fetch_names", "fetches", "fetch_devices")
    arguments: list[Any] = [None, [], [], ["y"], [], []]
    arguments[at] = None
    with pytest.raises(TypeError, match=f"^{names[at - 1]} are a list, not None$"):
        session().run_with_ortvaluevector(*arguments)


def test_a_verbosity_is_a_number() -> None:
    with pytest.raises(TypeError, match=r"^a logger's verbosity is an int, not str$"):
        ephost.set_default_logger_verbosity("x")  # type: ignore[arg-type]


@pytest.mark.parametrize("severity", [-2, 5, 99])
def test_a_session_is_opened_with_a_severity_that_there_is(severity: int) -> None:
    options = ephost.SessionOptions()
    options.log_severity_level = severity
    with pytest.raises(OnnxRuntimeException, match=r"log_severity_level is a number from -1 to 4, not"):
        ephost.InferenceSession(MODEL, options)
    with pytest.raises(OnnxRuntimeException, match=r"log_severity_level is a number from -1 to 4, not"):
        ephost.RunOptions().log_severity_level = severity


OPTIONS = ephost.SessionOptions()
EMPTY = np.zeros(1, object)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: ephost.OrtValue.ortvalue_from_shape_and_type([2.0], np.float32),
            r"the dimensions are a list of ints, not \[2.0\]",
        ),
        (
            lambda: ephost.OrtValue.ortvalue_from_shape_and_type([2], None),
            r"the element type is a numpy dtype or an onnx.TensorProto.DataType, not None",
        ),
        (
            lambda: ephost.OrtValue.ortvalue_from_shape_and_type([2], 99),
            "the element type 99 is no number of an ONNX type",
        ),
        (
            lambda: ephost.OrtValue.ortvalue_from_numpy_with_onnx_type(EMPTY, 7),
            r"an array of object \(8 bytes an element\) cannot be read as the ONNX type 7",
        ),
        (lambda: ephost.OrtValue.ortvalue_from_numpy([[1], [1, 2]]), "numpy_obj is no array: "),
        (lambda: setattr(OPTIONS, "logid", "\ud800"), "SessionOptions.logid is '.ud800', which"),
        (lambda: OPTIONS.add_initializer(None, 1), "the name of an initializer is a str, not NoneType"),
        (
            lambda: OPTIONS.add_external_initializers("w", [1]),
            "the names of initializers are a list, not 'w'",
        ),
        (
            lambda: OPTIONS.add_external_initializers_from_files_in_memory(["file"], ["text"], [1]),
            "the buffer for 'file' has no bytes: ",
        ),
        (lambda: OPTIONS.set_load_cancellation_flag("no"), "the load cancellation flag is a bool, not 'no'"),
        (lambda: ephost.ModelCompiler(OPTIONS, MODEL, "no"), "embed_compiled_data_into_model is a bool, not"),
        (lambda: ephost.InferenceSession("\ud800"), "the model is '.ud800', which cannot be encoded"),
        (
            lambda: ephost.SparseTensor.sparse_coo_from_numpy([3], X, np.zeros((2, 2), int), CPU),
            r"rows and columns are of a matrix, not of the shape \[3\]",
        ),
        (
            lambda: ephost.SparseTensor.sparse_coo_from_numpy([3], X.astype("M8[s]"), np.arange(2), CPU),
            r"ONNX has no type for the values of a sparse tensor of datetime64\[s\]",
        ),
        (
            lambda: ephost.SparseTensor.sparse_coo_from_numpy([3], EMPTY, np.arange(1), CPU),
            "a value of a sparse tensor of objects is a str, not int",
        ),
        (
            lambda: session().run(None, {"x": np.array(["a", "b"])}),
            r"Unexpected input data type for input 'x'. Actual: \(tensor\(string\)\) , expected: ",
        ),
        (lambda: session().run_with_ort_values([1], {}), r"Invalid output name: 1. The model's outputs are"),
    ],
)
def test_an_error_names_the_argument(call: Callable[[], Any], said: str) -> None:
    with pytest.raises((TypeError, ValueError, OnnxRuntimeException), match=f"^{said}"):
        call()


def test_options_of_no_provider_are_none() -> None:
    made = ephost.InferenceSession(MODEL, providers=["CPUExecutionProvider"], provider_options=[])
    assert made.get_providers() == ["CPUExecutionProvider"]


def test_what_is_no_utf8_is_shown_in_the_name_of_a_session() -> None:
    options = ephost.SessionOptions()
    options.logid = b"\xff"
    ephost.InferenceSession(MODEL, options)


def test_text_of_bytes_in_a_sparse_tensor_is_text() -> None:
    made = ephost.SparseTensor.sparse_coo_from_numpy([3], np.array([b"a", b"b"]), np.arange(2), CPU)
    assert made.values().tolist() == ["a", "b"]
