"""Ctrl-C while a session opens: the opening ends there, wherever it was, and nothing else is disturbed."""

from __future__ import annotations

import inspect
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import ephost
import numpy as np
import pytest
from api_models import add_and_relu
from ephost.interrupts import Interrupts

STRIDE = 7  # of the calls that an opening makes: places where Python looks for signals


@pytest.fixture(autouse=True)
def handler_of_python() -> Iterator[None]:
    """The one that raises KeyboardInterrupt: a program that a shell starts in the background has none."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _open(devices: list[ephost.OrtEpDevice], interrupted_at: int) -> tuple[ephost.InferenceSession, int]:
    """A session, and how many calls its opening made; in the one of that number SIGINT comes."""
    calls = 0

    def profiler(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        # What a generator raises as it is thrown away, half read, Python tells and drops.
        if event in ("call", "c_return") and not frame.f_code.co_flags & inspect.CO_GENERATOR:
            calls += 1
            if calls == interrupted_at:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGINT)

    options = ephost.SessionOptions()
    options.add_provider_for_devices(devices, {})
    model = add_and_relu()
    sys.setprofile(profiler)
    try:
        return ephost.InferenceSession(model, options), calls
    finally:
        sys.setprofile(None)


@pytest.mark.usefixtures("nothing_leaks")
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_an_opening_ends_where_it_is_interrupted(sample_kernels: list[ephost.OrtEpDevice]) -> None:
    _open(sample_kernels, 0)[0].close()
    session, calls = _open(sample_kernels, 0)
    feeds = {i.name: np.full((2, 3), 0.5, np.float32) for i in session.get_inputs()}
    expected = session.run(None, feeds)
    session.close()
    assert calls > 10 * STRIDE
    for at in range(1, calls, STRIDE):
        with pytest.raises(KeyboardInterrupt):
            _open(sample_kernels, at)
    session, _ = _open(sample_kernels, 0)
    for found, wanted in zip(session.run(None, feeds), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    session.close()


def test_what_is_held_back_is_raised_where_it_can_end() -> None:
    interrupts = Interrupts()
    interrupts.hold()
    interrupts.check()
    signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        interrupts.check()
    signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        interrupts.let_go()
    interrupts.check()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_second_one_is_not_held_back() -> None:
    interrupts = Interrupts()
    interrupts.hold()
    signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    interrupts.let_go()


def test_a_programs_own_handler_and_other_threads_are_left_alone() -> None:
    def own(number: int, frame: FrameType | None) -> None:
        pass

    def held() -> object:
        interrupts = Interrupts()
        interrupts.hold()
        try:
            return signal.getsignal(signal.SIGINT)
        finally:
            interrupts.let_go()

    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(held()))
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]
    signal.signal(signal.SIGINT, own)
    try:
        assert held() is own
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
