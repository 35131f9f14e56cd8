"""Who gets a session's model: names, devices, policies, delegates, defaults, and factories of the process."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ephost
import numpy as np
import pytest
from api_models import add_and_relu, model_bytes, tensor
from ephost._bindings import ffi
from ephost.enums import OrtExecutionProviderDevicePolicy as Policy
from ephost.errors import EPFail, Fail, InvalidArgument
from ephost.plugins import sample_compiler, sample_kernels
from ephost.selection import POLICIES, Candidate, apply_policy
from onnx import helper

X = np.ones((2, 3), np.float32)
HOST = "CPUExecutionProvider"
KERNELS, COMPILER = sample_kernels.get_ep_name(), sample_compiler.get_ep_name()


@pytest.fixture
def both() -> Iterator[None]:
    ephost.register_execution_provider_library("select-kernels", sample_kernels.get_library_path())
    ephost.register_execution_provider_library("select-compiler", sample_compiler.get_library_path())
    yield
    ephost.set_default_providers(None)
    ephost.unregister_execution_provider_library("select-compiler")
    ephost.unregister_execution_provider_library("select-kernels")


def opened(options: ephost.SessionOptions | None = None, **arguments: Any) -> list[str]:
    """The providers of a session that gives the right answer."""
    session = ephost.InferenceSession(add_and_relu(), options, **arguments)
    assert session.run(["z"], {"x": X, "y": X})[0].tolist() == [[2] * 3] * 2
    return session.get_providers()


# ---- names ----


@pytest.mark.usefixtures("both")
def test_names_are_taken_in_order_with_options_or_without() -> None:
    assert opened(providers=[KERNELS]) == [KERNELS, HOST]
    assert opened(providers=[COMPILER, (KERNELS, {"a": 1}), HOST]) == [COMPILER, KERNELS, HOST]
    assert opened(providers=[KERNELS, COMPILER], provider_options=[{}, {"b": "2"}]) == [
        KERNELS,
        COMPILER,
        HOST,
    ]
    options = ephost.SessionOptions()
    options.add_provider(COMPILER, {})
    options.add_provider(KERNELS, {})
    assert options.has_providers()
    assert opened(options) == [COMPILER, KERNELS, HOST]


def test_a_name_that_nobody_offers_is_a_warning_or_an_error() -> None:
    with pytest.warns(UserWarning, match="'Nope' is not in available provider names"):
        assert opened(providers=["Nope", HOST]) == [HOST]
    options = ephost.SessionOptions()
    with pytest.raises(InvalidArgument, match="Unknown Provider Type: Nope"):
        options.add_provider("Nope", {})
    options.add_provider("Nope", {}, error_on_failure=False)
    assert not options.has_providers()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("CUDAExecutionProvider", r"names: the plugin that offers it is to be registered"),
        ("CPUExecutionPrvider", r"did you mean 'CPUExecutionProvider'\?"),
        ("CpuExecutionProvider", r"did you mean 'CPUExecutionProvider'\?"),
    ],
)
def test_a_warning_says_what_to_do_for_a_provider(name: str, said: str) -> None:
    with pytest.warns(UserWarning, match=said):
        assert opened(providers=[name, HOST]) == [HOST]


@pytest.mark.parametrize(
    ("providers", "provider_options", "message"),
    [
        ("CPU", None, "should be a sequence"),
        ([HOST], [{}, {}], "same length"),
        ([(HOST, {})], [{}], "Only string values"),
        ([HOST], ["a"], "must be dicts"),
        ([(HOST, "a")], None, "strings or"),
        ([3], None, "strings or"),
    ],
)
def test_malformed_providers_are_refused(providers: Any, provider_options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        opened(providers=providers, provider_options=provider_options)


@pytest.mark.usefixtures("both")
def test_providers_given_twice_are_those_of_the_session() -> None:
    options = ephost.SessionOptions()
    options.add_provider(COMPILER, {})
    with pytest.warns(UserWarning, match="the latter are used"):
        assert opened(options, providers=[KERNELS]) == [KERNELS, HOST]


@pytest.mark.usefixtures("both")
def test_is_available_follows_registration() -> None:
    assert ephost.is_available(KERNELS)
    assert ephost.is_available(HOST)
    assert not ephost.is_available("Nope")


# ---- an EP that cannot be created ----


def failing_ep(monkeypatch: pytest.MonkeyPatch) -> None:
    from ephost import opening

    real = opening.ExecutionProvider

    def create(devices: Any, *arguments: Any) -> Any:
        if devices[0].ep_name == COMPILER:
            raise EPFail("no device today")
        return real(devices, *arguments)

    monkeypatch.setattr(opening, "ExecutionProvider", create)


@pytest.mark.usefixtures("both")
def test_an_ep_that_cannot_be_created_is_an_error_unless_allowed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failing_ep(monkeypatch)
    options = ephost.SessionOptions()
    options.add_provider(COMPILER, {}, error_on_failure=True)
    with pytest.raises(EPFail, match="no device today"):
        opened(options)
    options = ephost.SessionOptions()
    options.add_provider(COMPILER, {}, error_on_failure=False)
    options.add_provider(KERNELS, {})
    assert opened(options) == [KERNELS, HOST]
    assert f"runs without {COMPILER}: no device today" in caplog.text


# ---- defaults ----


@pytest.mark.usefixtures("both")
def test_defaults_of_the_process_yield_to_a_sessions_own() -> None:
    ephost.set_default_providers([(KERNELS, {"a": "1"})])
    assert opened() == [KERNELS, HOST]
    assert opened(providers=[COMPILER]) == [COMPILER, HOST]
    assert opened(providers=[HOST]) == [HOST]
    options = ephost.SessionOptions()
    options.add_provider(HOST, {})
    assert opened(options) == [HOST]
    ephost.set_default_providers(None)
    assert opened() == [HOST]


# ---- policies ----

CPU = Candidate("cpu-ep", "someone", "CPU", "AMD")
GPU = Candidate("gpu-ep", "someone", "GPU", "NVIDIA")
DISCRETE = Candidate("big-gpu-ep", "someone", "GPU", "NVIDIA", discrete=True)
OWN = Candidate("own-gpu-ep", "NVIDIA Corporation", "GPU", "NVIDIA")
NPU = Candidate("npu-ep", "someone", "NPU", "Intel")


@pytest.mark.parametrize(
    ("policy", "taken"),
    [
        (Policy.DEFAULT, CPU),
        (Policy.PREFER_CPU, CPU),
        (Policy.PREFER_GPU, GPU),
        (Policy.PREFER_NPU, NPU),
        (Policy.MAX_PERFORMANCE, GPU),
        (Policy.MAX_EFFICIENCY, NPU),
        (Policy.MIN_OVERALL_POWER, NPU),
    ],
)
def test_each_policy_takes_its_kind_of_device_else_the_cpu(policy: Policy, taken: Candidate) -> None:
    everything = [NPU, CPU, GPU]
    assert everything[apply_policy(policy, everything)[0] or 0] is taken
    assert apply_policy(policy, [CPU])[0] == 0
    assert apply_policy(policy, [])[0] is None


def test_the_table_covers_every_policy() -> None:
    assert set(POLICIES) == set(Policy)


def test_among_devices_of_a_kind_the_discrete_one_wins_then_the_vendors_own_then_the_first() -> None:
    assert apply_policy(Policy.PREFER_GPU, [GPU, OWN, DISCRETE])[0] == 2
    assert apply_policy(Policy.PREFER_GPU, [GPU, OWN])[0] == 1
    assert apply_policy(Policy.PREFER_GPU, [GPU, GPU])[0] == 0


def test_a_policy_says_why() -> None:
    assert apply_policy(Policy.PREFER_NPU, [GPU, CPU])[1] == (
        "cpu-ep on the AMD CPU: PREFER_NPU looks for NPU, then CPU; there is no NPU"
    )
    assert "the devices offered are gpu-ep (GPU)" in apply_policy(Policy.PREFER_CPU, [GPU])[1]


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize("policy", Policy)
def test_a_session_follows_its_policy_and_logs_it(policy: Policy, caplog: pytest.LogCaptureFixture) -> None:
    options = ephost.SessionOptions()
    options.set_provider_selection_policy(policy)
    with caplog.at_level(logging.INFO, "ephost.selection"):
        assert opened(options) == [KERNELS, HOST]
    assert policy.name in caplog.text


def test_without_plugins_every_policy_ends_on_the_host() -> None:
    options = ephost.SessionOptions()
    options.set_provider_selection_policy(Policy.MAX_PERFORMANCE)
    assert options.has_providers()
    assert opened(options) == [HOST]
    with pytest.raises(TypeError):
        options.set_provider_selection_policy(4)


# ---- delegates ----


@pytest.mark.usefixtures("both")
def test_a_delegate_sees_the_devices_and_the_model_and_is_followed() -> None:
    seen: list[Any] = []

    def delegate(devices: list, model: dict, runtime: dict, most: int) -> list:
        seen.append((devices, model, runtime, most))
        return devices[::-1]

    options = ephost.SessionOptions()
    options.set_provider_selection_policy_delegate(delegate)
    session = ephost.InferenceSession(add_and_relu(author="me"), options)
    assert session.get_providers() == [COMPILER, KERNELS, HOST]
    ((devices, model, runtime, most),) = seen
    assert [device.ep_name for device in devices] == [KERNELS, COMPILER]
    assert (model["graph_name"], model["author"], runtime, most) == ("graph", "me", {}, 8)


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda devices: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda devices: [], "did not select anything"),
        (lambda devices: devices * 5, r"too many EP devices \(10\). The limit is 8"),
        (lambda devices: devices + devices[:1], "twice"),
        (lambda devices: None, "no list of OrtEpDevices but None"),
        (lambda devices: ["gpu"], "no list of OrtEpDevices"),
    ],
)
def test_what_a_delegate_does_wrong_is_a_clear_error(answer: Any, message: str) -> None:
    options = ephost.SessionOptions()
    options.set_provider_selection_policy_delegate(lambda devices, *_: answer(devices))
    with pytest.raises(Fail, match=message):
        opened(options)


# ---- factories of the process ----


def entry_points() -> tuple[Any, Any]:
    library = ctypes.CDLL(sample_kernels.get_library_path())
    return library.CreateEpFactories, library.ReleaseEpFactory


def as_address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@pytest.mark.parametrize(
    "form",
    [
        lambda function: function,
        as_address,
        lambda function: ctypes.c_void_p(as_address(function)),
        lambda function: ffi.cast("void(*)(void)", as_address(function)),
    ],
    ids=["ctypes function", "address", "ctypes pointer", "cffi function"],
)
def test_a_factory_of_the_process_is_like_any_other(form: Any) -> None:
    create, release = entry_points()
    ephost.register_execution_provider_factory("inside", form(create), form(release))
    try:
        (device,) = ephost.get_ep_devices()
        assert (device.ep_name, device.registration_name) == (KERNELS, "inside")
        assert "library_path" not in device.ep_metadata
        assert opened(providers=[KERNELS]) == [KERNELS, HOST]
        with pytest.raises(Fail, match="already registered"):
            ephost.register_execution_provider_factory("inside", create, release)
    finally:
        ephost.unregister_execution_provider_library("inside")
    assert ephost.get_ep_devices() == []


def test_a_factory_is_found_by_the_name_of_its_symbols() -> None:
    ctypes.CDLL(sample_kernels.get_library_path(), mode=ctypes.RTLD_GLOBAL)
    ephost.register_execution_provider_factory("by name", "CreateEpFactories", "ReleaseEpFactory")
    assert [device.registration_name for device in ephost.get_ep_devices()] == ["by name"]
    ephost.unregister_execution_provider_library("by name")


@pytest.mark.parametrize(
    ("create", "error", "message"),
    [
        (0, InvalidArgument, "CreateEpFactories is NULL"),
        (ffi.NULL, InvalidArgument, "CreateEpFactories is NULL"),
        ("no_such_symbol_anywhere", InvalidArgument, "exports the symbol 'no_such_symbol_anywhere'"),
        (1.5, TypeError, "not 1.5"),
        (True, TypeError, "not True"),
    ],
)
def test_what_is_no_function_is_no_factory(create: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ephost.register_execution_provider_factory("inside", create, entry_points()[1])
    assert ephost.get_ep_devices() == []


# ---- bodies of control flow ----


@pytest.mark.parametrize(("entry", "claimed"), [("", True), ("1", True), ("0", False)])
def test_bodies_of_control_flow_are_offered_to_eps_or_not(entry: str, claimed: bool) -> None:
    branches = [
        helper.make_graph([helper.make_node(kind, ["x"], ["b"])], kind, [], [tensor("b", 3)])
        for kind in ("Relu", "Neg")
    ]
    choose = helper.make_node("If", ["c"], ["m"], then_branch=branches[0], else_branch=branches[1])
    outer = helper.make_node("Add", ["m", "x"], ["y"])
    inputs = [tensor("c", element_type=9), tensor("x", 3)]
    options = ephost.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if entry:
        options.add_session_config_entry("ephost.offer_subgraphs", entry)
    name, x = sample_kernels.get_ep_name(), np.array([1, -2, 3], np.float32)
    ephost.register_execution_provider_library("api-bodies", sample_kernels.get_library_path())
    try:
        session = ephost.InferenceSession(
            model_bytes([choose, outer], inputs, [tensor("y", 3)]), options, providers=[name]
        )
        groups = session.get_provider_graph_assignment_info()
        taken = {node.op_type for group in groups if group.ep_name == name for node in group.get_nodes()}
        assert taken == ({"Relu", "Neg", "Add"} if claimed else {"Add"})
        assert session.run(None, {"c": np.array(True), "x": x})[0].tolist() == [2, -2, 6]
        assert session.run(None, {"c": np.array(False), "x": x})[0].tolist() == [0, 0, 0]
        session.close()
    finally:
        ephost.unregister_execution_provider_library("api-bodies")


# ---- typed options ----


def test_typed_options_are_strings_and_checked_by_the_keys_that_the_plugin_publishes() -> None:
    name = sample_kernels.get_ep_name()
    with pytest.raises(InvalidArgument, match=f"execution provider {name}"):
        ephost.provider_options(name)
    ephost.register_execution_provider_library("api-options", sample_kernels.get_library_path())
    try:
        made = ephost.provider_options(name, threads=4, fast=True, exact=False, scale=0.5, cache=Path("a/b"))
        assert made == {"threads": "4", "fast": "1", "exact": "0", "scale": "0.5", "cache": str(Path("a/b"))}
        with pytest.raises(TypeError, match="threads"):
            ephost.provider_options(name, threads=[4])  # type: ignore[arg-type]
        (device,) = [d for d in ephost.get_ep_devices() if d.ep_name == name]
        device._description().options = {"threads": "1"}  # as the library would publish them
        assert ephost.provider_options(name, threads=4) == {"threads": "4"}
        meant = r"no option treads \(did you mean 'threads'\?\); it publishes threads"
        with pytest.raises(InvalidArgument, match=meant):
            ephost.provider_options(name, treads=4)
    finally:
        ephost.unregister_execution_provider_library("api-options")
