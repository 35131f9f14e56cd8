"""How far the opening of a model is, for whoever waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable

from ephost.host_log import INFO, HostLog
from ephost.records import Record

_LOG = HostLog("ephost.session")
_SILENT = 1.0  # seconds: an opening that takes no longer says nothing


class OpeningProgress(Record, frozen=True):
    """What an opening is about to do."""

    model: str  # what messages call it
    stage: str  # "load", "infer", "fold", "partition", "write" or "plan"
    detail: str  # in "partition" the execution provider that has the model now, else ""
    done: int  # stages that are behind it
    stages: int  # of all
    seconds: float  # since it began


ProgressFunction = Callable[[OpeningProgress], object]


class Progress:
    """Tells how far an opening is: a function, and the log once it has taken a while."""

    def __init__(self, stages: int, function: ProgressFunction | None) -> None:
        self._started = time.perf_counter()
        self._stages, self._function = stages, function
        self._stage, self._done = "", -1

    def enter(self, model: str, stage: str, detail: str = "") -> None:
        """A stage begins, or goes on with something else. What the function raises ends the opening."""
        if stage != self._stage:
            self._stage, self._done = stage, self._done + 1
        seconds = time.perf_counter() - self._started
        if seconds > _SILENT and _LOG.is_enabled_for(INFO):
            what = f"{stage} ({detail})" if detail else stage
            _LOG.info(
                "opening %s: %s, stage %d of %d, after %.1f s",
                model,
                what,
                self._done + 1,
                self._stages,
                seconds,
            )
        if self._function is not None:
            self._function(OpeningProgress(model, stage, detail, self._done, self._stages, seconds))
