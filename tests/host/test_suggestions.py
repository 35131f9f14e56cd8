"""What is said of words that are nearly right."""

from __future__ import annotations

import logging

import ephost
import pytest
from api_models import add_and_relu
from ephost import config_keys
from ephost.errors import Fail, InvalidArgument
from ephost.suggestions import closest, did_you_mean


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each key is warned about once in a process."""
    monkeypatch.setattr(config_keys, "_told", set())


def test_the_nearest_word_is_suggested_and_none_for_strangers() -> None:
    assert closest("sampel_kernels", ["sample_kernels", "sample_compiler"]) == "sample_kernels"
    assert closest("CPUEXECUTIONPROVIDER", ["CPUExecutionProvider"]) == "CPUExecutionProvider"
    assert did_you_mean("tensorrt", ["CPUExecutionProvider"]) == ""


def test_unknown_providers(sample_kernels: list[ephost.OrtEpDevice]) -> None:
    options = ephost.SessionOptions()
    session = ephost.InferenceSession(add_and_relu())
    meant = r"did you mean 'sample_kernels'\?"
    with pytest.warns(UserWarning, match=meant):
        ephost.InferenceSession(add_and_relu(), providers=["sample_kernel"]).close()
    for act in (
        lambda: options.add_provider("sample_kernel", {}),
        lambda: session.set_providers(["sample_kernel"]),
        lambda: ephost.provider_options("sample_kernel"),
    ):
        with pytest.raises(InvalidArgument, match=meant):
            act()
    with pytest.raises(Fail, match=r"did you mean 'kernels'\?"):
        ephost.unregister_execution_provider_library("kernel")
    session.close()


def test_unknown_arguments_of_a_session() -> None:
    with pytest.warns(
        UserWarning, match=r"no argument 'provders', which is ignored \(did you mean 'providers'"
    ):
        ephost.InferenceSession(add_and_relu(), provders=[]).close()


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("session.disable_cpu_ep_falback", "did you mean 'session.disable_cpu_ep_fallback'?"),
        ("sesion.disable_prepacking", "did you mean 'session.disable_prepacking'?"),
        ("ep.context_enabled", "did you mean 'ep.context_enable'?"),
        ("ep.sample_kernel.threads", "did you mean 'ep.sample_kernels.threads'?"),
        ("session.of_somebody_else", "plugins see it, and nobody else"),
        ("session.disable_prepacking", None),
        ("session.intra_op.spin_duration_us", None),  # onnxruntime's, in no header
        ("ep.context_source_model_path", None),
        ("ep.sample_kernels.anything", None),
        ("ep.vendor.anything", None),
        ("vendor.anything", None),
        ("ephost.offer_subgraphs", None),
    ],
)
def test_keys_of_session_entries(
    sample_kernels: list[ephost.OrtEpDevice], caplog: pytest.LogCaptureFixture, key: str, told: str | None
) -> None:
    options = ephost.SessionOptions()
    options.add_session_config_entry(key, "0")
    for _ in range(2):
        ephost.InferenceSession(add_and_relu(), options).close()
    lines = [r for r in caplog.records if r.name == "ephost.options" and r.levelno == logging.WARNING]
    assert len(lines) == (told is not None)
    if told is not None:
        assert f"'{key}'" in lines[0].getMessage() and told in lines[0].getMessage()


def test_keys_of_run_entries(caplog: pytest.LogCaptureFixture) -> None:
    options = ephost.RunOptions()
    for key in ("memory.enable_memory_arena_shrinkag", "gpu_graph_id", "vendor.anything") * 2:
        options.add_run_config_entry(key, "1")
    (line,) = caplog.messages
    assert "did you mean 'memory.enable_memory_arena_shrinkage'?" in line


def test_every_key_of_the_headers_is_known() -> None:
    assert {"session.disable_cpu_ep_fallback", "ep.context_file_path"} <= config_keys.session_keys()
    assert "gpu_graph_id" in config_keys.run_keys()
    assert not config_keys.session_keys() & config_keys.run_keys()


def test_a_key_of_a_plugin_is_compared_with_known_ones_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(config_keys, "closest", lambda word, known, cutoff: asked.append(word))
    for _ in range(3):
        ephost.RunOptions().add_run_config_entry("vendor.asked_once", "1")
        config_keys.warn_of_session_keys(["vendor.asked_once"], [])
    assert asked == ["vendor.asked_once"] * 2  # one for runs, one for sessions
