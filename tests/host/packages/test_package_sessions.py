"""Which variant a session gets, and the session: in both hosts where both can."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ephost
import ephost.capi.onnxruntime_pybind11_state
import onnx
import pytest
from ephost.errors import EPFail, Fail
from ephost.packages.variants import FORBIDDEN_OPTIONS, PATH_OPTIONS
from package_folders import (
    ADDED,
    CPU,
    HOSTS,
    MULTIPLIED,
    X,
    load_host,
    model,
    variant,
    write_json,
    write_manifest,
    write_package,
)
from plugin_harness import ROOT, build_plugin

KERNELS, COMPILER, CONTEXT = "sample_kernels", "sample_compiler", "context_plugin"
INFO = "constants v1"  # the compatibility string that context_plugin knows
FOLDER_OPTION = "session.model_external_initializers_file_folder_path"


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The libraries of plugins."""
    source = ROOT / "tests" / "plugins" / "context_plugin"
    samples = {
        name: importlib.import_module(f"ephost.plugins.{name}").get_library_path()
        for name in (KERNELS, COMPILER)
    }
    return {**samples, CONTEXT: str(build_plugin(source, tmp_path_factory.mktemp("plugin")))}


@pytest.fixture(params=HOSTS)
def plugins(request: pytest.FixtureRequest, libraries: dict[str, str]) -> Iterator[Any]:
    """A host in which the plugins are registered."""
    host = load_host(request.param)
    for name, library in libraries.items():
        if host is ephost or name not in host.get_available_providers():
            host.register_execution_provider_library(name, library)
    yield host
    if host is ephost:  # onnxruntime unloads a plugin under sessions that still wait to be collected
        for name in libraries:
            host.unregister_execution_provider_library(name)


def options(host: Any, *names: str, **given: str) -> Any:
    """Options with execution providers by name, each with the given options."""
    made = host.SessionOptions()
    for name in names:
        devices = [device for device in host.get_ep_devices() if device.ep_name == name]
        if devices:
            made.add_provider_for_devices(devices, given)
        else:  # without its plugin
            made.add_provider(name, given)
    return made


def select(host: Any, sess_options: Any = None) -> Any:
    """The variant of the component c for a session's options."""
    wanted = host.ModelPackageOptions(sess_options or host.SessionOptions())
    return host.ModelPackageContext("package").select_component("c", wanted)


def run(session: Any) -> list[float]:
    found: list[float] = session.run(None, {"x": X})[0].tolist()
    return found


def entry(session: Any, key: str) -> str | None:
    try:
        found: str = session.get_session_options().get_session_config_entry(key)
    except RuntimeError:
        return None
    return found


def test_a_package_tells_what_is_in_it(host: Any) -> None:
    write_package(Path("package"), {"z": variant("E"), "a": variant(None)})
    context = host.ModelPackageContext("package")
    assert context.get_schema_version() == 1
    assert (context.get_component_count(), context.get_component_names()) == (1, ["c"])
    assert (context.get_variant_count("c"), context.get_variant_names("c")) == (2, ["z", "a"])
    assert [context.get_variant_ep_name("c", name) for name in "za"] == ["E", None]
    assert context.resolve_string_ref("x") == str(Path("package/x").resolve())
    wanted = host.ModelPackageOptions(host.SessionOptions())
    for call in (
        lambda: context.get_variant_count("d"),
        lambda: context.get_variant_names("d"),
        lambda: context.get_variant_ep_name("d", "z"),
        lambda: context.get_variant_ep_name("c", "d"),
        lambda: context.select_component("d", wanted),
        lambda: context.resolve_string_ref("../x"),
        lambda: context.resolve_string_ref("x", must_exist=True),
    ):
        with pytest.raises(RuntimeError):
            call()
    for wrong in (None, host.SessionOptions(), {}):
        with pytest.raises(TypeError):
            context.select_component("c", wrong)
    for wrong in (None, 1):
        with pytest.raises(TypeError):
            host.ModelPackageOptions(wrong)
    with pytest.raises(TypeError):
        host.ModelPackageComponentContext()


@pytest.mark.usefixtures("nothing_leaks")
def test_a_session_runs_the_model_of_the_variant(host: Any) -> None:
    write_package(Path("package"), {"a": variant("E"), "b": variant(CPU, "mul"), "c": variant()})
    selected = select(host)
    assert selected.get_selected_variant_name() == "b"
    assert selected.get_selected_variant_folder_path() == str(Path("package/b").resolve())
    assert run(selected.create_session()) == run(selected.create_session(host.SessionOptions())) == MULTIPLIED
    session = selected.create_session(sess_options=None)
    assert isinstance(session, host.InferenceSession)
    assert session.get_providers() == [CPU]
    assert (session._from_model_package, session._model_path) == (True, None)
    for call in (lambda: session.set_providers([CPU]), session.enable_fallback):
        with pytest.raises(NotImplementedError, match="create_session"):
            call()
    session.disable_fallback()
    assert run(session) == MULTIPLIED
    with pytest.raises(TypeError):
        selected.create_session(1)
    plain = host.InferenceSession("package/b/mul.onnx", providers=[CPU])
    assert plain._from_model_package is False
    plain.enable_fallback()
    plain.set_providers([CPU])


SELECTIONS: list[tuple[dict[str, dict[str, Any]], tuple[str, ...], str | None]] = [
    ({"c": variant(CPU), "k": variant(KERNELS), "s": variant(COMPILER)}, (), "c"),
    ({"c": variant(CPU), "k": variant(KERNELS), "s": variant(COMPILER)}, (KERNELS,), "k"),
    ({"c": variant(CPU), "k": variant(KERNELS), "s": variant(COMPILER)}, (COMPILER, KERNELS), "s"),
    ({"c": variant(CPU), "k": variant(KERNELS), "s": variant(COMPILER)}, (CPU,), "c"),
    ({"k": variant(KERNELS)}, (), None),
    ({"c": variant(CPU)}, (KERNELS,), None),  # there is no fallback to the CPU's variant
    ({"k": variant(KERNELS)}, (COMPILER, KERNELS), None),  # the first one alone counts
    ({"a": variant("SAMPLE_KERNELS"), "b": variant(KERNELS)}, (KERNELS,), "b"),
    ({"a": variant(None), "b": variant("")}, (KERNELS,), None),
    ({}, (), None),
    ({"a": variant(KERNELS, device="gpu"), "b": variant(KERNELS, device="CPU")}, (KERNELS,), "b"),
    ({"a": variant(KERNELS), "b": variant(KERNELS, device="cpu")}, (KERNELS,), "a"),
    ({"a": variant(KERNELS, device="npu"), "b": variant(CPU)}, (KERNELS,), None),
    ({"a": variant(CPU, device=""), "b": variant(CPU, device="cpu")}, (), "a"),
    ({"a": variant(CPU, device="x"), "b": variant(CPU, device="Cpu")}, (), "b"),
    ({"a": variant(KERNELS, compatibility_string="x"), "b": variant(KERNELS)}, (KERNELS,), "a"),
    ({"a": variant(CPU, compatibility_string="x"), "b": variant(CPU)}, (), "a"),
]


@pytest.mark.parametrize("at", range(len(SELECTIONS)))
def test_a_variant_is_selected(plugins: Any, at: int) -> None:
    variants, names, expected = SELECTIONS[at]
    write_package(Path("package"), variants)
    if expected is None:
        with pytest.raises(RuntimeError, match="variant"):
            select(plugins, options(plugins, *names))
        return
    selected = select(plugins, options(plugins, *names))
    assert selected.get_selected_variant_name() == expected
    session = selected.create_session()
    first = names[0] if names else CPU
    assert session.get_providers() == list(dict.fromkeys([first, CPU]))
    assert run(session) == ADDED


def test_a_vendors_plugin_gets_its_variant(host: Any) -> None:
    vendor = pytest.importorskip("nxrt_ep_cpu")
    if "cpu_ep" not in host.get_available_providers():
        host.register_execution_provider_library("nxrt", str(vendor.get_library_path()))
    write_package(Path("package"), {"c": variant(CPU), "k": variant("cpu_ep", "mul", device="cpu")})
    selected = select(host, options(host, "cpu_ep"))
    assert selected.get_selected_variant_name() == "k"
    for given in (None, host.SessionOptions()):
        session = selected.create_session(given)
        assert session.get_providers() == ["cpu_ep", CPU]
        assert run(session) == MULTIPLIED
    del session
    if host is ephost:
        host.unregister_execution_provider_library("nxrt")


@pytest.mark.in_process("what it answers is in the test's environment")
@pytest.mark.parametrize("answer", ["0", "1", "2", "3"])
@pytest.mark.parametrize(
    "strings",
    [
        (None, INFO),
        ("junk", INFO),
        (INFO, None),
        (INFO, "junk"),
        ("", INFO),
        (INFO,),
        (INFO, INFO),
        (None, "junk"),
    ],
)
def test_the_plugin_says_which_variant_it_likes(
    plugins: Any, answer: str, strings: tuple[str | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows one compatibility string; of others it says that it does not know."""
    monkeypatch.setenv("EPHOST_CONTEXT_ANSWER", answer)
    variants = {
        f"v{at}": variant(CONTEXT, **({} if text is None else {"compatibility_string": text}))
        for at, text in enumerate(strings)
    }
    write_package(Path("package"), variants)
    known = [at for at, text in enumerate(strings) if text == INFO]
    others = [at for at in range(len(strings)) if at not in known]
    best = {"0": [0], "1": known or [0], "2": known or [0], "3": others}[answer]
    if not best:
        with pytest.raises(RuntimeError, match="variant"):
            select(plugins, options(plugins, CONTEXT))
        return
    assert select(plugins, options(plugins, CONTEXT)).get_selected_variant_name() == f"v{best[0]}"


@pytest.mark.in_process("what it answers is in the test's environment")
def test_a_plugin_that_gives_no_answer_gets_no_variant(
    libraries: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ephost.register_execution_provider_library(CONTEXT, libraries[CONTEXT])
    monkeypatch.setenv("EPHOST_CONTEXT_ANSWER", "7")
    write_package(Path("package"), {"a": variant(CONTEXT, compatibility_string=INFO), "b": variant(CONTEXT)})
    assert select(ephost, options(ephost, CONTEXT)).get_selected_variant_name() == "b"
    write_package(Path("package"), {"a": variant(CONTEXT, compatibility_string=INFO)})
    with pytest.raises(RuntimeError, match=r"'a': its plugin fails to say .* answers 7"):
        select(ephost, options(ephost, CONTEXT))
    ephost.unregister_execution_provider_library(CONTEXT)


def test_none_takes_the_packages_options_and_no_others(plugins: Any) -> None:
    given = {"session_options": {"a.b": "1"}, "provider_options": {"x": "1", "y": "2"}}
    write_package(Path("package"), {"k": variant(KERNELS, **given)})
    wanted = options(plugins, KERNELS, x="7", z="9")
    wanted.add_session_config_entry("c.d", "6")
    wanted.intra_op_num_threads = 3
    session = select(plugins, wanted).create_session()
    assert session.get_provider_options()[KERNELS] == {"x": "1", "y": "2"}
    assert (entry(session, "a.b"), entry(session, "c.d")) == ("1", None)
    assert session.get_session_options().intra_op_num_threads == 0


def test_explicit_options_hold_instead_of_the_packages(plugins: Any) -> None:
    given = {"session_options": {"a.b": "1"}, "provider_options": {"x": "1", "y": "2"}}
    write_package(Path("package"), {"k": variant(KERNELS, **given)})
    selected = select(plugins, options(plugins, KERNELS))
    explicit = options(plugins, KERNELS, x="8")
    explicit.add_session_config_entry("c.d", "6")
    session = selected.create_session(explicit)
    assert session.get_provider_options()[KERNELS] == {"x": "8"}
    assert (entry(session, "a.b"), entry(session, "c.d")) == (None, "6")
    # Without execution providers they get the variant's, without its options; a policy does not count.
    without = plugins.SessionOptions()
    policy = plugins.SessionOptions()
    policy.set_provider_selection_policy(plugins.OrtExecutionProviderDevicePolicy.PREFER_CPU)
    for explicit in (without, policy):
        session = selected.create_session(explicit)
        assert session.get_providers() == [KERNELS, CPU]
        assert session.get_provider_options()[KERNELS] == {}
    both = selected.create_session(options(plugins, COMPILER, KERNELS))
    assert both.get_providers() == [COMPILER, KERNELS, CPU]
    error = plugins.capi.onnxruntime_pybind11_state.EPFail
    for names in ([COMPILER], [CPU]):
        with pytest.raises(error, match=KERNELS):
            selected.create_session(options(plugins, *names))
    write_package(Path("package"), {"c": variant(CPU)})
    assert select(plugins).create_session(options(plugins, KERNELS)).get_providers() == [KERNELS, CPU]
    assert select(plugins).create_session(policy).get_providers() == [CPU]


def test_options_given_are_not_changed(host: Any) -> None:
    write_package(Path("package"), {"v": variant(session_options={"ep.context_file_path": "x.onnx"})})
    given = host.SessionOptions()
    session = select(host).create_session(given)
    assert entry(session, "ep.context_file_path") == str(Path("package/v/x.onnx").resolve())
    with pytest.raises(RuntimeError):
        given.get_session_config_entry("ep.context_file_path")


def test_a_policy_and_a_delegate_say_what_is_selected(plugins: Any) -> None:
    write_package(Path("package"), {"c": variant(CPU), "k": variant(KERNELS), "s": variant(COMPILER)})
    wanted = plugins.SessionOptions()
    told: list[Any] = []

    def delegate(
        devices: list[Any], metadata: dict[str, str], runtime: dict[str, str], most: int
    ) -> list[Any]:
        told.append((dict(metadata), dict(runtime)))
        return [device for device in devices if device.ep_name == COMPILER][:1]

    wanted.set_provider_selection_policy_delegate(delegate)
    prepared = plugins.ModelPackageOptions(wanted)
    assert told == [({}, {})]  # it is asked once, when there is no model yet
    context = plugins.ModelPackageContext("package")
    assert context.select_component("c", prepared).get_selected_variant_name() == "s"
    assert len(told) == 1

    def fails(*_: Any) -> list[Any]:
        raise ValueError("no")

    wanted.set_provider_selection_policy_delegate(fails)
    with pytest.raises(plugins.capi.onnxruntime_pybind11_state.Fail, match="delegate"):
        plugins.ModelPackageOptions(wanted)


def test_a_process_default_counts(sample_kernels: list[ephost.OrtEpDevice]) -> None:
    write_package(Path("package"), {"c": variant(CPU), "k": variant(KERNELS)})
    ephost.set_default_providers([KERNELS])
    try:
        selected = select(ephost)
        assert selected.get_selected_variant_name() == "k"
        assert selected.create_session().get_providers()[0] == KERNELS
        session = select(ephost, options(ephost, KERNELS)).create_session(ephost.SessionOptions())
        assert session.get_providers()[0] == KERNELS
    finally:
        ephost.set_default_providers(None)


def test_a_library_that_is_gone_is_an_error(libraries: dict[str, str]) -> None:
    write_package(Path("package"), {"k": variant(KERNELS)})
    ephost.register_execution_provider_library(KERNELS, libraries[KERNELS])
    selected = select(ephost, options(ephost, KERNELS))
    ephost.unregister_execution_provider_library(KERNELS)
    with pytest.raises(
        ephost.capi.onnxruntime_pybind11_state.InvalidArgument, match="not registered any more"
    ):
        selected.create_session()


def _save_external(folder: Path) -> None:
    folder.mkdir(parents=True)
    onnx.save(
        model("Add"),
        folder / "m.onnx",
        save_as_external_data=True,
        location="w.bin",
        size_threshold=0,
    )


@pytest.mark.parametrize("kind", ["weights", "model", "beside"])
def test_models_and_weights_may_be_shared_assets(host: Any, kind: str) -> None:
    _save_external(Path("source"))
    package = host.ModelPackage()
    uri = package.add_shared_asset("source")
    info: dict[str, Any] = {"model_file": f"{uri}/m.onnx"}
    if kind == "weights":
        info = {"model_file": "m.onnx", "session_options": {FOLDER_OPTION: uri}}
    package.set_component_inline(
        "c", json.dumps({"variants": {"v": {"ep": CPU, "executor_info": {"ort": info}}}})
    )
    package.commit("package")
    if kind == "weights":
        Path("package/v").mkdir()
        onnx.save(onnx.load("source/m.onnx", load_external_data=False), "package/v/m.onnx")
    selected = select(host)
    assert selected.get_selected_variant_folder_path() == (
        str(Path("package/v").resolve()) if kind == "weights" else ""
    )
    session = selected.create_session()
    assert run(session) == run(selected.create_session(host.SessionOptions())) == ADDED
    if kind == "weights":
        folder = Path("package/shared_assets", uri.replace(":", "-"))
        assert entry(session, FOLDER_OPTION) == str(folder.resolve())


def test_paths_begin_at_the_variants_folder_or_the_package(host: Any) -> None:
    write_manifest(Path("package"), {"c": "sub/c.json"})
    write_json(Path("package/sub/c.json"), {"variants": {"v": variant(CPU)}})
    onnx.save(model("Mul"), "package/add.onnx")
    assert select(host).get_selected_variant_folder_path() == ""
    assert run(select(host).create_session()) == MULTIPLIED
    Path("package/sub/v").mkdir()
    onnx.save(model("Add"), "package/sub/v/add.onnx")
    assert run(select(host).create_session()) == ADDED


def test_an_executor_may_have_a_file(host: Any) -> None:
    write_package(Path("package"), {"v": {"ep": CPU, "executor_info": {"ort": "e/ort.json"}}})
    write_json(Path("package/v/e/ort.json"), {"model_file": "mul.onnx", "unknown": 1})
    assert run(select(host).create_session()) == MULTIPLIED
    for text in ("[]", "1", '"x"', "{"):
        write_json(Path("package/v/e/ort.json"), text)
        with pytest.raises(RuntimeError, match=r"variant|ort\.json"):
            host.ModelPackageContext("package")


BAD_INFOS: list[dict[str, Any]] = [
    *({"model_file": value} for value in (1, None, "", "../x", "/etc/passwd", f"sha256:{'0' * 64}/x")),
    *({"session_options": value} for value in ([], None, {"a": 1}, {"a\0b": "1"}, {FOLDER_OPTION: "../x"})),
    *({"session_options": {key: "1"}} for key in FORBIDDEN_OPTIONS),
    *({"session_options": {key: "../x"}} for key in PATH_OPTIONS),
    *({"provider_options": value} for value in ([{}], None, {"a": 1}, {"a\0b": "1"})),
]


@pytest.mark.parametrize("at", range(len(BAD_INFOS)))
def test_what_a_variant_says_to_sessions_is_checked(host: Any, at: int) -> None:
    info = {"ep": "E", "executor_info": {"ort": BAD_INFOS[at]}}
    write_manifest(Path("package"), {"c": {"variants": {"v": info}}})
    host.ModelPackage.open("package")
    with pytest.raises(RuntimeError, match=r"variant|package"):
        host.ModelPackageContext("package")


@pytest.mark.parametrize("path", ["m" * 5000, "../" + "m" * 5000, "/" + "m" * 5000, "m" * 5000 + "\0"])
def test_long_paths_are_cut_in_errors(path: str) -> None:
    info = {"ep": CPU, "executor_info": {"ort": {"model_file": path}}}
    write_manifest(Path("package"), {"c": {"variants": {"v": info}}})
    with pytest.raises(RuntimeError, match=r"mmm\.\.\. .*characters") as error:
        select(ephost).create_session()
    assert len(str(error.value)) < 1000


def test_a_variant_without_a_model_is_an_error(host: Any) -> None:
    errors = host.capi.onnxruntime_pybind11_state
    for info in ({}, {"executor_info": {"other": {}}}, {"executor_info": {"ort": {}}}):
        write_manifest(Path("package"), {"c": {"variants": {"v": {"ep": CPU, **info}}}})
        with pytest.raises(errors.Fail, match="model_file"):
            select(host).create_session()
    write_package(Path("package"), {"v": variant(CPU, "missing")})
    with pytest.raises(errors.NoSuchFile, match=r"missing\.onnx"):
        select(host).create_session()


def test_a_package_is_read_once(host: Any) -> None:
    write_package(Path("package"), {"v": variant()})
    context = host.ModelPackageContext("package")
    write_manifest(Path("package"), {"d": {"variants": {}}})
    selected = context.select_component("c", host.ModelPackageOptions(host.SessionOptions()))
    os.remove("package/v/add.onnx")
    onnx.save(model("Mul"), "package/v/add.onnx")
    assert run(selected.create_session()) == MULTIPLIED


def test_sessions_of_packages_raise_what_a_plugin_reports(
    bad_plugin: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """enable_fallback is off, in the opening as well."""
    monkeypatch.setenv("EPHOST_BAD", "create_ep_fails")
    ephost.register_execution_provider_library("bad", bad_plugin())
    name = next(d.ep_name for d in ephost.get_ep_devices() if d.registration_name == "bad")
    write_package(Path("package"), {"v": variant(name)})
    with pytest.raises((EPFail, Fail)):
        select(ephost, options(ephost, name)).create_session()
    ephost.unregister_execution_provider_library("bad")


@pytest.mark.usefixtures("cpu_plugin_as_default")
def test_provider_options_reach_the_cpu_plugin() -> None:
    write_package(Path("package"), {"v": variant(provider_options={"intra_op_num_threads": "1"})})
    program = """
import ephost
wanted = ephost.ModelPackageOptions(ephost.SessionOptions())
selected = ephost.ModelPackageContext("package").select_component("c", wanted)
for session in (selected.create_session(), selected.create_session(ephost.SessionOptions())):
    print(session.get_providers(), ephost.explain(session).partitions[0].ep_name)
print(selected.create_session().get_provider_options()["CPUExecutionProvider"]["intra_op_num_threads"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    line = f"['{CPU}'] {CPU}\n"
    assert (done.stdout, done.stderr) == (f"{line}{line}1\n", "")


def test_the_names_are_onnxruntimes() -> None:
    native = ephost.capi.onnxruntime_pybind11_state
    for name in (
        *("ModelPackage", "ModelPackageContext", "ModelPackageOptions", "ModelPackageComponentContext"),
        "ModelPackageWriteMode",
    ):
        assert getattr(native, name) is getattr(ephost, name)
        assert name in native.__all__ and name in ephost.__all__
