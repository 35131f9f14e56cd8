"""Every sample runs, and says what a reader was promised."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("cpu_plugin_as_default")

SAMPLES = Path(__file__).parents[2] / "samples"

# What each must print, as patterns in this order.
PROMISES = {
    "first_session": [r"\[\[4\. 0\.\]\n \[0\. 0\.\]\]"],
    "explain_partitions": [
        r"sample_kernels +kernels +1  Add",
        r"CPUExecutionProvider +compiled +1  Erf",
        r"\(fallback\) +fallback +1  RegexFullMatch",
        r"RegexFullMatch\['string\[4\]'\]: sample_kernels: its registry has no kernel for RegexFullMatch",
        r"CPUExecutionProvider: it did not claim the node; it says: not taken: RegexFullMatch '.*has flags",
    ],
    "several_plugins": [
        r"compiler then kernels\n",
        r"sample_compiler: Mul, Add, Relu \(compiled\)",
        r"kernels then compiler\n  sample_kernels: MatMul, Mul, Add, Relu",
        r"no plugin\n  CPUExecutionProvider: MatMul, Mul, Add, Relu",
    ],
    "asyncio_server": [r"64 requests at once, 64 right replies, \d+ ms"],
    "isolated_plugin": [
        r"it runs: +\[2\. 4\.\]",
        r"it crashed: +SIGSEGV in \w+::Compute",
        r"the next one: +\[2\. 4\.\]",
    ],
    "model_server": [
        r"scale takes x FP32 \[-1, 4\]",
        r"over REST, as JSON: +\[2\.0, 4\.0, 6\.0, 8\.0\]",
        r"over gRPC, as bytes: +\[2\.0, 4\.0, 6\.0, 8\.0\]",
        r"a wrong request: +400 input 'x' is FP32, not INT64",
    ],
    "on_ray": [r"Ray Data:  1000 of 1000 rows are right", r"Ray Serve: \[1\.5, 5\.5\]"],
    "errors": [
        r"no library: .*libno_such_ep\.so",
        r"no model: ",
        r"wrong feed: .*Got: 3 Expected: 2",
        r"not claimed: .*Erf",
        r"unregistering: .*nobody.*\(Fail, code 1\)",
    ],
    "threads": [r"16 runs on 4 threads gave what 16 runs in a row give", r"stopped: "],
    "logs": [r"INFO +ephost\.session: sample_kernels claims 1 "],
    "find_a_fault": [
        r"against ephost's CPU plugin: 1 fault",
        r"who: +ConstantOfShape '\w+' on cpu_ep: wrong numbers; bias\[0, 0\] is 0\.0, not 0\.5",
        r"least: +ConstantOfShape in ephost, onnxruntime",
        r"files: +expected\.npz, inputs\.npz, repro\.onnx, repro\.py",
        r"repro: +the fault shows",
    ],
    "recognize_text": [
        r"cpu_ep +by nxrt, version [\d.]+, on the CPU \(",
        r"sample_kernels +by ephost",
        r"Preparing the image: 5 nodes",
        r"cpu_ep +5 nodes",
        r"sample_kernels +[1-9]\d+ nodes",
        r"Recognised: 'Plugins run here: 2026'",
    ],
}
CHATTY = ("on_ray",)  # Ray tells on stderr what it starts and stops
# How many processes a signal ends, as the sample wants it.
KILLED = {"isolated_plugin": 1}
NEEDS = {
    "on_ray": ("ray", "starlette"),
    "find_a_fault": ("nxrt_ep_cpu", "onnxruntime"),
    "recognize_text": ("PIL", "nxrt_ep_cpu", "rapidocr_onnxruntime"),
}


def run_sample(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A sample in a fresh process, as a reader runs it."""
    for module in NEEDS.get(name, ()):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    return subprocess.run(
        [sys.executable, SAMPLES / f"{name}.py", *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def own_words(name: str, stderr: str) -> str:
    """What a sample itself wrote to stderr.

    An emulator of a processor writes there, too, when a signal ends a process. Who starts the tests under
    one says in EPHOST_EMULATOR_TELLS, as a pattern of a whole line, what; it may do so of as many processes
    as the sample lets be killed. Of any more the lines stay: a process ended that should not have.
    """
    pattern = os.environ.get("EPHOST_EMULATOR_TELLS")
    killed = KILLED.get(name, 0)
    if not pattern or not killed:
        return stderr
    return re.sub(f"^(?:{pattern})\n", "", stderr, count=killed, flags=re.MULTILINE)


def test_an_emulators_words_are_told_from_a_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "emulator: signal 11\n"
    assert own_words("isolated_plugin", line) == line
    monkeypatch.setenv("EPHOST_EMULATOR_TELLS", r"emulator: signal \d+")
    assert own_words("isolated_plugin", line) == ""
    assert own_words("isolated_plugin", 2 * line) == line  # a second process ended
    assert own_words("errors", line) == line  # lets none be killed
    assert own_words("isolated_plugin", f"a fault\n{line}and more") == "a fault\nand more"
    assert own_words("isolated_plugin", f"plugin: {line}") == f"plugin: {line}"


def test_a_strict_type_checker_accepts_the_samples() -> None:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *sorted(map(str, SAMPLES.glob("*.py")))],
        capture_output=True,
        text=True,
        cwd=SAMPLES.parent,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_every_sample_is_held_to_a_promise() -> None:
    assert {path.stem for path in SAMPLES.glob("*.py")} == set(PROMISES)


@pytest.mark.parametrize("name", PROMISES)
def test_a_sample_does_what_it_promises(name: str) -> None:
    done = run_sample(name)
    assert done.returncode == 0, done.stderr
    assert own_words(name, done.stderr) == "" or name in CHATTY
    at = 0
    for pattern in PROMISES[name]:
        found = re.compile(pattern).search(done.stdout, at)
        assert found is not None, f"{pattern!r} is not in what follows of:\n{done.stdout[at:]}"
        at = found.end()


def test_the_sample_of_partitions_writes_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = run_sample("explain_partitions", str(page))
    assert (done.returncode, done.stderr) == (0, "")
    assert "The graph by partition" in page.read_text(encoding="utf-8")


def test_other_texts_are_recognised_too() -> None:
    done = run_sample("recognize_text", "Hello World 42")
    assert done.returncode == 0, done.stderr
    assert "Recognised: 'Hello World 42'" in done.stdout


def test_a_text_that_the_model_cannot_read_is_a_failure() -> None:
    done = run_sample("recognize_text", "\N{SNOWMAN}\N{SNOWMAN}")
    assert done.returncode == 1
    assert "is not what was drawn" in done.stderr
