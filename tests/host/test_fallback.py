"""A plugin that fails: the session goes on without it and says so, where it is not told to raise."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ephost
import numpy as np
import pytest
from ephost.errors import EPFail, Fail, InvalidArgument
from host_state import adds_model

X = np.array([1.0, 2.0], np.float32)
Y = [-1.0, -2.0]
CPU = ["CPUExecutionProvider"]
Open = Callable[..., ephost.InferenceSession]


@pytest.fixture
def open_bad(
    bad_plugin: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Open]:
    """Opens a model of two Adds on the bad plugin in one of its modes."""
    model = tmp_path / "model.onnx"
    model.write_bytes(adds_model().SerializeToString())
    registered: list[str] = []
    opened: list[ephost.InferenceSession] = []

    def open_it(mode: str, config: dict[str, str] | None = None, **arguments: Any) -> ephost.InferenceSession:
        monkeypatch.setenv("EPHOST_BAD", mode)
        registered.append("failing")
        ephost.register_execution_provider_library("failing", str(bad_plugin()))
        options = ephost.SessionOptions()
        for key, value in (config or {}).items():
            options.add_session_config_entry(key, value)
        devices = [d for d in ephost.get_ep_devices() if d.ep_name == "bad_plugin"]
        options.add_provider_for_devices(devices, {})
        opened.append(ephost.InferenceSession(str(model), options, **arguments))
        return opened[-1]

    yield open_it
    for session in opened:
        session.close()
    for name in registered:
        ephost.unregister_execution_provider_library(name)


@pytest.mark.parametrize(
    ("mode", "stage"),
    [("compute_fails", "Compute"), ("run_start_fails", "OnRunStart"), ("run_end_fails", "OnRunEnd")],
)
def test_a_run_on_which_a_plugin_fails_is_repeated_without_it(open_bad: Open, mode: str, stage: str) -> None:
    session = open_bad(mode)
    assert session.get_providers() == ["bad_plugin", *CPU]
    with pytest.warns(ephost.FallbackWarning) as told:
        assert session.run(None, {"x": X})[0].tolist() == Y
    (warning,) = told
    text = str(warning.message)
    assert "runs without bad_plugin from here on" in text
    assert f"bad_plugin: {stage} fails" in text
    assert warning.filename == __file__
    assert session.get_providers() == CPU
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert session.run(None, {"x": X})[0].tolist() == Y


def test_a_run_on_values_and_one_with_options_are_repeated_too(open_bad: Open) -> None:
    session = open_bad("compute_fails")
    with pytest.warns(ephost.FallbackWarning):
        (value,) = session.run_with_ort_values(None, {"x": ephost.OrtValue.ortvalue_from_numpy(X)})
    assert value.numpy().tolist() == Y
    session.set_providers(["bad_plugin"])
    session.enable_fallback()
    with pytest.warns(ephost.FallbackWarning):
        assert session.run(None, {"x": X}, ephost.RunOptions())[0].tolist() == Y


@pytest.mark.parametrize(
    "mode",
    ["create_ep_fails", "create_ep_null", "registry_fails", "capability_fails", "capability_fails_late"],
)
def test_a_session_opens_without_a_plugin_that_fails_before_it_has_nodes(open_bad: Open, mode: str) -> None:
    with pytest.warns(ephost.FallbackWarning, match="runs without bad_plugin") as told:
        session = open_bad(mode)
    assert len(told) == 1
    assert told[0].filename == __file__
    assert session.run(None, {"x": X})[0].tolist() == Y


def test_an_option_that_a_plugin_refuses_is_an_error(open_bad: Open) -> None:
    with pytest.raises(InvalidArgument, match=r"bad_plugin .*cannot be created: .*not know that option"):
        open_bad("create_ep_refuses")


def test_a_session_is_closed_at_the_end_of_its_block() -> None:
    with ephost.InferenceSession(adds_model().SerializeToString()) as session:
        assert session.run(None, {"x": X})[0].tolist() == Y
    with pytest.raises(Fail, match="closed"):
        session.run(None, {"x": X})


@pytest.mark.parametrize("by", ["policy", "delegate"])
def test_an_ep_that_a_policy_chose_and_that_cannot_be_created_is_an_error(
    bad_plugin: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """As in onnxruntime: a name is somebody's wish, a policy's choice is what the session is to run on."""
    monkeypatch.setenv("EPHOST_BAD", "create_ep_fails")
    ephost.register_execution_provider_library("bad", str(bad_plugin()))
    try:
        options = ephost.SessionOptions()
        if by == "policy":
            options.set_provider_selection_policy(ephost.OrtExecutionProviderDevicePolicy.PREFER_CPU)
        else:
            options.set_provider_selection_policy_delegate(lambda devices, *_: devices[:1])
        with pytest.raises(EPFail, match=r"bad_plugin .*cannot be created: bad_plugin: CreateEp fails"):
            ephost.InferenceSession(adds_model().SerializeToString(), options)
    finally:
        ephost.unregister_execution_provider_library("bad")


def test_a_plugin_that_fails_to_compile_what_it_took_is_an_error(open_bad: Open) -> None:
    with pytest.raises(EPFail, match="Compile fails"):
        open_bad("compile_fails")


STRICT: list[dict[str, Any]] = [
    {"enable_fallback": 0},
    {"enable_fallback": False},
    {"config": {"ephost.enable_fallback": "0"}},
]


@pytest.mark.parametrize("arguments", STRICT)
@pytest.mark.parametrize("mode", ["create_ep_fails", "capability_fails"])
def test_opening_raises_where_that_is_wanted(open_bad: Open, mode: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(EPFail, match=r"bad_plugin: \w+ fails"):
        open_bad(mode, **arguments)


@pytest.mark.parametrize("arguments", [*STRICT, {"config": {"session.disable_cpu_ep_fallback": "1"}}])
def test_a_run_raises_where_that_is_wanted(open_bad: Open, arguments: dict[str, Any]) -> None:
    if arguments.get("config", {}).get("session.disable_cpu_ep_fallback"):
        with pytest.raises(EPFail, match="CreateEp fails"):
            open_bad("create_ep_fails", **arguments)
        return
    session = open_bad("compute_fails", **arguments)
    for _ in range(2):
        with pytest.raises(EPFail, match="Compute fails"):
            session.run(None, {"x": X})
    assert session.get_providers() == ["bad_plugin", *CPU]


def test_fallback_can_be_switched_off_and_on(open_bad: Open) -> None:
    session = open_bad("compute_fails")
    session.disable_fallback()
    with pytest.raises(EPFail, match="Compute fails"):
        session.run(None, {"x": X})
    session.enable_fallback()
    with pytest.warns(ephost.FallbackWarning):
        assert session.run(None, {"x": X})[0].tolist() == Y


def test_it_falls_back_once(open_bad: Open) -> None:
    session = open_bad("compute_fails")
    with pytest.warns(ephost.FallbackWarning):
        session.run(None, {"x": X})
    session.set_providers(["bad_plugin"])
    with pytest.raises(EPFail, match="Compute fails"):
        session.run(None, {"x": X})


def test_the_warning_made_an_error_leaves_the_session_as_it_was(open_bad: Open) -> None:
    session = open_bad("compute_fails")
    with warnings.catch_warnings():
        warnings.simplefilter("error", ephost.FallbackWarning)
        for _ in range(2):
            with pytest.raises(ephost.FallbackWarning, match="Compute fails"):
                session.run(None, {"x": X})
    assert session.get_providers() == ["bad_plugin", *CPU]


def test_a_run_on_a_binding_is_not_repeated(open_bad: Open) -> None:
    session = open_bad("compute_fails")
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y")
    with pytest.raises(EPFail, match="Compute fails"):
        session.run_with_iobinding(binding)


def test_the_plugins_error_is_raised_when_the_model_cannot_be_opened_again(
    open_bad: Open, tmp_path: Path
) -> None:
    session = open_bad("compute_fails")
    (tmp_path / "model.onnx").unlink()
    with pytest.warns(ephost.FallbackWarning), pytest.raises(EPFail, match="Compute fails") as failure:
        session.run(None, {"x": X})
    assert "cannot be run without bad_plugin either" in "".join(failure.value.__notes__)


@pytest.mark.filterwarnings("always::ephost.FallbackWarning")
def test_threads_on_which_it_fails_at_once_fall_back_together(open_bad: Open) -> None:
    session = open_bad("compute_fails")
    start = threading.Barrier(4)
    results: list[object] = []

    def work() -> None:
        start.wait()
        try:
            results.append(session.run(None, {"x": X})[0].tolist())
        except Exception as error:
            results.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    with pytest.warns(ephost.FallbackWarning) as told:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == [Y] * 4
    assert len(told) == 1
