"""How far an opening is: told to a function, and to the log when it takes a while."""

from __future__ import annotations

import logging
from typing import Any

import ephost
import pytest
from api_models import add_and_relu
from ephost import progress as progress_module

STAGES = ["load", "infer", "fold", "partition", "plan"]


def test_a_function_hears_of_each_stage_and_of_each_execution_provider(
    sample_kernels: list[ephost.OrtEpDevice], sample_compiler: list[ephost.OrtEpDevice]
) -> None:
    heard: list[ephost.OpeningProgress] = []
    options = ephost.SessionOptions()
    for devices in (sample_compiler, sample_kernels):
        options.add_provider_for_devices(devices, {})
    options.set_progress_function(heard.append)
    ephost.InferenceSession(add_and_relu(), options).close()
    assert [p.stage for p in heard if not p.detail] == STAGES
    assert [p.detail for p in heard if p.detail] == ["sample_compiler", "sample_kernels"]
    assert {p.stage for p in heard if p.detail} == {"partition"}
    assert [p.done for p in heard if not p.detail] == list(range(5))
    assert {p.stages for p in heard} == {5}
    times = [p.seconds for p in heard]
    assert times == sorted(times) and times[0] >= 0
    heard.clear()
    options.set_progress_function(None)
    ephost.InferenceSession(add_and_relu(), options).close()
    assert heard == []


@pytest.mark.usefixtures("nothing_leaks")
def test_what_the_function_raises_ends_the_opening() -> None:
    def stop(progress: ephost.OpeningProgress) -> None:
        if progress.stage == "partition":
            raise KeyboardInterrupt

    options = ephost.SessionOptions()
    options.set_progress_function(stop)
    with pytest.raises(KeyboardInterrupt):
        ephost.InferenceSession(add_and_relu(), options)
    with pytest.raises(TypeError, match="'now'"):
        options.set_progress_function("now")  # type: ignore[arg-type]


@pytest.mark.parametrize(("patience", "told"), [(-1.0, STAGES), (1e9, [])])
def test_the_log_hears_of_openings_that_take_a_while(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, patience: float, told: list[str]
) -> None:
    monkeypatch.setattr(progress_module, "_SILENT", patience)
    with caplog.at_level(logging.INFO, "ephost.session"):
        ephost.InferenceSession(add_and_relu()).close()
    lines = [r.getMessage() for r in caplog.records if r.getMessage().startswith("opening ")]
    assert [line.split(": ")[1].split(",")[0] for line in lines] == told
    numbers: list[Any] = [line.split("stage ")[1].split(",")[0] for line in lines]
    assert numbers == [f"{at} of 5" for at in range(1, len(told) + 1)]
