"""The checks: that they have what a check has to have, and what comes of them is told."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click.testing
import numpy as np
import pytest
from ephost.checking.cases import read_cases, write_cases
from ephost.checking.fuzzing import draw
from ephost.checking.page import page_of
from ephost.checking.processes import Server
from ephost.checking.registry import GROUPS, all_checks
from ephost.checking.report import Report, repeating
from ephost.checking.running import Plan, check_plugin, chosen
from ephost.checking.settings import Settings, read_settings
from ephost.checking.subject import Given, reference
from ephost.checking.verdicts import Outcome
from ephost.cli import main
from ephost.errors import InvalidArgument
from ephost.plugins import sample_compiler, sample_kernels
from plugin_harness import is_mapped

QUICK = ("file", "registration.succeeds", "sessions.run")


def given() -> Given:
    return Given(sample_kernels.get_library_path(), "sample_kernels")


def test_each_check_has_a_name_a_group_a_level_and_a_line_of_text() -> None:
    checks = all_checks()
    for name, made in checks.items():
        assert re.fullmatch(r"[a-z-]+\.[A-Za-z0-9-]+", name), name
        assert made.group in GROUPS and 1 <= made.level <= 10
        assert made.text.endswith(".") and len(made.text) < 130, made.text
        assert made.hosts and set(made.hosts) <= {"ephost", "onnxruntime"}
    assert len({made.text for made in checks.values()}) == len(checks)


def test_levels_and_patterns_choose_checks() -> None:
    names = {made.name for made in chosen(1)}
    assert "registration.succeeds" in names and "registration.ten-rounds" not in names
    assert [made.name for made in chosen(1, ["registration.ten-*"])] == ["registration.ten-rounds"]
    assert {made.group for made in chosen(5, ["file"])} == {"file"}
    assert not any(made.group == "file" for made in chosen(5, exclude=["file"]))
    assert all("onnxruntime" in made.hosts for made in chosen(5, host="onnxruntime"))
    with pytest.raises(InvalidArgument, match=r"registration\.succeeds"):
        chosen(5, ["registration.succeed"])


def test_a_report_has_verdicts_and_what_repeats_them(tmp_path: Path) -> None:
    heard: list[tuple[str, int, int]] = []
    plan = Plan(given(), only=QUICK, jobs=2, seed=3)
    report = check_plugin(plan, lambda outcome, done, total: heard.append((outcome.check, done, total)))
    assert not report.wrong and {outcome.group for outcome in report.outcomes} == {
        "file", "registration", "sessions",
    }  # fmt: skip
    assert [done for _, done, _ in heard] == list(range(1, len(heard) + 1))
    assert heard[-1][2] == len(heard)
    data = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert data["schema"] == 1 and data["counts"]["ephost"]["pass"] >= 10
    assert data["facts"]["ephost"]["ep_name"] == "sample_kernels"
    (run,) = [entry for entry in data["checks"] if entry["check"] == "sessions.run"]
    assert run["status"] == "pass" and run["seed"] == 3
    assert run["repeat"] == f"ephost check {plan.given.path} --only sessions.run --seed 3"


def test_junit_counts_failures_errors_and_what_is_expected() -> None:
    outcomes = [
        Outcome("file.opens", "ephost", "failed", "no <good>\x00"),
        Outcome("file.whole", "ephost", "crashed", "SIGSEGV"),
        Outcome("file.search-path", "ephost", "failed", "bad", expected="known"),
        Outcome("sessions.run", "ephost", "warning", "slow", notes=["slow"]),
        Outcome("sessions.two", "ephost", "skipped", "no device"),
    ]
    root = ElementTree.fromstring(Report(given(), outcomes).junit())
    files, sessions = root.findall("testsuite")
    assert (files.get("failures"), files.get("errors"), files.get("skipped")) == ("1", "1", "1")
    assert (sessions.get("failures"), sessions.get("skipped")) == ("0", "1")
    failure = root.find(".//failure")
    assert failure is not None and failure.get("message") == "no <good>\\x00"


def test_a_configuration_expects_failures_for_reasons(tmp_path: Path) -> None:
    path = tmp_path / "check.toml"
    path.write_text('[expected]\n"file.*" = "known"\n[timeout]\n"sessions.run" = 2\n')
    settings = read_settings(str(path), all_checks())
    assert settings.judged(Outcome("file.opens", "ephost", "failed")).expected == "known"
    passed = settings.judged(Outcome("file.opens", "ephost", "pass"))
    assert passed.status == "warning" and "known" in passed.message
    assert not settings.judged(Outcome("sessions.run", "ephost", "failed")).expected
    assert settings.timeout_of("sessions.run", 30) == 2 and settings.timeout_of("sessions.two", 30) == 30


def test_a_configuration_expects_failures_in_one_host(tmp_path: Path) -> None:
    path = tmp_path / "check.toml"
    there = '[expected.onnxruntime]\n"file.opens" = "there"\n"sessions.run" = "why"\n'
    path.write_text(f'[expected]\n"file.*" = "known"\n{there}')
    settings = read_settings(str(path), all_checks())
    assert settings.judged(Outcome("sessions.run", "onnxruntime", "failed")).expected == "why"
    assert settings.judged(Outcome("sessions.run", "ephost", "failed")).is_wrong
    assert settings.judged(Outcome("sessions.run", "ephost", "pass")).status == "pass"
    assert settings.judged(Outcome("file.opens", "onnxruntime", "failed")).expected == "there"
    assert settings.judged(Outcome("file.opens", "ephost", "failed")).expected == "known"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[expected]\n'no.such' = 'x'", "names no check"),
        ("[expected.onnxruntime]\n'no.such' = 'x'", r"\[expected.onnxruntime\] 'no.such' names no check"),
        ("[expected.onnxruntim]\n'file.opens' = 'x'", "did you mean 'onnxruntime'"),
        ("[expected]\n'file.opens' = ''", "needs a reason"),
        ("[timeout]\n'file.opens' = 0", "a number of seconds"),
        ("[other]\n", "no section"),
        ("[", "is no TOML"),
    ],
)
def test_a_configuration_that_is_wrong_is_refused(text: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / "check.toml"
    path.write_text(text)
    with pytest.raises(InvalidArgument, match=what):
        read_settings(str(path), all_checks())


def test_hosts_that_differ_are_told() -> None:
    outcomes = [
        Outcome("sessions.run", "ephost", "pass"),
        Outcome("sessions.run", "onnxruntime", "failed", "why"),
    ]
    report = Report(given(), outcomes)
    ((name, by_host),) = report.differences()
    assert name == "sessions.run" and by_host["onnxruntime"].status == "failed"
    assert "onnxruntime: why" in "\n".join(table.plain() for table in report.tables())


def test_what_one_host_has_nothing_of_to_check_is_no_difference() -> None:
    outcomes = [
        Outcome("numbers.Range", "ephost", "skipped", "the plugin takes none of its 4 cases"),
        Outcome("numbers.Range-all", "ephost", "skipped", "the plugin takes none of its 9 cases"),
        Outcome("options.unknown", "ephost", "pass"),
        Outcome("numbers.Range", "onnxruntime", "pass", numbers={"cases": 4, "taken as": ["Add"]}),
        Outcome("numbers.Range-all", "onnxruntime", "warning", numbers={"cases": 9, "taken as": ["Add"]}),
        Outcome("options.unknown", "onnxruntime", "skipped", "it has none"),
    ]
    report = Report(given(), outcomes)
    assert report.differences() == []
    inlined, other = report.one_sided()
    assert inlined[:2] == ("onnxruntime", ["numbers.Range", "numbers.Range-all"])
    assert inlined[2].startswith("onnxruntime replaces the node by its function's body")
    assert other == ("ephost", ["options.unknown"], "onnxruntime: it has none")
    assert "Where the hosts differ" not in str([table.title for table in report.tables()])
    assert "Checked in one host alone" in page_of(report).html()
    outcomes[3].status = "failed"
    assert [name for name, _ in Report(given(), outcomes).differences()] == ["numbers.Range"]


def test_a_function_of_which_the_plugin_ran_a_part_is_known_by_its_parts() -> None:
    (outcome,) = check_plugin(Plan(given(), only=["numbers.FlexAttention"], timeout=100)).outcomes
    assert outcome.status == "pass" and "Mul" in outcome.numbers["taken as"]
    (outcome,) = check_plugin(Plan(given(), only=["numbers.MatMul"], timeout=100)).outcomes
    assert outcome.status == "pass" and "taken as" not in outcome.numbers


@pytest.mark.parametrize("missing", ["fork", "pidfd_open"])
def test_a_system_that_cannot_fork_is_told_so(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, missing)
    monkeypatch.delattr(os, "sched_getaffinity")  # which the same systems have not
    done = click.testing.CliRunner().invoke(main, ["check", "sample_kernels", "--only", "file"])
    assert done.exit_code == 1, done.output
    assert f"which needs Linux: {sys.platform} has no os.{missing}" in done.output


def test_an_outcome_expected_to_fail_is_not_wrong() -> None:
    settings = Settings(expected={"file.opens": "known"})
    assert not settings.judged(Outcome("file.opens", "ephost", "crashed")).is_wrong


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--list"], 0),
        ([], 2),
        (["sample_kernels", "--only", "no.such.check"], 2),
        (["sample_kernels", "--level", "11"], 2),
        (["no_such_package_at_all"], 2),
    ],
)
def test_the_command_ends_with_the_code_that_it_says(arguments: list[str], code: int) -> None:
    done = click.testing.CliRunner().invoke(main, ["check", *arguments])
    assert done.exit_code == code, done.output


def test_the_command_writes_reports(tmp_path: Path, built: Callable[..., Path]) -> None:
    library = built("bad_plugin", "-DCreateEpFactories=Other")
    done = click.testing.CliRunner().invoke(
        main,
        ["check", str(library), "--only", "file.entry-points", "--json", str(tmp_path / "r.json"),
         "--junit", str(tmp_path / "r.xml"), "--jobs", "1"],
    )  # fmt: skip
    assert done.exit_code == 1, done.output
    assert "CreateEpFactories" in done.output
    assert json.loads((tmp_path / "r.json").read_text())["checks"][0]["status"] == "failed"
    assert ElementTree.parse(tmp_path / "r.xml").getroot().tag == "testsuites"


def test_a_check_that_ends_its_process_crashed_and_the_next_one_is_done(
    checker: Any, built: Callable[..., Path]
) -> None:
    library = built("bad_plugin")
    found = checker(library, ["sessions.run", "file.whole"], {"EPHOST_FAULT": "segv:Compute"})
    assert found["sessions.run"].status == "crashed"
    assert found["sessions.run"].message == "the process ended by SIGSEGV while running"
    assert "Segmentation fault" in found["sessions.run"].log
    assert found["file.whole"].status == "pass"


def test_a_check_that_does_not_end_is_stopped(checker: Any, built: Callable[..., Path]) -> None:
    found = checker(built("bad_plugin"), ["sessions.run"], {"EPHOST_FAULT": "hang:Compute"}, timeout=1)
    assert found["sessions.run"].status == "timed out"
    assert found["sessions.run"].message == "not done within 1 s while running"


def test_a_check_that_ends_who_started_it_crashed_and_the_next_one_is_done(
    checker: Any, built: Callable[..., Path]
) -> None:
    library = built("bad_plugin")
    for fault in ("end_parent:Compute", "end_parent:ReleaseEp"):
        found = checker(library, ["sessions.run", "file.whole"], {"EPHOST_FAULT": fault})
        assert found["sessions.run"].status == "crashed"
        assert found["sessions.run"].message.startswith("it ended the process that had started it, while ")
        assert found["file.whole"].status == "pass"


def test_what_a_plugin_prints_for_ever_takes_no_disk(checker: Any, built: Callable[..., Path]) -> None:
    found = checker(built("bad_plugin"), ["sessions.run"], {"EPHOST_FAULT": "print:Compute"}, timeout=2)
    assert found["sessions.run"].status == "timed out"
    assert "Compute" in found["sessions.run"].log
    assert len(found["sessions.run"].log) <= 20_000


@pytest.mark.parametrize("fault", ["child", "daemon"])
def test_a_process_that_a_plugin_leaves_is_not_waited_for_and_is_ended(
    fault: str, checker: Any, built: Callable[..., Path]
) -> None:
    library = built("bad_plugin")
    found = checker(library, ["sessions.run"], {"EPHOST_FAULT": f"{fault}:Compute"}, timeout=20)
    assert found["sessions.run"].status == "pass"
    wait_until(lambda: not is_mapped(library))


def test_a_check_that_does_not_end_does_not_outlive_who_asked_for_it(
    built: Callable[..., Path], tmp_path: Path
) -> None:
    library = built("bad_plugin")
    command = [sys.executable, "-m", "ephost", "check", str(library), "--only", "sessions.run", "--jobs", "1"]
    variables = {**os.environ, "EPHOST_FAULT": "hang:Compute", "EPHOST_CHECK_TEST": str(tmp_path)}

    def ours() -> dict[int, str]:
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if f"EPHOST_CHECK_TEST={tmp_path}".encode() in (folder / "environ").read_bytes():
                    found[int(folder.name)] = (folder / "cmdline").read_text()
            except OSError:
                continue
        return found

    with subprocess.Popen([*command, "--timeout", "60"], env=variables, stdout=subprocess.DEVNULL) as asked:
        since: dict[int, float] = {}  # what there is to know of a plugin is asked in a process that ends soon

        def hangs() -> bool:
            for pid, line in ours().items():
                if "ephost.checking.server" in line:
                    since.setdefault(pid, time.monotonic())
            old = [pid for pid, began in since.items() if time.monotonic() - began > 3]
            return len(set(old) & set(ours())) == 2

        wait_until(hangs)
        asked.kill()
    wait_until(lambda: not ours())


def wait_until(happened: Callable[[], bool]) -> None:
    limit = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < limit
        time.sleep(0.05)


def test_one_check_can_be_done_in_the_process_itself() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ephost", "check", "sample_kernels", "--in-process", "sessions.run"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "sessions.run: pass\n"), done.stderr
    assert "-- running" in done.stderr


def test_what_a_server_is_asked_after_it_was_closed_starts_it_anew() -> None:
    with Server("ephost") as server:
        server.close()
        assert server.probe(given(), 20)["ep_name"] == "sample_kernels"


def test_good_plugins_are_not_accused() -> None:
    """The first levels, of which a whole run takes seconds; the others are done by hand."""
    plan = Plan(given(), level=2, exclude=("numbers", "sessions.one-after-the-other"), jobs=2)
    report = check_plugin(plan)
    assert not [(outcome.check, outcome.message) for outcome in report.wrong]
    assert report.counts()["pass"] > 40


def test_every_group_has_a_check_that_a_good_plugin_passes(checker: Any) -> None:
    names = [
        "file.no-executable-stack", "devices.fifty", "options.many", "graphs.if-nested", "claims.convex",
        "shapes.open-changing", "types.float32-compute", "threads.sizes-at-once", "memory.runs",
        "memory.handles", "kernels.known-operators", "context.leaves-others", "profiling.times",
        "versions.host-of-23", "allocations.running", "unload.threads-end", "exit.session-open",
        "registration.keeps-signals", "registration.keeps-to-its-room", "numbers.Add-special",
    ]  # fmt: skip
    found = checker(Path(given().path), names)
    assert {name: found[name].message for name in names if found[name].status != "pass"} == {}


def test_memory_of_a_device_is_checked_where_there_is_one(checker: Any, built: Callable[..., Path]) -> None:
    names = [
        "device-memory.many-blocks",
        "device-memory.bound",
        "transfers.bits",
        "streams.many",
        "streams.runs",
    ]
    found = checker(built("device_plugin", "-pthread"), names)
    assert {name: found[name].message for name in names if found[name].status != "pass"} == {}


def test_a_factory_on_which_onnxruntime_would_end_gets_a_warning(
    checker: Any, built: Callable[..., Path]
) -> None:
    name = "registration.data-transfer"
    assert checker(Path(given().path), [name])[name].status == "pass"
    found = checker(built("constant_plugin"), [name])[name]
    assert found.status == "warning" and "its process ends" in found.message


def test_compiled_models_are_checked_where_a_plugin_stores_them(
    checker: Any, built: Callable[..., Path]
) -> None:
    names = ["context.opens", "context.opens-from-a-file", "context.garbage", "context.names-its-source"]
    found = checker(built("context_plugin"), names)
    assert {name: found[name].message for name in names if found[name].status != "pass"} == {}


def test_an_operator_is_held_to_the_standards_cases(
    checker: Any, built: Callable[..., Path], tmp_path: Path
) -> None:
    """To make the cases takes seconds, whichever are wanted."""
    write_cases(str(tmp_path), ["HardSigmoid"])
    assert [path.name for path in tmp_path.iterdir()] == ["HardSigmoid.pickle"]
    cases = {case.name: case for case in read_cases(str(tmp_path), "HardSigmoid")}
    ((values, due),) = cases["test_hardsigmoid"].sets
    np.testing.assert_allclose(np.clip(values[0] * 0.5 + 0.6, 0, 1), due[0], rtol=1e-5)
    assert read_cases(str(tmp_path), "Add") == []
    library, name = built("faulty_plugin"), "numbers.HardSigmoid"
    right = checker(library, [name], cases=str(tmp_path))[name]
    assert (right.status, right.numbers["cases"]) == ("pass", 3)
    fault = {"EPHOST_FAULT": "hard_sigmoid_ignores_alpha"}
    wrong = checker(library, [name], fault, cases=str(tmp_path))[name]
    assert wrong.status == "failed"
    assert "test_hardsigmoid" in wrong.message and "elements are off" in wrong.message


PAGE = """<script>
const say = (name, value) => document.body.setAttribute("data-" + name, value);
const count = () => document.querySelectorAll(".entry").length;
const press = (element, key) => element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
say("all", count());
const first = document.querySelector(".entry");
first.click();
say("opened", document.querySelector(".opened:not([hidden])").textContent);
first.focus();
press(first, "ArrowDown");
say("next", document.activeElement.textContent);
const buttons = [...document.querySelectorAll(".filters button")];
const filter = (name) => buttons.find((button) => button.textContent.startsWith(name));
filter("failed").click();
say("failed", count());
filter("failed").click();
const search = document.querySelector("input[type=search]");
search.value = "<img";
search.dispatchEvent(new Event("input"));
say("searched", count());
document.getElementById("theme").click();
</script></body>"""


def test_a_browser_filters_and_opens_the_checks_of_the_page(tmp_path: Path) -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "host"))
    from test_pages import browsed

    outcomes = [
        Outcome("file.opens", "ephost", "pass"),
        Outcome(
            "file.whole", "ephost", "failed", "bad </script><img src=x>", log="a log", numbers={"n": math.inf}
        ),
        Outcome("sessions.run", "ephost", "crashed", "SIGSEGV while running", stage="running"),
        Outcome("sessions.two", "ephost", "failed", "known", expected="the reason"),
    ]
    page = page_of(Report(given(), outcomes, {"ephost": {"ep_name": "sample_kernels", "devices": []}})).html()
    dom = browsed(page.replace("</body>", PAGE), tmp_path)
    found = re.search(r"<body[^>]*>", dom)
    assert found is not None
    for told in ('data-all="4"', 'data-failed="1"', 'data-searched="1"'):
        assert told in found[0], found[0]
    assert "SIGSEGV while running" in found[0] and "--only sessions.run" in found[0]
    assert re.search('data-next="file.whole', found[0])


def test_a_process_with_onnxruntime_ends_as_it_does_without_a_fork() -> None:
    pytest.importorskip("onnxruntime")
    names = ["exit.unregistered", "exit.session-open", "exit.with-code"]
    report = check_plugin(Plan(given(), ["onnxruntime"], only=names, timeout=100))
    assert {outcome.check: outcome.status for outcome in report.outcomes} == dict.fromkeys(names, "pass")


def test_a_graph_that_onnxruntime_itself_makes_invalid_is_no_fault_of_the_plugin_s() -> None:
    pytest.importorskip("onnxruntime")
    compiler = Given(sample_compiler.get_library_path(), "sample_compiler")
    report = check_plugin(Plan(compiler, ["onnxruntime"], only=["numbers.SequenceMap"], timeout=100))
    (outcome,) = report.outcomes
    assert outcome.status == "skipped" and "the host itself makes an invalid graph" in outcome.message


def test_what_onnxruntime_has_no_arrays_for_is_not_asked_there() -> None:
    names = {made.name for made in chosen(5, host="onnxruntime")}
    assert "types.float16-cast" in names and "types.bfloat16-cast" not in names


def test_a_device_that_was_asked_for_has_to_be_there() -> None:
    for device, status in (("npu", "failed"), ("cpu", "pass"), ("0", "pass"), ("sample_kernels", "pass")):
        asked = replace(given(), device=device)
        (outcome,) = check_plugin(Plan(asked, ["ephost"], only=["devices.offered"], timeout=100)).outcomes
        assert outcome.status == status, outcome
        assert status == "pass" or "it offers 0: sample_kernels on CPU" in outcome.message


@pytest.mark.parametrize(
    "asked",
    [["--only=devices.offered"], ["--only=sessions.run"], ["--fuzz=1"]],
    ids=["offered", "run", "fuzz"],
)
def test_a_plugin_without_a_device_fails_unless_that_is_expected(asked: list[str], tmp_path: Path) -> None:
    config = tmp_path / "check.toml"
    config.write_text("[expected]\n'devices.offered' = 'this machine has no GPU'\n")
    for more, code in (([], 1), (["--config", str(config)], 0), (["--exclude=devices.offered"], 0)):
        done = subprocess.run(
            [sys.executable, "-m", "ephost", "check", sample_kernels.get_library_path(), *asked, *more],
            env={**os.environ, "EPHOST_HARDWARE_DEVICES": "[]"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done
        assert ("offers no device here" in done.stderr) == bool(code)


def test_a_library_that_is_not_there_is_one_error() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ephost", "check", "./nothing.so"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and done.stdout == "" and "there is no library" in done.stderr


def test_the_command_that_repeats_a_check_has_the_name_of_the_registration() -> None:
    named = Given("/a b/libplugin.so", "Name", "ephost", "gpu", {"key": "value"})
    command = repeating(named, Outcome("file.opens", "onnxruntime", "failed"))
    assert command == (
        "ephost check 'Name=/a b/libplugin.so' --only file.opens --host onnxruntime --device gpu "
        "--option key=value"
    )


def test_models_are_drawn_the_same_each_time_and_run_in_the_reference() -> None:
    for seed in range(20):
        drawn = draw(seed)
        again = draw(seed)
        assert drawn.model == again.model
        assert all(
            np.array_equal(a[k], b[k]) for a, b in zip(drawn.feeds, again.feeds, strict=True) for k in a
        )
        for feeds in drawn.feeds:
            assert all(np.isfinite(output).all() for output in reference(drawn.model, feeds))


def test_what_the_fuzzer_finds_is_done_again_by_its_seed(built: Callable[..., Path]) -> None:
    library = built("faulty_plugin")
    found = Given(str(library), "faulty_plugin", environment={"EPHOST_FAULT": "add_of_integers"})
    report = check_plugin(Plan(found, fuzz=1.5, seed=7, jobs=2))
    (right,) = report.outcomes
    assert right.status in ("pass", "warning") and "models from seed 7 on" in right.message
    broken = Given(str(library), "faulty_plugin", environment={"EPHOST_FAULT": "scaled@v2"})
    report = check_plugin(Plan(broken, fuzz=3, seed=7, jobs=2))
    assert report.wrong, [outcome.message for outcome in report.outcomes]
    seed = report.wrong[0].seed
    assert repeating(broken, report.wrong[0]) == f"ephost check {library} --reproduce {seed}"
    again = check_plugin(Plan(broken, only=["fuzz.model"], seed=seed))
    assert [outcome.message for outcome in again.wrong] == [report.wrong[0].message]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("ignored", [False, True], ids=["in front", "in the background"])
def test_a_check_that_is_terminated_leaves_no_folder_behind(
    ignored: bool, number: signal.Signals, tmp_path: Path
) -> None:
    action = "SIG_IGN" if ignored else "default_int_handler"
    # Started by nohup, these tests and their children ignore SIGHUP.
    program = (
        f"import signal; signal.signal(signal.SIGINT, signal.{action}); "
        "signal.signal(signal.SIGHUP, signal.SIG_DFL); from ephost.cli import main; main()"
    )
    words = [sys.executable, "-c", program, "check", sample_kernels.get_library_path(), "--only", "numbers"]
    with subprocess.Popen(
        [*words, "--jobs", "1"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        until = time.monotonic() + 60
        while time.monotonic() < until and not list(tmp_path.glob("ephost-check-*")):
            time.sleep(0.02)
        time.sleep(0.3)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == -number and "Traceback" not in said, said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="the check is Linux's")
def test_little_memory_is_checked_below_a_limit_that_was_there() -> None:
    words = [sys.executable, "-m", "ephost", "check", "sample_kernels", "--level", "8"]
    words += ["--only", "allocations.little-memory"]
    done = subprocess.run(
        ["sh", "-c", 'ulimit -v 8000000; "$@"', "sh", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's functions")
def test_traps_of_arithmetic_are_seen() -> None:
    import ctypes

    from ephost.checking import process_state

    libm = ctypes.CDLL("libm.so.6")
    assert process_state.floating_point()["traps"] is False
    if libm.feenableexcept(4) < 0:  # FE_DIVBYZERO on x86-64
        pytest.skip("this processor has no such traps")
    try:
        traps = libm.fegetexcept()
        seen = process_state.floating_point()["traps"]
    finally:
        libm.fedisableexcept(4)
    assert seen is bool(traps)
