"""Deliberately broken plugins: each is caught by a check that names the fault."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Of tests/plugins/bad_plugin: what EPHOST_BAD or EPHOST_FAULT says, the check that has to find it, the
# verdict, and what it has to say.
BAD = [
    ("factories_fail", "registration.succeeds", "failed", "CreateEpFactories fails"),
    ("factories_none", "registration.succeeds", "failed", "made no factory"),
    ("factories_too_many", "registration.succeeds", "failed", "there was room for 16"),
    ("factories_null", "registration.succeeds", "failed", "gave NULL for 1 of its 1 factories"),
    ("factories_twice", "registration.succeeds", "failed", "of which only 1 differ"),
    ("factory_without_name", "registration.succeeds", "failed", "lacks GetName"),
    ("factory_name_empty", "registration.succeeds", "failed", "no EP name"),
    ("factory_vendor_null", "registration.succeeds", "failed", "no vendor"),
    ("factory_version_null", "devices.version", "warning", "its version is ''"),
    ("devices_fail", "registration.succeeds", "failed", "GetSupportedDevices fails"),
    ("devices_none", "devices.offered", "failed", "offers no device here, so that hardly anything"),
    ("devices_overrun", "registration.succeeds", "failed", "more devices|there was room for"),
    ("devices_twice", "registration.succeeds", "failed", "of which only 1 differ"),
    ("answers_any_host", "versions.host-of-1", "failed", "refused every version .* but 1 factories"),
    ("version_9999", "versions.known", "warning", "its factory is of version 9999"),
    ("version_0", "registration.succeeds", "failed", "ort_version_supported is 0"),
    ("create_ep_fails", "sessions.open", "failed", "CreateEp fails"),
    ("create_ep_null", "sessions.open", "failed", "gave NULL"),
    ("ep_without_capability", "sessions.open", "failed", "has no GetCapability"),
    ("capability_fails", "claims.sample-add", "failed", "GetCapability fails"),
    ("claim_none", "sessions.takes-something", "warning", "takes nothing"),
    ("claim_unknown", "claims.sample-add", "failed", "node|NODE"),
    ("claim_twice_in_group", "claims.sample-add", "failed", "2 nodes, but graph"),
    ("claim_in_two_groups", "claims.sample-add", "failed", "claim"),
    ("compile_fails", "claims.sample-add", "failed", "Compile fails"),
    ("compile_nothing", "claims.sample-add", "failed", "Compile"),
    ("info_without_compute", "claims.sample-add", "failed", "Compute"),
    ("create_state_fails", "claims.sample-add", "failed", "CreateState fails"),
    ("compute_fails", "sessions.run", "failed", "Compute fails"),
    ("compute_no_output", "sessions.run", "failed", "without setting its output"),
    ("compute_negative_shape", "sessions.run", "failed", "impossible shape"),
    ("compute_huge_shape", "sessions.run", "failed", "impossible shape"),
    ("compute_other_shape", "sessions.run", "failed", "shape"),
    ("run_start_fails", "sessions.run", "failed", "OnRunStart fails"),
    ("segv:load", "registration.succeeds", "crashed", "SIGSEGV while registering"),
    ("abort:GetCapability", "sessions.open", "crashed", "SIGABRT while opening a session"),
    ("exit:Compile", "claims.sample-add", "crashed", "exit code 7 while opening"),
    ("ill:ReleaseEp", "sessions.one-after-the-other", "crashed", "SIGILL"),
    ("segv:Compute:50", "sessions.hundred-runs", "crashed", "SIGSEGV while running"),
    ("segv:ReleaseEpFactory", "registration.ends", "crashed", "SIGSEGV while unregistering"),
    ("segv:unload", "unload.after-use", "crashed", "SIGSEGV while unregistering"),
    ("twice:ReleaseEp", "sessions.one-after-the-other", "crashed", "SIGABRT.*double free"),
    ("no_stdin:load", "registration.keeps-streams", "failed", "stdin: .* -> closed"),
    ("no_stdout:load", "registration.keeps-streams", "failed", "stdout: .* -> closed"),
    ("nonblocking:load", "registration.keeps-streams", "failed", "stderr: .*, which does not block"),
    ("default_segv:load", "registration.keeps-signals", "failed", "no longer handles SIGSEGV"),
    ("nice:load", "registration.keeps-place", "failed", "niceness: .* -> "),
    ("child:CreateEpFactories", "registration.keeps-place", "failed", r"child processes: \[\] -> \['"),
    ("fork:load", "registration.keeps-place", "failed", r"child processes: \[\] -> \['"),
    ("alarm:load", "registration.keeps-place", "failed", r"timers: \[\] -> \['real'\]"),
    ("thread_end:Compile", "claims.sample-add", "failed", "threw pthread_exit"),
    ("print:load", "registration.prints-nothing", "timed out", "while registering"),
    ("hang:CreateEpFactories", "registration.succeeds", "timed out", "while registering"),
]

# Checks of what a look at the plugin found out before them.
PROBED = ("sessions.takes-something",)


@pytest.mark.parametrize(("mode", "check", "verdict", "words"), BAD)
def test_each_mode_of_the_bad_plugin_is_found(
    mode: str, check: str, verdict: str, words: str, checker: Any, built: Callable[..., Path]
) -> None:
    variables = {"EPHOST_FAULT" if ":" in mode else "EPHOST_BAD": mode}
    limit = 1 if mode.startswith(("hang", "print")) else 20
    found = checker(built("bad_plugin"), [check], variables, limit, check in PROBED)[check]
    assert found.status == verdict, f"{found.status}: {found.message}"
    assert re.search(words, found.message), found.message


RULES = ROOT / "tests" / "plugins" / "rule_breaker" / "rule_breaker.c"


@pytest.mark.parametrize(("mode", "rule"), re.findall(r'MODE\((\w+), "(EPV-\w+-\d+)"\)', RULES.read_text()))
def test_each_rule_that_a_plugin_breaks_is_named(
    mode: str, rule: str, checker: Any, built: Callable[..., Path]
) -> None:
    check = f"rules.{rule.rpartition('-')[0]}"
    found = checker(built("rule_breaker"), [check], {"RULE_BREAKER": mode})[check]
    if mode == "called_after_release":  # is not survived
        assert (found.status, found.stage) == ("crashed", "unregistering")
        return
    assert found.status in ("failed", "warning"), found.message
    assert any(told.startswith(rule) for told in found.numbers["findings"]), found.numbers


# Of tests/plugins/faulty_plugin: a fault in the node "y", or of a kind of node, and the check that finds it.
FAULTS = [
    ("scaled@y", "numbers.Sigmoid-special", "failed"),
    ("negatives@y", "numbers.Mul-special", "failed"),
    ("zero@y", "shapes.rank-one", "failed"),
    ("tail@y", "shapes.rank-one", "failed"),
    ("nan_for_denormals@y", "numbers.Relu-special", "failed"),
    ("infinite@y", "numbers.Mul-special", "failed"),
    ("rounded_to_bfloat16@y", "shapes.rank-three", "failed"),
    ("conv_ignores_groups", "layout.conv-of-groups", "failed"),
    ("conv_strides_1x2", "layout.conv-uneven", "failed"),
    ("second_run@s", "sessions.run-twice", "failed"),
    ("third_run@s", "sessions.hundred-runs", "failed"),
    ("two_at_once@s", "threads.runs-at-once", "failed"),
    ("crash@s", "sessions.run", "crashed"),
    ("abort@s", "unload.after-use", "crashed"),
    ("divide_by_zero@s", "sessions.bound", "crashed"),
    ("exit@s", "exit.after-use", "crashed"),
    ("error_second_run@s", "sessions.run-twice", "failed"),
    ("leak@s", "memory.runs", "failed"),
    ("leak_large@s", "memory.runs", "failed"),
]


def test_a_kernel_that_reads_a_weight_which_the_host_has_freed_is_found(
    checker: Any, built: Callable[..., Path]
) -> None:
    library, check = built("trace_plugin", "-pthread"), "memory.weights-of-files"
    for words, verdict in (("pack", "pass"), ("borrow", "crashed")):
        found = checker(library, [check], {"TRACE_PLUGIN": words})[check]
        assert found.status == verdict, found.message
        assert verdict == "pass" or "SIGSEGV while running" in found.message, found.message


@pytest.mark.parametrize(("fault", "check", "verdict"), FAULTS)
def test_each_fault_of_numbers_and_runs_is_found(
    fault: str, check: str, verdict: str, checker: Any, built: Callable[..., Path]
) -> None:
    found = checker(built("faulty_plugin"), [check], {"EPHOST_FAULT": fault})[check]
    assert found.status == verdict, f"{found.status}: {found.message}"


UNIQUE = """
__attribute__((visibility("default"))) int shared_count;
__asm__(".type shared_count, @gnu_unique_object");
__attribute__((visibility("default"))) int count_shared(void);
__attribute__((visibility("default"))) int count_shared(void) { return ++shared_count; }
"""


def test_what_keeps_a_library_in_memory_is_named(
    checker: Any, built: Callable[..., Path], tmp_path: Path
) -> None:
    """A symbol that is one for all libraries, as a variable of a C++ template is, has the loader keep it."""
    source = tmp_path / "unique.c"
    source.write_text(UNIQUE)
    for flag, said in (
        (
            str(source),
            ", for 1 of its symbols are one for all libraries of a process, such as shared_count",
        ),
        ("-Wl,-z,nodelete", ": it was linked with -z nodelete"),
    ):
        found = checker(built("bad_plugin", flag), ["unload.leaves-memory"])["unload.leaves-memory"]
        assert found.status == "warning", found.message
        assert f"stays in memory after it was unregistered{said}" in found.message
