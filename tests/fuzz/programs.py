"""Random programs of calls of the Python API: sessions, options, values, bindings, devices, adapters.

A program is a list of steps. A step may use what earlier steps gave. Most arguments make sense; some have
the wrong type, range or shape, or are something else altogether.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random
from typing import Any

import ml_dtypes
import numpy as np

from tests.fuzz.call_models import MODELS, Called

STEPS = 14  # that are drawn; some bring others with them


@dataclasses.dataclass(frozen=True)
class Ref:
    """What the step of this number gave."""

    step: int

    def __repr__(self) -> str:
        return f"${self.step}"


@dataclasses.dataclass(frozen=True)
class ModelRef:
    """The bytes of a model of `call_models`."""

    name: str

    def __repr__(self) -> str:
        return f"<{self.name}>"


@dataclasses.dataclass(frozen=True)
class Step:
    """One access: a call, or an attribute that is read or set."""

    does: str  # "call", "get" or "set"
    on: Ref | str  # what an earlier step gave, or a class of the module; "" is the module itself
    name: str
    args: tuple[Any, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        words = [repr(each) for each in self.args] + [f"{name}={value!r}" for name, value in self.options]
        target = f"{self.on}.{self.name}" if self.on else self.name
        ends = {"call": f"({', '.join(words)})", "get": "", "set": f" = {', '.join(words)}"}
        return " ".join((target + ends[self.does]).split())


@dataclasses.dataclass(frozen=True)
class Program:
    """Steps, in the order in which they are taken."""

    steps: tuple[Step, ...]

    @property
    def changes(self) -> list[str]:
        """The steps as text."""
        return [f"${at} = {step}"[:300] for at, step in enumerate(self.steps)]


class Strange:
    """An object that no function expects."""

    def __repr__(self) -> str:
        return "Strange()"


STRANGE: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2, 3, 7, 2**31, 2**63, -(2**63), 2**70, 1.5, float("nan")),
    *("", "a", "b", "c", "x", "A", "cpu", "CPU", "cuda", "float", "tensor(float)", "c\0d", "ü\ud800", b"a"),
    *([], (), {}, [1], [2, 3], [-1], ["c"], ["c", "c"], ["zz"], [None], ("c",), {"c"}, {"a": 1}, range(3)),
    *(np.int64(3), np.float32(1), np.bool_(True), np.float32, np.int64, np.dtype("int32"), np.str_("c")),
    *(int, float, str, Strange()),
)
USUAL_TYPES = ("float32", "float64", "int32", "int64", "bool", "float16")
OTHER_TYPES = (
    *("uint8", "uint32", "complex64", "<U3", "object", "S2", ">f4", ">i8", "datetime64[s]", "longdouble"),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4),
)
OBJECTS: tuple[tuple[Any, ...], ...] = (("ab",), (3,), (None,), (b"\xff",), ("x", 1, None, 2.5, b"q"))


class Draft:
    """A program that is being written."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.steps: list[Step] = []
        self.found: dict[str, list[Ref]] = {}  # what steps gave, by its kind
        self.model = random.choice(list(MODELS))
        self.called: Called = MODELS[self.model]

    def add(self, gives: str, step: Step) -> Ref:
        made = Ref(len(self.steps))
        self.steps.append(step)
        self.found.setdefault(gives, []).append(made)
        return made

    def call(self, gives: str, on: Ref | str, name: str, *args: Any, **options: Any) -> Ref:
        return self.add(gives, Step("call", on, name, args, tuple(options.items())))

    def any(self, kind: str) -> Ref | None:
        """What some step before gave."""
        return self.random.choice(self.found[kind]) if self.found.get(kind) else None

    def a(self, kind: str, new: Callable[[], Ref]) -> Ref:
        """What some step before gave, or now gives."""
        return self.any(kind) or new()

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def one(self, *of: Any) -> Any:
        return self.random.choice(of)

    def strange(self) -> Any:
        return self.one(*STRANGE) if self.chance(0.8) else self.array()

    def or_strange(self, value: Any, share: float = 0.1) -> Any:
        return self.strange() if self.chance(share) else value

    def array(self) -> np.ndarray:
        """Of any type and shape."""
        which = self.one(*USUAL_TYPES) if self.chance(0.6) else self.one(*USUAL_TYPES, *OTHER_TYPES)
        shape = tuple(self.one(0, 1, 2, 2, 3, 3) for _ in range(self.one(0, 1, 1, 1, 2, 2, 3)))
        numbers = np.arange(int(np.prod(shape))).reshape(shape) % 5
        if which == "object":
            values = self.one(*OBJECTS)
            array = np.empty(shape, object)
            for at in np.ndindex(shape):
                array[at] = values[numbers[at] % len(values)]
        elif which in ("<U3", "S2"):
            array = numbers.astype(str).astype(which)
        else:
            array = numbers.astype(which)
        return self.laid_out(array)

    def laid_out(self, array: np.ndarray) -> np.ndarray:
        """In memory in another way, at times."""
        way = self.random.random()
        if way < 0.05 and array.ndim:
            return array[::-1]
        if way < 0.1:
            return array.T
        if way < 0.13:
            array.setflags(write=False)
        elif way < 0.15 and array.size:
            return np.broadcast_to(array[:1] if array.ndim else array, array.shape)
        elif way < 0.16:
            return np.ma.masked_array(array)
        return array

    def feeds(self) -> dict[Any, Any]:
        """For a run: what fits, and half of the time something else in it."""
        feeds: dict[Any, Any] = self.called.feeds(self.random, self.one(1, 2, 3))
        if self.chance(0.5):
            return feeds
        name = self.one(*(feeds or "a"))
        kind = self.random.random()
        if kind < 0.5:
            feeds[name] = self.array()
        elif kind < 0.7:
            feeds[name] = self.strange()
        elif kind < 0.8:
            feeds.pop(name, None)
        elif kind < 0.9:
            feeds[self.one("zz", "", 3, None, "c", b"a")] = self.strange()
        elif isinstance(feeds.get(name), np.ndarray):
            feeds[name] = feeds[name].tolist()
        return feeds

    def wanted(self) -> Any:
        """Names of outputs to ask for."""
        outputs = list(self.called.outputs)
        return self.one(
            None, None, None, outputs, outputs[:1], outputs[::-1], outputs * 2, [], self.strange()
        )

    # Each makes one step, and those before it that it needs.

    def session(self) -> Ref:
        args: list[Any] = [ModelRef(self.model)]
        options = {"providers": self.or_strange(["CPUExecutionProvider"], 0.05)}
        if self.chance(0.4) and (chosen := self.any("SessionOptions")):
            args.append(chosen)
        elif self.chance(0.03):
            args.append(self.strange())
        if self.chance(0.03):
            args[0] = self.strange()
        if self.chance(0.03):
            options["provider_options"] = self.one([{}], [{"zz": "1"}], [], self.strange())
        return self.call("InferenceSession", "", "InferenceSession", *args, **options)

    def run(self) -> Ref:
        args = [self.wanted(), self.or_strange(self.feeds(), 0.03)]
        if self.chance(0.3) and (options := self.any("RunOptions")):
            args.append(options)
        elif self.chance(0.05):
            args.append(self.strange())
        return self.call("result", self.a("InferenceSession", self.session), "run", *args)

    def value(self) -> Ref:
        kind = self.random.random()
        if kind < 0.5:
            fitting = list(self.called.feeds(self.random, self.one(1, 2, 3)).values())
            array = self.one(*fitting) if fitting and self.chance(0.6) else self.array()
            device = self.one([], [], [], ["cpu"], ["cpu", 0], [self.strange()], ["cpu", self.strange()])
            return self.call("OrtValue", "OrtValue", "ortvalue_from_numpy", array, *device)
        if kind < 0.75:
            shape = self.one([2, 3], [3], [1], [], [0], (2,))
            type_ = self.one(np.float32, np.int64, np.float64, "float32", float, bool, int)
            name = "ortvalue_from_shape_and_type"
            if self.chance(0.5):
                shape = self.one([2, 3], [-1], np.array([2, 2]), [2.0], self.strange())
                type_ = self.one(np.float32, str, object, 1, 16, self.strange())
                self.call("", "OrtValue", name, shape, type_)  # whose memory nobody reads
                return self.a("OrtValue", self.value)
            made = self.call("OrtValue", "OrtValue", name, shape, type_)
            self.call("", made, "update_inplace", np.zeros(shape, type_))
            return made
        if kind < 0.9:
            number = self.one(1, 16, 17, 10, 22, 7, 8, 0, 99, self.strange())
            return self.call(
                "OrtValue", "OrtValue", "ortvalue_from_numpy_with_onnx_type", self.array(), number
            )
        name = self.one("ort_value_from_sparse_tensor", "from_dlpack")
        return self.call("OrtValue", "OrtValue", name, self.or_strange(self.any("SparseTensor"), 0.5))

    def of_value(self) -> Ref:
        name = self.one(
            *(
                "numpy",
                "numpy",
                "shape",
                "data_type",
                "element_type",
                "has_value",
                "is_tensor",
                "device_name",
            ),
            *("is_tensor_sequence", "is_sparse_tensor", "update_inplace", "tensor_size_in_bytes"),
            *("__dlpack_device__", "as_sparse_tensor", "nope"),
        )
        args = [self.strange()] if self.chance(0.05) else []
        if name == "update_inplace":
            args = [self.one(self.array(), np.ones((2, 3), np.float32), self.strange())]
        return self.call("result", self.a("OrtValue", self.value), name, *args)

    def run_with_values(self) -> Ref:
        feeds: dict[Any, Any] = {name: self.a("OrtValue", self.value) for name in self.called.inputs}
        if self.chance(0.2):
            feeds[self.one("zz", *self.called.inputs)] = self.strange()
        session = self.a("InferenceSession", self.session)
        return self.call("values", session, "run_with_ort_values", self.wanted(), feeds)

    def binding(self) -> Ref:
        return self.call("IOBinding", self.a("InferenceSession", self.session), "io_binding")

    def bind(self) -> Ref:
        binding = self.a("IOBinding", self.binding)
        taken = self.or_strange(self.one(*(self.called.inputs or "a")))
        given = self.or_strange(self.one(*self.called.outputs))
        kind = self.random.random()
        if kind < 0.35:
            fitting = self.called.feeds(self.random, 2).get(taken) if isinstance(taken, str) else None
            array = self.array() if fitting is None or self.chance(0.2) else fitting
            return self.call("", binding, "bind_cpu_input", taken, self.or_strange(array, 0.05))
        if kind < 0.6:
            where = self.one(
                [], [], ["cpu"], ["cpu", 0], ["cpu", 0, np.float32, [2, 3], None], [self.strange()]
            )
            return self.call("", binding, "bind_output", given, *where)
        if kind < 0.75:
            value = self.or_strange(self.a("OrtValue", self.value))
            return self.call("", binding, "bind_ortvalue_input", taken, value)
        if kind < 0.9:
            value = self.or_strange(self.a("OrtValue", self.value))
            return self.call("", binding, "bind_ortvalue_output", given, value)
        ends = ("clear_binding_inputs", "clear_binding_outputs", "synchronize_inputs", "synchronize_outputs")
        return self.call("", binding, self.one(*ends))

    def run_bound(self) -> Ref:
        binding = self.a("IOBinding", self.binding)
        if self.chance(0.6):
            args = [self.or_strange(binding, 0.03), *([self.strange()] if self.chance(0.03) else [])]
            self.call("", self.a("InferenceSession", self.session), "run_with_iobinding", *args)
        name = self.one("copy_outputs_to_cpu", "copy_outputs_to_cpu", "get_outputs")
        return self.call("values" if name == "get_outputs" else "result", binding, name)

    def of_session(self) -> Ref:
        name = self.one(
            *("get_inputs", "get_outputs", "get_overridable_initializers", "get_modelmeta", "get_providers"),
            *("get_provider_options", "enable_fallback", "disable_fallback", "get_session_options"),
            *("end_profiling", "get_input_memory_infos", "get_output_memory_infos", "get_input_epdevices"),
            *("set_ep_dynamic_options", "get_provider_graph_assignment_info", "set_tuning_results", "nope"),
        )
        args = [self.strange()] if self.chance(0.1) else []
        if name == "set_ep_dynamic_options":
            args = [self.one({}, {"ep.dynamic.workload_type": "Efficient"}, {"zz": "1"}, self.strange())]
        return self.call("result", self.a("InferenceSession", self.session), name, *args)

    def set_providers(self) -> Ref:
        names = (["CPUExecutionProvider"], [], None, ["Nope"], [("CPUExecutionProvider", {})])
        args = [self.one(*names, [("CPUExecutionProvider", {"zz": "1"})], self.strange())]
        if self.chance(0.3):
            args.append(self.one([{}], None, self.strange()))
        return self.call("", self.a("InferenceSession", self.session), "set_providers", *args)

    def run_options(self) -> Ref:
        return self.call("RunOptions", "", "RunOptions", *([self.strange()] if self.chance(0.05) else []))

    def of_run_options(self) -> Ref:
        options = self.a("RunOptions", self.run_options)
        if self.chance(0.5):
            return self.attribute(
                options,
                *(
                    "log_severity_level",
                    "log_verbosity_level",
                    "logid",
                    "only_execute_path_to_fetches",
                    "nope",
                ),
            )
        key = self.one("memory.enable_memory_arena_shrinkage", "a", "", self.strange())
        if self.chance(0.5):
            value = self.or_strange(self.one("0", "1", "cpu:0", ""))
            return self.call("", options, "add_run_config_entry", key, value)
        return self.call("result", options, "get_run_config_entry", key)

    def attribute(self, on: Ref, *names: str) -> Ref:
        """Read, at times set before."""
        name = self.one(*names)
        if self.chance(0.6):
            value = self.one(0, 1, 2, 3, 99) if self.chance(0.5) else self.strange()
            self.add("", Step("set", on, name, (value,)))
        return self.add("", Step("get", on, name))

    def session_options(self) -> Ref:
        return self.call("SessionOptions", "", "SessionOptions")

    def of_session_options(self) -> Ref:
        options = self.a("SessionOptions", self.session_options)
        kind = self.random.random()
        if kind < 0.45:
            return self.attribute(
                options,
                *("enable_cpu_mem_arena", "enable_mem_pattern", "enable_mem_reuse", "execution_mode"),
                *("execution_order", "graph_optimization_level", "inter_op_num_threads", "logid"),
                *("intra_op_num_threads", "log_severity_level", "log_verbosity_level", "nope"),
                *("use_deterministic_compute", "use_per_session_threads"),
            )
        if kind < 0.6:
            key = self.one("session.disable_prepacking", "a", "session.set_denormal_as_zero", self.strange())
            if self.chance(0.6):
                value = self.or_strange(self.one("0", "1", "2", ""))
                return self.call("", options, "add_session_config_entry", key, value)
            return self.call("result", options, "get_session_config_entry", key)
        if kind < 0.7:
            how = self.one("name", "denotation")
            of = self.one("N", "M", "K", "zz", "", self.strange()), self.one(1, 2, 3, 0, -1, self.strange())
            return self.call("", options, f"add_free_dimension_override_by_{how}", *of)
        if kind < 0.78:
            what = (
                self.one("w", "a", self.strange()),
                self.one(self.strange(), self.array(), self.any("OrtValue")),
            )
            return self.call("", options, "add_initializer", *what)
        if kind < 0.84:
            what = self.one(["w"], [], self.strange()), self.one([self.any("OrtValue")], [], self.strange())
            return self.call("", options, "add_external_initializers", *what)
        if kind < 0.9:
            name = self.one("CPUExecutionProvider", "Nope", self.strange())
            return self.call("", options, "add_provider", name, self.one({}, {"zz": "1"}, self.strange()))
        if kind < 0.95:
            devices = self.one([], self.any("devices"), [Strange()], self.strange())
            return self.call("", options, "add_provider_for_devices", devices, self.one({}, self.strange()))
        name, args = self.one(
            ("has_providers", []),
            ("has_providers", [self.strange()]),
            ("register_custom_ops_library", [self.one("/nope.so", "", self.strange())]),
            ("set_load_cancellation_flag", [self.one(True, False, self.strange())]),
            ("set_provider_selection_policy", [self.strange()]),
            (
                "add_external_initializers_from_files_in_memory",
                [self.strange(), self.strange(), self.strange()],
            ),
        )
        return self.call("", options, name, *args)

    def device(self) -> Ref:
        kind = self.random.random()
        if kind < 0.4:
            of = self.or_strange("cpu", 0.3), self.or_strange(0, 0.3)
            return self.call("OrtDevice", "OrtDevice", "make", *of)
        if kind < 0.6:
            on = self.a("OrtDevice", lambda: self.call("OrtDevice", "OrtDevice", "make", "cpu", 0))
            name = self.one("device_id", "device_type", "device_mem_type", "device_vendor_id", "nope")
            return self.call("", on, name, *([self.strange()] if self.chance(0.1) else []))
        if kind < 0.7:
            return self.call("devices", "", "get_ep_devices", *([self.strange()] if self.chance(0.1) else []))
        name, args = self.one(
            ("register_execution_provider_library", ["name", "/nope.so"]),
            ("register_execution_provider_library", [self.strange(), self.strange()]),
            ("unregister_execution_provider_library", [self.one("name", "", self.strange())]),
            ("copy_tensors", [[], []]),
            ("copy_tensors", [[self.any("OrtValue")], [self.any("OrtValue")]]),
            ("copy_tensors", [self.strange(), self.strange()]),
            ("create_and_register_allocator", [self.strange(), self.strange()]),
        )
        return self.call("", "", name, *args)

    def sparse(self) -> Ref:
        if self.chance(0.5) or not self.found.get("SparseTensor"):
            device = self.call("OrtDevice", "OrtDevice", "make", "cpu", 0)
            return self.call(
                "SparseTensor",
                "SparseTensor",
                "sparse_coo_from_numpy",
                self.or_strange(self.one(np.array([3, 3]), [3, 3], (3, 3))),
                self.one(np.ones(2, np.float32), np.ones(2, np.float32), self.array()),
                self.one(np.array([0, 4]), np.array([[0, 1], [1, 1]]), self.array()),
                self.or_strange(device),
            )
        name = self.one(
            *("values", "dense_shape", "format", "device_name", "data_type", "as_coo_view", "as_csrc_view"),
            *("as_blocksparse_view", "nope"),
        )
        tensor = self.a("SparseTensor", self.sparse)
        return self.call("", tensor, name, *([self.strange()] if self.chance(0.1) else []))

    def of_module(self) -> Ref:
        name = self.one(
            *("get_device", "set_seed", "set_default_logger_severity", "set_default_logger_verbosity"),
            *("has_collective_ops", "get_available_providers", "get_all_providers", "get_version_string"),
        )
        args = [self.strange()] if name.startswith("set_") or self.chance(0.1) else []
        return self.call("", "", name, *args)

    def compiler(self) -> Ref:
        options = self.a("SessionOptions", self.session_options)
        if self.chance(0.6) or not self.found.get("ModelCompiler"):
            args = [self.or_strange(options), self.or_strange(ModelRef(self.model))]
            if self.chance(0.3):
                args.append(self.one(True, False, self.strange()))
            return self.call("ModelCompiler", "", "ModelCompiler", *args)
        name = self.one("compile_to_bytes", "compile_to_stream", "set_ep_context_binary_information", "nope")
        args = {
            "compile_to_stream": [self.strange()],
            "set_ep_context_binary_information": [self.strange(), self.strange()],
        }.get(name, [self.strange()] if self.chance(0.1) else [])
        return self.call("", self.a("ModelCompiler", self.compiler), name, *args)

    def adapter(self) -> Ref:
        kind = self.random.random()
        if kind < 0.4:
            return self.call(
                "AdapterFormat", "", "AdapterFormat", *([self.strange()] if self.chance(0.2) else [])
            )
        if kind < 0.5:
            return self.call("", "AdapterFormat", "read_adapter", self.one("/nope", "", self.strange()))
        if kind < 0.6:
            return self.call("", "LoraAdapter", "Load", self.one("/nope", "", self.strange()))
        if kind < 0.65:
            options = self.a("RunOptions", self.run_options)
            return self.call("", options, "add_active_adapter", self.strange())
        on = self.a("AdapterFormat", lambda: self.call("AdapterFormat", "", "AdapterFormat"))
        if kind < 0.8:
            feeds = {self.one("w", "", 3): self.any("OrtValue")}
            what = self.one(("set_parameters", [feeds]), ("set_parameters", [self.strange()]))
        else:
            what = self.one(
                ("get_parameters", []),
                ("set_adapter_version", [self.strange()]),
                ("set_model_version", [self.strange()]),
                ("get_adapter_version", []),
                ("get_model_version", []),
                ("get_format_version", []),
            )
        return self.call("", on, what[0], *what[1])


WEIGHTS: tuple[tuple[Callable[[Draft], Ref], int], ...] = (
    (Draft.run, 20),
    (Draft.value, 12),
    (Draft.of_value, 12),
    (Draft.run_with_values, 6),
    (Draft.bind, 12),
    (Draft.run_bound, 8),
    (Draft.of_session, 5),
    (Draft.set_providers, 2),
    (Draft.of_run_options, 4),
    (Draft.of_session_options, 10),
    (Draft.session, 3),
    (Draft.device, 4),
    (Draft.sparse, 3),
    (Draft.of_module, 3),
    (Draft.compiler, 2),
    (Draft.adapter, 3),
)


def make_case(seed: int, source: str, number: int, made_of: Any = None) -> Program:
    """The program of a name, which is the same each time: SOURCE/NUMBER."""
    del made_of  # everything is here
    draft = Draft(Random(f"{seed} {source} {number}"))
    if draft.chance(0.3):
        for _ in range(draft.one(0, 1, 2, 3)):
            draft.of_session_options()
    draft.session()
    rules, weights = zip(*WEIGHTS, strict=True)
    for rule in draft.random.choices(rules, weights, k=STEPS):
        rule(draft)
    return Program(tuple(draft.steps))
