"""Everything native that a session owns, and the order in which it is released."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ephost._bindings import NULL, api, lib
from ephost.model.custom_ops import CustomOps
from ephost.model.graph import Graph
from ephost.model.kernels import HostKernels
from ephost.model.native_graph import Constants
from ephost.model.partition import Assignment
from ephost.model.planning.steps import Plan

if TYPE_CHECKING:
    from ephost.profiling import EpProfilers, Profile


class Resources:
    """Everything native that a session owns, released in order, once."""

    def __init__(self) -> None:
        self.assignments: list[Assignment] = []
        self.constants = Constants()
        self.host_kernels = HostKernels()
        self.profilers: list[EpProfilers] = []
        self.profile: Profile | None = None
        self.callbacks: tuple[Any, ...] = ()  # that plugins may call; kept alive
        self.custom_ops: CustomOps | None = None  # it keeps libraries open
        self.plan: Plan | None = None
        self.graph: Graph | None = None
        self.options: Any = NULL
        self.config: Any = NULL
        self.logger: Any = NULL
        self.threads: Any = NULL
        self.closed = False
        self._lent = 0
        self._lock = threading.RLock()  # the last: __del__ looks for it

    def acquire(self) -> None:
        """For a value in the memory of an EP's device, which keeps all of this until :meth:`release`."""
        with self._lock:
            self._lent += 1

    def release(self) -> None:
        """The end of an :meth:`acquire`."""
        with self._lock:
            self._lent -= 1
            last = self.closed and not self._lent
        if last:
            self._free()

    def close(self) -> None:
        """Free everything, now or with the last value that needs it."""
        with self._lock:
            was_closed, self.closed = self.closed, True
            last = not was_closed and not self._lent
        if last:
            self._free()

    def _free(self) -> None:
        if self.profile is not None:
            self.profile.leave()
        if self.plan is not None:
            self.plan.release()
        for profilers in self.profilers:
            profilers.release()
        self.host_kernels.release()
        if self.graph is not None:
            self.graph.let_go()
        for assignment in reversed(self.assignments):
            for node in assignment.nodes:
                node.let_go()
            assignment.release()
            assignment.ep.release()
        self.assignments.clear()
        self.constants.release()
        for pointer, release in (
            (self.options, api.ReleaseSessionOptions),
            (self.config, api.ReleaseKeyValuePairs),
            (self.logger, lib.ephost_logger_free),
            (self.threads, lib.ephost_thread_pool_free),
        ):
            if pointer:
                release(pointer)

    def __del__(self) -> None:
        if hasattr(self, "_lock"):  # Ctrl-C may have ended __init__
            self.close()
