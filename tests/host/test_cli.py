"""The command line: what it prints, as text and as JSON, and its exit codes."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from ephost.cli.compile import _files as files_beside
from ephost.cli.plugins import parse_plugin
from ephost.plugins import sample_kernels
from ephost.tables import Table, bytes_text, time_text
from onnx import numpy_helper, parser

HEAD = '<ir_version: 8, opset_import: ["": 17]>'
KERNELS = sample_kernels.get_library_path()


def ephost(*arguments: str | Path, code: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
    """Run ``ephost`` in a fresh process; it must exit with ``code`` and without a traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "ephost", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **env},
    )
    assert done.returncode == code, f"{done.returncode}: {done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def model(tmp_path: Path) -> Callable[[str], Path]:
    """Saves a model written in ONNX's text format."""

    def save(text: str) -> Path:
        path = tmp_path / "model.onnx"
        onnx.save(parser.parse_model(HEAD + text), path)
        return path

    return save


ADD_ERF = "g (float[n, 2] x, float[n, 2] z) => (float[n, 2] y) { sum = Add(x, z)  y = Erf(sum) }"


# ---- devices ----


def test_devices_shows_the_hardware_and_what_plugins_offer() -> None:
    lines = ephost("devices", "--ep", "sample_kernels", "--ep", f"again={KERNELS}").stdout.splitlines()
    assert lines[0] == "Hardware"
    assert any(line.split()[:1] == ["CPU"] for line in lines)
    assert f"sample_kernels ({KERNELS})" in lines
    assert f"again ({KERNELS})" in lines
    assert sum(line.split()[:3] == ["sample_kernels", "ephost", "0.1.0"] for line in lines) == 2


def test_devices_as_json_holds_hardware_metadata_and_options() -> None:
    data = json.loads(ephost("devices", "--json", "--ep", "mine=sample_kernels").stdout)
    assert {h["type"] for h in data["hardware"]} >= {"CPU"}
    (library,) = data["libraries"]
    assert (library["name"], library["path"], library["error"]) == ("mine", KERNELS, None)
    (device,) = library["devices"]
    assert device["ep_name"] == "sample_kernels"
    assert device["metadata"]["library_path"] == KERNELS
    assert device["hardware"]["type"] == "CPU"


def test_devices_has_those_of_the_bundled_cpu_plugin_first_as_the_api_has() -> None:
    data = json.loads(ephost("devices", "--json", "--ep", "sample_kernels", EPHOST_CPU_PLUGIN="1").stdout)
    listed = [device["ep_name"] for library in data["libraries"] for device in library["devices"]]
    assert listed == ["CPUExecutionProvider", "sample_kernels"]
    assert "\n  CPUExecutionProvider  ephost " in ephost("devices", EPHOST_CPU_PLUGIN="1").stdout
    without = ephost("devices", EPHOST_CPU_PLUGIN="0").stdout
    assert "CPUExecutionProvider" not in without and "Without the bundled CPU plugin" in without


def test_devices_says_which_hardware_a_plugin_declined() -> None:
    npu = '[{"type": "NPU", "vendor": "Nobody", "vendor_id": 1, "device_id": 2}]'
    out = ephost("devices", "--ep", "sample_kernels", EPHOST_HARDWARE_DEVICES=npu).stdout
    assert "sample_kernels offers no device" in out
    assert "NPU Nobody" in out


def test_a_library_that_cannot_be_registered_is_shown_beside_the_others_with_exit_code_1(
    tmp_path: Path,
) -> None:
    bad = tmp_path / "libbad.so"
    bad.write_text("no library")
    done = ephost("devices", "--ep", bad, "--ep", "sample_kernels", code=1)
    assert "could not be registered" in done.stdout
    assert f"sample_kernels ({KERNELS})" in done.stdout
    assert str(bad) in done.stderr


# ---- explain ----


@pytest.mark.in_process("kernels run in groups")
def test_explain_shows_partitions_and_the_reason_of_each_fallback(model: Callable[[str], Path]) -> None:
    out = ephost("explain", model(ADD_ERF), "--ep", "sample_kernels", "--dim", "n=3").stdout
    rows = [line.split() for line in out.splitlines()]
    assert ["0", "sample_kernels", "kernels", "1", "Add", "2", "48", "B", "1", "24", "B", "0", "B"] in rows
    assert any(
        row[:1] == ["Erf-13"] and " ".join(row).endswith("its registry has no kernel for Erf") for row in rows
    )


@pytest.mark.in_process("kernels run in groups")
def test_explain_as_json_is_the_explanation(model: Callable[[str], Path]) -> None:
    path = model(ADD_ERF)
    data = json.loads(ephost("explain", path, "--ep", "k=sample_kernels", "--dim", "n=3", "--json").stdout)
    assert data["model"] == str(path)
    assert [p["kind"] for p in data["partitions"]] == ["kernels", "fallback"]
    assert [p["bytes_in"] for p in data["partitions"]] == [48, 24]
    assert data["providers"][0]["library"] == "k"


def test_explain_shows_24_partitions_unless_all_are_asked_for(model: Callable[[str], Path]) -> None:
    nodes = " ".join(f"e{i} = Erf(v{i})  v{i + 1} = Relu(e{i})" for i in range(20))
    path = model(f"g (float[2] v0) => (float[2] v20) {{ {nodes} }}")
    short = ephost("explain", path, "--ep", "sample_kernels").stdout
    full = ephost("explain", path, "--ep", "sample_kernels", "--all").stdout
    assert "the first 24 of 40" in short
    assert (short.count(" fallback "), full.count(" fallback ")) == (12, 20)


def test_options_of_an_ep_reach_it(model: Callable[[str], Path]) -> None:
    path = model(ADD_ERF)
    data = json.loads(ephost("explain", path, "--ep", "sample_kernels,level=3,mode=a=b", "--json").stdout)
    assert data["providers"][0]["options"] == {"level": "3", "mode": "a=b"}


# ---- run ----


def test_run_computes_on_files_and_saves_what_comes_out(model: Callable[[str], Path], tmp_path: Path) -> None:
    x = np.array([[1, 2], [3, 4]], np.float32)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "z.pb").write_bytes(numpy_helper.from_array(x * 10).SerializeToString())
    path = model("g (float[n, 2] x, float[n, 2] z) => (float[n, 2] y) { y = Add(x, z) }")
    done = ephost(
        *("run", path, "--ep", "sample_kernels", "--json", "--repeat", "3"),
        *(
            "--input",
            f"x={tmp_path / 'x.npy'}",
            "--input",
            f"z={tmp_path / 'z.pb'}",
            "--save",
            tmp_path / "out",
        ),
    )
    data = json.loads(done.stdout)
    assert data["saved"] == {"y": str(tmp_path / "out" / "y.npy")}
    assert np.array_equal(np.load(tmp_path / "out" / "y.npy"), x * 11)
    assert data["outputs"]["y"] == {
        **{"type": "float32", "shape": [2, 2], "not_finite": 0},
        **{"min": 11.0, "max": 44.0, "mean": 27.5},
    }
    assert data["nodes"] == {"sample_kernels": 1, "fallback": 0}
    assert data["runs"] == 3
    assert (
        0
        < data["seconds"]["min"]
        <= data["seconds"]["median"]
        <= data["seconds"]["p90"]
        <= data["seconds"]["max"]
    )


def test_what_npy_cannot_hold_is_saved_as_a_protobuf_that_can_be_fed_again(
    model: Callable[[str], Path], tmp_path: Path
) -> None:
    path = model(
        """g (float[2] x) => (bfloat16[2] b, seq(float[2]) s)
        { b = Cast<to = 16>(x)  s = SequenceConstruct(x, x) }"""
    )
    np.save(tmp_path / "x.npy", np.array([1, 2.5], np.float32))
    out = tmp_path / "out"
    ephost("run", path, "--input", f"x={tmp_path / 'x.npy'}", "--save", out)
    tensor = onnx.TensorProto.FromString((out / "b.pb").read_bytes())
    assert tensor.data_type == onnx.TensorProto.BFLOAT16
    assert numpy_helper.to_array(tensor).astype(np.float32).tolist() == [1, 2.5]
    back = model("g (bfloat16[2] b, seq(float[2]) s) => (float[2] y) { y = Cast<to = 1>(b) }")
    ephost("run", back, "--input", f"b={out / 'b.pb'}", "--input", f"s={out / 's.pb'}", "--save", out)
    assert np.load(out / "y.npy").tolist() == [1, 2.5]


def test_random_inputs_are_the_same_for_the_same_seed_only(
    model: Callable[[str], Path], tmp_path: Path
) -> None:
    path = model("g (float[4] x, int64[64] i, bool[3] b, string[2] t) => (float[4] y, int64[64] j) "
                 "{ y = Relu(x)  j = Neg(i)  c = Not(b)  u = Identity(t) }")  # fmt: skip
    outputs = []
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        ephost("run", path, "--seed", seed, "--save", tmp_path / name, "--repeat", "1", "--warmup", "0")
        outputs.append((tmp_path / name / "j.npy").read_bytes())
        assert set(np.load(tmp_path / name / "j.npy").tolist()) == {0, -1}
    assert outputs[0] == outputs[1] != outputs[2]


def test_open_dimensions_are_1_or_what_dim_says(model: Callable[[str], Path]) -> None:
    path = model("g (float[n, ?] x) => (float[n, ?] y) { y = Relu(x) }")

    def shape(*dims: str) -> list[int]:
        arguments = [part for dim in dims for part in ("--dim", dim)]
        return json.loads(ephost("run", path, "--json", *arguments).stdout)["outputs"]["y"]["shape"]

    assert shape() == [1, 1]
    assert shape("n=3") == [3, 1]
    assert shape("n=3", "x:1=5") == [3, 5]


def test_profile_gives_the_time_of_each_step(model: Callable[[str], Path]) -> None:
    path = model(ADD_ERF)
    data = json.loads(
        ephost("run", path, "--ep", "sample_kernels", "--profile", "--repeat", "4", "--json").stdout
    )
    steps = {(s["ep_name"], s["op_type"]): s for s in data["steps"]}
    assert set(steps) == {("sample_kernels", "Add"), ("CPUExecutionProvider", "Erf")}
    assert all(s["calls"] == 4 and s["seconds"] > 0 for s in steps.values())
    text = ephost("run", path, "--ep", "sample_kernels", "--profile").stdout
    assert "Steps, mean of 5 runs" in text
    assert "Steps" not in ephost("run", path, "--ep", "sample_kernels").stdout


# ---- abi ----


def test_abi_counts_every_function_and_lists_the_missing_ones() -> None:
    functions = json.loads(ephost("abi", "--json").stdout)
    missing = [f for f in functions if f["implementation"] == "missing"]
    out = ephost("abi", "--missing").stdout
    total = next(line.split() for line in out.splitlines() if line.split()[:1] == ["all"])
    assert [int(count) for count in total[1:]] == [
        len(functions),
        len(functions) - len(missing),
        len(missing),
    ]
    assert all(f["name"] in out for f in missing)


# ---- failures ----


@pytest.mark.parametrize("command", ["run", "explain"])
def test_a_missing_model_is_exit_code_1_and_is_named(command: str) -> None:
    done = ephost(command, "/no/such/model.onnx", code=1)
    assert done.stderr == "Error: NoSuchFile: the model /no/such/model.onnx does not exist\n"
    assert done.stdout == ""


def test_a_missing_library_is_exit_code_1_and_is_named(model: Callable[[str], Path]) -> None:
    done = ephost("run", model(ADD_ERF), "--ep", "v=/no/such/libvendor.so", code=1)
    assert done.stderr.startswith("Error: NoSuchLibrary: ")
    assert "/no/such/libvendor.so" in done.stderr


def test_a_library_without_devices_cannot_run(model: Callable[[str], Path]) -> None:
    done = ephost(
        "run", model(ADD_ERF), "--ep", "sample_kernels", code=1, EPHOST_HARDWARE_DEVICES='[{"type": "NPU"}]'
    )
    assert "'sample_kernels'" in done.stderr
    assert "offers no device" in done.stderr


def test_a_forbidden_fallback_is_exit_code_1_and_names_the_nodes(model: Callable[[str], Path]) -> None:
    config = "session.disable_cpu_ep_fallback=1"
    done = ephost("explain", model(ADD_ERF), "--ep", "sample_kernels", "--config", config, code=1)
    assert "(Erf)" in done.stderr
    assert "(Add)" not in done.stderr


def test_a_feed_that_does_not_fit_is_exit_code_1_and_names_the_input(
    model: Callable[[str], Path], tmp_path: Path
) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 3), np.float32))
    assert "x" in ephost("run", model(ADD_ERF), "--input", f"x={tmp_path / 'x.npy'}", code=1).stderr


def test_an_operator_that_fails_is_exit_code_1_and_named(model: Callable[[str], Path]) -> None:
    path = model("g (float[2] x, float[n] z) => (float[n] y) { y = Concat<axis = 3>(x, z) }")
    assert "Concat" in ephost("run", path, code=1).stderr


def test_a_file_that_holds_no_array_is_exit_code_1_and_named(
    model: Callable[[str], Path], tmp_path: Path
) -> None:
    for name in ("x.npy", "x.pb"):
        (tmp_path / name).write_bytes(b"\xff\xff nonsense")
        assert name in ephost("run", model(ADD_ERF), "--input", f"x={tmp_path / name}", code=1).stderr


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--ep", "no_such_package"], "no_such_package"),
        (["--ep", "sample_kernels,novalue"], "'novalue'"),
        (["--ep", "=sample_kernels"], "empty NAME"),
        (["--ep", "sample_kernels", "--ep", "sample_kernels"], "two libraries"),
        (["--ep", "numpy"], "get_library_path"),
        (["--dim", "m=3"], "'m'"),
        (["--dim", "n=many"], "n=many"),
        (["--dim", "q:0=3"], "'q'"),
        (["--dim", "x:1=3"], "fixed dimension 2"),
        (["--dim", "x:2=3"], "2 dimensions"),
        (["--input", "q=q.npy"], "'q'"),
        (["--input", "x"], "NAME=FILE"),
        (["--config", "key"], "KEY=VALUE"),
        (["--layer", "trace"], "--layer is for the libraries of --ep"),
        (["--isolated"], "--isolated is for the libraries of --ep"),
        (["--repeat", "0"], "--repeat"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_a_wrong_command_line_is_exit_code_2_and_says_what_is_wrong(
    model: Callable[[str], Path], arguments: list[str], named: str
) -> None:
    done = ephost("run", model(ADD_ERF), *arguments, code=2)
    assert named in done.stderr
    assert done.stdout == ""


# ---- how it looks ----


def test_a_terminal_gets_colours_and_a_pipe_does_not(model: Callable[[str], Path]) -> None:
    path = model(ADD_ERF)
    assert "\x1b[" not in ephost("explain", path).stdout
    parent, child = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(
        [sys.executable, "-m", "ephost", "explain", path], stdout=child, env=env
    ) as process:
        os.close(child)
        shown = b""
        while True:
            try:
                if not (block := os.read(parent, 4096)):
                    break
            except OSError:  # the other end is closed
                break
            shown += block
        assert process.wait() == 0
    os.close(parent)
    assert b"\x1b[" in shown
    assert b"Partitions" in shown


def test_log_messages_go_to_stderr_from_the_severity_asked_for(model: Callable[[str], Path]) -> None:
    path = model(ADD_ERF)
    assert (
        "sample_kernels claims 1" in ephost("--log", "info", "explain", path, "--ep", "sample_kernels").stderr
    )
    assert ephost("explain", path, "--ep", "sample_kernels").stderr == ""


@pytest.mark.parametrize("command", [[], ["layer"], ["trace"]])
def test_the_list_of_commands_has_whole_sentences(command: list[str]) -> None:
    lines = ephost(*command, "--help", COLUMNS="80").stdout.partition("Commands:\n")[2].splitlines()
    assert len(lines) >= 2 and all(line.endswith((".", ").")) and "..." not in line for line in lines), lines


def test_help_needs_no_onnx() -> None:
    code = "import sys; from ephost.cli import main; main(['run', '--help'], standalone_mode=False); "
    done = subprocess.run(
        [sys.executable, "-c", code + "print('onnx' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.endswith("False\n")


def test_ep_takes_names_paths_packages_and_options(tmp_path: Path) -> None:
    odd = tmp_path / "lib=odd,name.so"
    odd.touch()
    for text, name, path, options in (
        ("sample_kernels", "sample_kernels", KERNELS, {}),
        ("ephost.plugins.sample_kernels", "sample_kernels", KERNELS, {}),
        ("sample-kernels", "sample-kernels", KERNELS, {}),
        (f"mine={KERNELS},a=1,b=x=y", "mine", KERNELS, {"a": "1", "b": "x=y"}),
        ("dir/libvendor_ep.so", "vendor_ep", "dir/libvendor_ep.so", {}),
        (str(odd), "=odd,name", str(odd), {}),
    ):
        plugin = parse_plugin(text)
        assert (plugin.name, plugin.path, plugin.options) == (name, path, options)


def test_units_have_about_three_digits() -> None:
    assert [bytes_text(n) for n in (0, 1023, 1024, 1536 * 1024, 5 << 40)] == [
        *("0 B", "1023 B", "1.0 KiB", "1.5 MiB", "5120.0 GiB"),
    ]
    assert [time_text(t) for t in (8.1e-6, 12.34e-3, 0.25, 3)] == ["8.10 us", "12.3 ms", "250 ms", "3.00 s"]


def test_plain_tables_align_numbers_to_the_right() -> None:
    table = Table("T", ("name", "n"), [("a", "5"), ("bb", "123")], frozenset({"n"}))
    assert table.plain() == "T\n  name    n\n  a       5\n  bb    123"


def test_outputs_whose_names_differ_in_what_no_file_name_has_get_files_of_their_own() -> None:
    from ephost.cli.inputs import file_stems

    assert file_stems(["a/b", "a:b", "A_b", "a_b_2", ""]) == ["a_b", "a_b_2", "A_b_3", "a_b_2_2", "_"]


def test_a_path_may_have_commas(tmp_path: Path) -> None:
    from ephost.cli.plugins import parse_plugin

    path = tmp_path / "a,b=c" / "libplugin,1.so"
    path.parent.mkdir()
    path.touch()
    plugin = parse_plugin(f"{path},option=x,other=y")
    assert (plugin.path, plugin.options) == (str(path), {"option": "x", "other": "y"})
    (tmp_path / "backend.so").touch()
    packaged = parse_plugin(f"sample_kernels,backend={tmp_path / 'backend.so'},other=y")
    assert packaged.name == "sample_kernels"
    assert packaged.options == {"backend": str(tmp_path / "backend.so"), "other": "y"}
    named = parse_plugin(f"mine={path},option=x")
    assert (named.name, named.path, named.options) == ("mine", str(path), {"option": "x"})


# ---- compile ----

ADDS = """g (float[4] x) => (float[4] y) <float[4] w = {10, 20, 30, 40}>
  { a = Add(x, w)  b = Abs(a)  y = Add(b, w) }"""


@pytest.fixture(scope="module")
def context_plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tests/plugins/context_plugin, which can store what it compiles."""
    from plugin_harness import ROOT, build_plugin

    return build_plugin(ROOT / "tests" / "plugins" / "context_plugin", tmp_path_factory.mktemp("plugin"))


@pytest.mark.parametrize("embed", [True, False])
def test_compile_writes_a_model_that_opens_on_the_same_plugin(
    model: Callable[[str], Path], context_plugin: Path, embed: bool
) -> None:
    path = model(ADDS)
    ep = f"stores={context_plugin}"
    flag = "--embed" if embed else "--no-embed"
    data = json.loads(ephost("compile", path, "--ep", ep, flag, "--json").stdout)
    target = path.with_name("model_ctx.onnx")
    assert (data["model"], data["compiled"], data["left"]) == (str(target), {"context_plugin": 2}, {"Abs": 1})
    assert len(data["files"]) == (1 if embed else 3)
    assert data["files"]["model_ctx.onnx"] == target.stat().st_size
    assert sorted(data["files"]) == sorted(p.name for p in path.parent.iterdir() if p != path)
    x = path.with_name("x.npy")
    np.save(x, np.arange(4, dtype=np.float32))
    run = json.loads(ephost("run", target, "--ep", ep, "--input", f"x={x}", "--json").stdout)
    assert (run["outputs"]["y"]["min"], run["outputs"]["y"]["max"]) == (20.0, 83.0)


@pytest.mark.skipif(sys.platform == "win32", reason="such files are POSIX's")
def test_a_compiled_model_goes_to_a_file_of_any_name_and_to_a_pipe(
    model: Callable[[str], Path], context_plugin: Path, tmp_path: Path
) -> None:
    path = model(ADDS)
    odd = os.fsdecode(b"odd\xff.onnx")
    path.rename(tmp_path / odd)
    for name in ("out.json", "out.textproto", odd.replace("odd", "new")):
        done = ephost("compile", tmp_path / odd, "--ep", context_plugin, "-o", tmp_path / name)
        assert "2 EPContext node(s) (context_plugin); 1 node(s) as they were" in done.stdout
    assert ephost("run", tmp_path / odd.replace("odd", "new"), "--ep", context_plugin)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        done = ephost("compile", tmp_path / odd, "--ep", context_plugin, "-o", pipe, "--force")
        assert onnx.load_from_string(reader.communicate(timeout=60)[0]).graph.node
    assert f"{pipe}: written" in done.stdout


def test_files_that_go_while_they_are_looked_at_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gone:
        def is_file(self) -> bool:
            raise FileNotFoundError

    monkeypatch.setattr(os, "scandir", lambda folder: [Gone()])
    assert files_beside(str(tmp_path / "out.onnx")) == {}


def test_compile_replaces_a_file_when_told_to(model: Callable[[str], Path], context_plugin: Path) -> None:
    path = model(ADDS)
    target = path.with_name("there.onnx")
    target.write_bytes(b"before")
    command = ("compile", path, "--ep", context_plugin, "-o", target)
    assert "--force replaces it" in ephost(*command, code=1).stderr
    assert target.read_bytes() == b"before"
    lines = ephost(*command, "--force").stdout.splitlines()
    assert lines[0] == f"{target}: 2 EPContext node(s) (context_plugin); 1 node(s) as they were (1 Abs)"
    assert any(line.split()[0] == "there.onnx" for line in lines[2:])


@pytest.mark.parametrize(
    ("ep", "complaint"),
    [
        ("sample_compiler", "sample_compiler.* gave no EPContext node from Compile"),
        ("nxrt_ep_cpu", "cpu_ep.* gave no EPContext node from Compile"),
        ("sample_kernels", "Unable to compile any nodes"),
    ],
)
def test_compile_for_a_plugin_that_cannot_store_is_exit_code_1_and_leaves_nothing(
    model: Callable[[str], Path], ep: str, complaint: str
) -> None:
    if ep == "nxrt_ep_cpu":
        pytest.importorskip(ep)
    path = model(ADDS)
    assert re.search(complaint, ephost("compile", path, "--ep", ep, code=1).stderr)
    assert list(path.parent.iterdir()) == [path]


def test_options_of_compile_reach_the_execution_providers(model: Callable[[str], Path]) -> None:
    path = model(ADDS)
    wrong = ("--option", "intra_op_num_threads=none")
    done = ephost("compile", path, "--ep", "mine=cpu", *wrong, code=1)
    assert "option intra_op_num_threads is 'none'" in done.stderr
    done = ephost("compile", path, "--ep", "mine=cpu,intra_op_num_threads=1", *wrong, code=1)
    assert "no EPContext node" in done.stderr  # what stands beside the plugin counts


def test_compile_for_nobody_is_exit_code_2(model: Callable[[str], Path]) -> None:
    assert "--ep" in ephost("compile", model(ADDS), code=2).stderr


# ---- what was meant ----


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("--ep", "sample_kernel"), "sample_kernels"),
        (("--input", "inputs=file.npy"), "input_a"),
        (("--dim", "batchh=2"), "batch"),
        (("--dim", "input_b:0=2"), "input_a"),
    ],
)
def test_what_is_nearly_right_gets_a_suggestion(
    model: Callable[[str], Path], arguments: tuple[str, str], meant: str
) -> None:
    path = model("g (float[batch] input_a) => (float[batch] y) { y = Neg(input_a) }")
    assert f"did you mean '{meant}'?" in ephost("run", path, *arguments, code=2).stderr


# ---- guessed sizes ----


def test_a_run_that_fails_on_guessed_sizes_says_which_they_are(model: Callable[[str], Path]) -> None:
    path = model(
        """g (float[n, 2] x, float[k, 2] z) => (float[5, 2] y) <int64[2] five = {5, 2}>
        { c = Concat<axis=0>(x, z)  y = Reshape(c, five) }"""
    )
    done = ephost("run", path, code=1)
    assert (
        "These dimensions were guessed to be 1: n, k. Try others with --dim n=... --dim k=..." in done.stderr
    )
    ephost("run", path, "--dim", "n=3", "--dim", "k=2")
    done = ephost("run", path, "--dim", "x:0=3", "--dim", "k=1", code=1)
    assert "guessed" not in done.stderr


# ---- progress ----


def test_a_terminal_sees_how_far_an_opening_is_and_nothing_stays(model: Callable[[str], Path]) -> None:
    path = model(ADDS)
    main, terminal = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-m", "ephost", "run", str(path), "--ep", "sample_compiler"],
        stdout=subprocess.PIPE,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm"},
    )
    out, _ = done.communicate(timeout=120)
    os.close(terminal)
    seen = b""
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:
            break
        if not part:
            break
        seen += part
    os.close(main)
    assert done.returncode == 0
    assert b"partition: sample_compiler" in seen
    assert b"partition:" not in out
    assert b"\x1b[2K" in seen.rsplit(b"partition", 1)[1]  # the line is erased


def test_a_pipe_sees_none_of_it(model: Callable[[str], Path]) -> None:
    assert ephost("run", model(ADDS), "--ep", "sample_compiler").stderr == ""


# ---- texts that plugins and models made up ----


def test_what_a_terminal_would_obey_is_shown_escaped_and_is_exact_in_json(
    model: Callable[[str], Path],
) -> None:
    path = model(ADD_ERF)
    proto = onnx.load(path)
    names = ["\x1b[31mred\x9b\x7f\u202e\nline", "n" * 1_000_000]
    for node, name in zip(proto.graph.node, names, strict=True):
        node.name = name
    onnx.save(proto, path)
    shown = ephost("explain", path, EPHOST_CPU_PLUGIN="0").stdout
    assert "\\x1b[31mred\\x9b\\x7f\\u202e\\nline" in shown
    assert not set(shown) & set("\x1b\x9b\x7f\u202e")
    assert max(map(len, shown.splitlines())) < 10_000
    told = ephost("explain", path, "--json", EPHOST_CPU_PLUGIN="0").stdout
    assert not set(told) & set("\x1b\x9b\x7f\u202e")

    def texts(data: object) -> list[str]:
        if isinstance(data, dict):
            return [text for pair in data.items() for part in pair for text in texts(part)]
        if isinstance(data, list):
            return [text for part in data for text in texts(part)]
        return [data] if isinstance(data, str) else []

    found = texts(json.loads(told))
    assert all(any(name in text for text in found) for name in names)


def test_an_error_is_shown_escaped(tmp_path: Path) -> None:
    done = ephost("explain", tmp_path / "no\x1b[2Jmodel.onnx", code=1)
    assert "no\\x1b[2Jmodel.onnx does not exist" in done.stderr
    assert "\x1b" not in done.stderr
