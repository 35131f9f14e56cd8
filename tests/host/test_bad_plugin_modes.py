"""What the host makes of each fault of tests/plugins/bad_plugin: an error that names the culprit, or none.

The modes run in a process of their own, one after the other: what one of them left behind would hurt the
next.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from ephost.plugins import sample_compiler
from plugin_harness import bad_modes

GOOD_OUTPUT = [-1.0, -2.0]
LIBRARY = "'under_test' (*/libbad_plugin.so)"
EP = "the execution provider bad_plugin (under_test: */libbad_plugin.so)"


@dataclass(frozen=True)
class Error:
    """Where it stops, the exception's class, and the parts of its text in order; * in them is the folder."""

    stage: str
    kind: str
    text: str


@dataclass(frozen=True)
class Works:
    """It runs all the same, with so many nodes on the plugin; why that is right."""

    claimed: int
    why: str
    log: str = ""


def _register(text: str, kind: str = "EPFail") -> Error:
    return Error("register", kind, text)


def _open(text: str, kind: str = "EPFail") -> Error:
    return Error("open", kind, f"{EP} {text}")


def _run(text: str, kind: str = "EPFail") -> Error:
    return Error("run", kind, f"bad_plugin {text}")


CREATE, DEVICES = f"CreateEpFactories of {LIBRARY}", f"GetSupportedDevices of EP 'bad_plugin' of {LIBRARY}"
CAPABILITY = "failed in GetCapability: EpGraphSupportInfo_AddNodesToFuse"
FIRST = "node 'first' (Add)"
EXPECTED: dict[str, Error | Works] = {
    "factories_fail": _register(f"{CREATE} failed: bad_plugin: CreateEpFactories fails"),
    "factories_none": _register(f"{CREATE} made no factory"),
    "factories_too_many": _register(f"{CREATE} says that it made 17 factories where there was room for 16"),
    "factories_garbage": _register(f"{CREATE} says that it made 18446744073709551615 factories"),
    "factories_null": _register(f"{CREATE} gave NULL for 1 of its 1 factories"),
    "factories_twice": _register(f"{CREATE} gave 2 factories, of which only 1 differ"),
    "factories_fail_not_utf8": _register(f"{CREATE} failed: bad_plugin: \\xff is no text"),
    "factory_release_fails": Works(
        2,
        "there is nobody left to raise it to",
        "ReleaseEpFactory of 'under_test': bad_plugin: ReleaseEpFactory fails",
    ),
    "factory_without_name": _register(f"a factory of {LIBRARY} lacks GetName"),
    "factory_name_null": _register(f"a factory of {LIBRARY} gives no EP name"),
    "factory_name_empty": _register(f"a factory of {LIBRARY} gives no EP name"),
    "factory_without_vendor": _register(f"a factory of {LIBRARY} lacks GetVendor"),
    "factory_vendor_null": _register(f"EP 'bad_plugin' of {LIBRARY} gives no vendor"),
    "factory_version_null": Works(2, "a version is only for the reader of the metadata"),
    "factory_without_devices": _register(f"a factory of {LIBRARY} lacks GetSupportedDevices"),
    "factory_without_create_ep": _register(f"a factory of {LIBRARY} lacks CreateEp"),
    "factory_without_release_ep": _register(f"a factory of {LIBRARY} lacks ReleaseEp"),
    "devices_fail": _register(f"{DEVICES} failed: bad_plugin: GetSupportedDevices fails"),
    "devices_none": Works(0, "a library whose hardware is not here is no error"),
    "devices_overrun": _register(f"{DEVICES} says that it offers 33 devices where there was room for 32"),
    "devices_null": _register(f"{DEVICES} gave NULL for 1 of its 1 devices"),
    "devices_twice": _register(f"{DEVICES} gave 2 devices, of which only 1 differ"),
    "asks_api_999": Works(2, "it goes on with a version that there is", "a plugin asked for API version 999"),
    "answers_any_host": Works(2, "this host serves the version that it asks for"),
    "asks_api_33": _register(
        f"{CREATE} failed: bad_plugin: the host is too old (it asked for API version 33; ephost serves "
        "versions 1 to 32. EPHOST_ASSUME_API_VERSION=33 in the environment"
    ),
    "version_0": _register(f"a factory of {LIBRARY} says that its ort_version_supported is 0"),
    "version_1": _register(f"a factory of {LIBRARY} says that its ort_version_supported is 1"),
    "version_22_factory": Works(2, "what is newer than 22 is not read"),
    "version_23_ep": Works(2, "what is newer than 23 is not read"),
    "version_9999": Works(2, "the ABI only grows at its end", "of API version 9999"),
    "create_ep_fails": _open("cannot be created: bad_plugin: CreateEp fails"),
    "create_ep_refuses": _open(
        "cannot be created: bad_plugin: CreateEp does not know that option", "InvalidArgument"
    ),
    "create_ep_null": _open("cannot be created: its factory says that it succeeded, and gave NULL"),
    "calls_missing_slot": _open(
        "cannot be created: OrtApi::SessionOptionsAppendExecutionProvider_MIGraphX is not implemented",
        "NotImplemented",
    ),
    "ep_without_name": _open("has no GetName"),
    "ep_name_null": Works(2, "the factory has said the name"),
    "ep_name_differs": Works(2, "the name of its factory counts: users choose devices by it"),
    "ep_without_capability": _open("has no GetCapability"),
    "ep_without_compile": _open("has neither Compile nor GetKernelRegistry"),
    "ep_without_release_infos": _open("has Compile, but no ReleaseNodeComputeInfos"),
    "registry_null": _open("claims the group of 'first' (Add) to fuse, but has no Compile"),
    "registry_fails": _open("failed in GetKernelRegistry: bad_plugin: GetKernelRegistry fails"),
    "capability_fails": _open("failed in GetCapability: bad_plugin: GetCapability fails"),
    "capability_fails_late": _open(
        "failed in GetCapability: bad_plugin: GetCapability fails after its claims"
    ),
    "claim_none": Works(0, "an EP need not take anything"),
    "claim_null": _open(f"{CAPABILITY}: node 0 of 1 is NULL", "InvalidArgument"),
    "claim_unknown": _open(f"{CAPABILITY}: node '?' (?) is not in graph 'adds'", "InvalidArgument"),
    "claim_from_subgraph": _open(
        f"{CAPABILITY}: node 'e_node' (Sub) is not in graph 'conditional'", "InvalidArgument"
    ),
    "claim_empty": _open(
        "failed in GetCapability: *EpGraphSupportInfo_AddNodesToFuse: num_nodes > 0 does not hold",
        "InvalidArgument",
    ),
    "claim_twice_in_group": _open(f"{CAPABILITY}: {FIRST} is there twice", "InvalidArgument"),
    "claim_in_two_groups": _open(f"claims the {FIRST} twice"),
    "claim_fused_and_single": _open(f"claims the {FIRST} twice"),
    "claim_single": _open(f"claims the single {FIRST}, but has no kernel registry"),
    "claim_all_as_one": Works(
        0, "such a group cannot be one node", "'first' (Add) -> 'middle' (Neg) -> 'last' (Add)"
    ),
    "compile_fails": _open("failed in Compile: bad_plugin: Compile fails"),
    "compile_nothing": _open("gave no compute info for the group of 'first' (Add) (1 nodes) from Compile"),
    "compile_one_short": _open("gave no compute info for the group of 'last' (Add) (1 nodes) from Compile"),
    "info_version_0": Works(2, "its three functions are as old as the struct"),
    "info_without_create_state": _open("gave a compute info without CreateState for the group of 'first'"),
    "info_without_compute": _open("gave a compute info without Compute for the group of 'first'"),
    "info_without_release_state": _open("gave a compute info without ReleaseState for the group of 'first'"),
    "create_state_fails": _open(
        "failed in CreateState for the group of 'first' (Add) (1 nodes): bad_plugin: CreateState fails"
    ),
    "run_start_fails": _run("failed in OnRunStart: bad_plugin: OnRunStart fails"),
    "run_options_told": _run(
        "failed in OnRunStart: tag '', severity -1, verbosity 0, entry 'none', stopped 0"
    ),
    "run_end_fails": _run("failed in OnRunEnd: bad_plugin: OnRunEnd fails"),
    "compute_fails": _run(f"failed in {FIRST}: bad_plugin: Compute fails"),
    "compute_reaches": _run(f"failed in {FIRST}: made * outside"),
    "compute_no_output": _run(f"reported success for {FIRST} without setting its output 0"),
    "compute_input_range": _run(f"failed in {FIRST}: *input 1000 was asked for", "InvalidArgument"),
    "compute_output_range": _run(f"failed in {FIRST}: *output 1000 was asked for", "InvalidArgument"),
    "compute_negative_shape": _run(f"failed in {FIRST}: output 0 * impossible shape", "InvalidArgument"),
    "compute_huge_shape": _run(f"failed in {FIRST}: output 0 * impossible shape", "InvalidArgument"),
    # The fallback and the plugin both take what comes; the second Add then meets two different shapes.
    "compute_other_shape": _run("failed in node 'last' (Add): bad_plugin: it only adds tensors of one shape"),
    "compute_two_shapes": _run(
        f"failed in {FIRST}: output 0 * with the shape [2], but before with [1,2]", "InvalidArgument"
    ),
    "logs": Works(2, "a plugin may talk", "ephost.plugin.under_test: GetCapability"),
}


@pytest.fixture(scope="module")
def outcomes(
    bad_plugin: Callable[..., Path], python: Callable, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict]:
    """What became of each mode; a mode that ended the process has only its exit code."""
    output = tmp_path_factory.mktemp("modes") / "outcomes.jsonl"
    output.touch()
    worker = str(Path(__file__).with_name("bad_mode_worker.py"))
    left = list(bad_modes())
    found: dict[str, dict] = {}
    while left:
        done = python(worker, str(bad_plugin()), sample_compiler.get_library_path(), str(output), *left)
        found |= {line["mode"]: line for line in map(json.loads, output.read_text().splitlines())}
        left = [mode for mode in left if mode not in found]
        if done.returncode != 0:  # of the mode after the last one that was told, or of leaving
            culprit = left.pop(0) if left else "leaving"
            found[culprit] = {"crash": f"exit code {done.returncode}: {done.stderr[-2000:]}"}
        assert done.returncode != 0 or not left, done.stderr
    return found


def test_each_mode_of_the_plugin_has_its_line_here() -> None:
    assert set(EXPECTED) == set(bad_modes())


def test_the_process_ends_well_after_all_of_them(outcomes: dict[str, dict]) -> None:
    assert "leaving" not in outcomes, outcomes["leaving"]["crash"]


@pytest.mark.parametrize("mode", EXPECTED)
def test_a_fault_is_told_and_leaves_nothing_behind(outcomes: dict[str, dict], mode: str) -> None:
    outcome, expected = outcomes[mode], EXPECTED[mode]
    assert "crash" not in outcome, outcome["crash"]
    if isinstance(expected, Works):
        assert outcome["stage"] is None, (expected.why, outcome)
        assert outcome["output"] == GOOD_OUTPUT
        assert outcome["claimed"] == expected.claimed
        assert any(expected.log in line for line in outcome["log"]) or not expected.log, outcome["log"]
    else:
        assert (outcome["stage"], outcome["error"]) == (expected.stage, expected.kind), outcome
        if mode.endswith("_reaches") and sys.platform != "linux":
            pytest.skip("what the plugin reaches it asks of Linux")
        rest = outcome["message"].replace("\\libbad_plugin", "/libbad_plugin")
        for part in expected.text.split("*"):
            assert part in rest, outcome["message"]
            rest = rest[rest.index(part) + len(part) :]
    assert outcome["leaked"] == {}
    assert outcome["registered"] == []
    assert not outcome["mapped"]
    good = outcome["good"]
    assert (good["stage"], good["claimed"], good["output"]) == (None, 3, GOOD_OUTPUT)
