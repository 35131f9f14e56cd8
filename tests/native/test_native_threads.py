"""Many threads in the C half at once. The thread sanitizer runs these too: see .ci/sanitize."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from native_objects import api, check, ffi, lib, path_text

pytestmark = pytest.mark.threads
THREADS = 8


def in_threads(work: Callable[[int], None]) -> None:
    """Call work(0), work(1), ... in a thread each, all at once, and raise what the first of them raised."""
    raised: list[BaseException] = []
    together = threading.Barrier(THREADS)

    def run(number: int) -> None:
        together.wait()
        try:
            work(number)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


def test_messages_of_many_threads_all_arrive(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    logger = lib.ephost_logger_new(b"threads", lib.ORT_LOGGING_LEVEL_INFO)

    def work(number: int) -> None:
        for round_ in range(20):
            lib.ephost_logger_set_level(logger, round_ % 4)  # may change while others log
            text = f"message {number}.{round_}.".encode()
            check(api.Logger_LogMessage(logger, lib.ORT_LOGGING_LEVEL_ERROR, text, path_text("a.c"), 1, b"f"))

    in_threads(work)
    lib.ephost_logger_free(logger)
    # To the standard error, or to logging once the process has imported the host's Python half.
    said = capfd.readouterr().err + caplog.text
    assert all(f"message {n}.{r}." in said for n in range(THREADS) for r in range(20))


def test_handles_made_and_released_by_many_threads_are_counted_right() -> None:
    """The fixture of every test here compares the counts; this one makes and releases from threads."""

    def work(number: int) -> None:
        text = f"made by {number}".encode()
        for _ in range(200):
            status = api.CreateStatus(lib.ORT_FAIL, text)
            assert ffi.string(api.GetErrorMessage(status)) == text
            api.ReleaseStatus(status)
            place = ffi.new("OrtKeyValuePairs**")
            api.CreateKeyValuePairs(place)
            api.AddKeyValuePair(place[0], b"key", text)
            assert ffi.string(api.GetKeyValue(place[0], b"key")) == text
            api.ReleaseKeyValuePairs(place[0])

    in_threads(work)
