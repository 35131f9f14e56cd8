"""tests/plugins/bad_plugin: that it is good by default and bad as told."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from plugin_harness import ROOT, Case, Runner, bad_modes
from plugin_models import model, node

EP = "bad_plugin"
X = np.array([1.0, 2.0], np.float32)


def case() -> Case:
    """Two Adds, so that some modes have a first and a last one to fail at."""
    made = model([node("Add", "x x", "a"), node("Neg", "a", "n"), node("Add", "n x", "y")], {"x": [2]}, ["y"])
    return Case(made, [{"x": X}])


@pytest.fixture
def bad_runner(host: str, bad_plugin: Callable[..., Path], tmp_path: Path) -> Runner:
    """Runs the bad plugin in a host."""
    return Runner(host, bad_plugin(), EP, tmp_path)


def test_without_a_mode_it_is_a_good_plugin(bad_runner: Runner) -> None:
    outcome = bad_runner.run_one(case())
    assert outcome.operators(EP) == [["Add"], ["Add"]]
    np.testing.assert_array_equal(outcome.outputs[0]["y"], -X)


@pytest.mark.parametrize("stage", ["CreateEp", "Compile", "Compute"])
def test_an_error_that_it_was_told_to_make_reaches_the_user(bad_runner: Runner, stage: str) -> None:
    mode = re.sub(r"(?<!^)(?=[A-Z])", "_", stage).lower() + "_fails"
    (outcome,), _ = bad_runner.run([case()], {"EPHOST_BAD": mode})
    assert outcome.error is not None
    assert f"bad_plugin: {stage} fails" in outcome.message


@pytest.mark.parametrize(
    ("mode", "goes_on"),
    [
        ("create_ep_fails", True),
        ("registry_fails", True),
        ("capability_fails", True),
        ("compile_fails", False),
        ("run_start_fails", True),
        ("compute_fails", True),
    ],
)
def test_by_default_both_hosts_go_on_without_it_after_the_same_failures(
    host: str, bad_runner: Runner, mode: str, goes_on: bool
) -> None:
    (outcome,), _ = bad_runner.run([replace(case(), fallback=True)], {"EPHOST_BAD": mode})
    if host == "onnxruntime" and mode in ("create_ep_fails", "registry_fails"):
        goes_on = False  # from 1.32 on its second try creates the plugin's EP again
    assert (outcome.error is None) == goes_on, outcome
    if goes_on:
        np.testing.assert_array_equal(outcome.outputs[0]["y"], -X)


def test_a_mode_that_it_does_not_know_fails_the_registration(bad_runner: Runner) -> None:
    with pytest.raises(AssertionError, match="EPHOST_BAD is not one of its modes"):
        bad_runner.run([], {"EPHOST_BAD": "no_such_mode"})


def test_every_mode_is_described() -> None:
    modes = bad_modes()
    assert len(modes) > 50
    assert all(what and what.strip() == what for what in modes.values())


@pytest.mark.parametrize("missing", ["CreateEpFactories", "ReleaseEpFactory"])
def test_a_build_can_leave_out_a_symbol(bad_plugin: Callable[..., Path], missing: str) -> None:
    library = bad_plugin(f"-D{missing}=Other")
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    )
    exported = {line.split()[-1] for line in listed.stdout.splitlines()}
    assert exported == {"CreateEpFactories", "ReleaseEpFactory", "Other"} - {missing}


ENDS_OTHERWISE = """
import os, sys
import ephost

print("begins", flush=True)
try:
    ephost.register_execution_provider_library("bad", sys.argv[1])
    found = [d for d in ephost.get_ep_devices() if d.registration_name == "bad"]
    print("registered with", len(found), flush=True)
except ephost.errors.OnnxRuntimeException as error:
    print(error, flush=True)
os._exit(0)
"""


def _end_otherwise(library: Path, fault: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", ENDS_OTHERWISE, str(library)],
        env={**os.environ, "EPHOST_FAULT": fault, "PYTHONPATH": str(ROOT / "host"), "EPHOST_ISOLATED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(sys.platform == "win32", reason="nothing forks there")
@pytest.mark.parametrize("function", ["load", "CreateEpFactories", "GetSupportedDevices"])
def test_a_child_in_which_a_plugin_returns_does_not_go_on_with_the_program(
    bad_plugin: Callable[..., Path], function: str
) -> None:
    library = bad_plugin()
    done = _end_otherwise(library, f"fork:{function}")
    assert done.stdout == "begins\nregistered with 1\n", done.stderr
    assert f"{library if function == 'load' else function}" in done.stderr
    assert "forked, and returned in the child" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="a thread's end is no exception there")
@pytest.mark.parametrize("function", ["load", "CreateEpFactories", "GetSupportedDevices"])
def test_a_plugin_that_ends_the_first_thread_of_the_program_gets_an_error(
    bad_plugin: Callable[..., Path], function: str
) -> None:
    done = _end_otherwise(bad_plugin(), f"thread_end:{function}")
    name = "static constructors" if function == "load" else function
    assert f"{name} threw pthread_exit" in done.stdout, (done.stdout, done.stderr)
    assert done.returncode == 0
