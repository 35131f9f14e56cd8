"""Python's garbage collector, which rests while a model opens, and while modules are imported.

What an opening makes stays: a dozen objects for each node, none of them garbage. The collector walks over
them again and again as they become more, which is half of the time in which a graph of 100,000 nodes opens,
and a tenth of the time to a first result.
"""

from __future__ import annotations

import gc
import os
import sys
import threading

_lock = threading.Lock()
_resting = 0  # openings
_was_enabled = False  # before the first of them
_modules = 0  # that were imported then


class RestingCollector:
    """Within it no garbage is looked for; then, after the last one in all threads, as before."""

    def __enter__(self) -> None:
        global _resting, _was_enabled, _modules
        with _lock:
            if not _resting:
                _was_enabled, _modules = gc.isenabled(), len(sys.modules)
                gc.disable()
            _resting += 1

    def __exit__(self, *_: object) -> None:
        global _resting
        with _lock:
            if _resting:
                _resting -= 1
                if not _resting and _was_enabled:
                    if len(sys.modules) > _modules and not gc.get_freeze_count():
                        # Moves all objects to the oldest generation, without a look at them.
                        gc.freeze()
                        gc.unfreeze()
                    gc.enable()


def _forget_openings() -> None:
    """In a child of this process: the openings of other threads are not there."""
    global _lock, _resting
    _lock = threading.Lock()
    if _resting and _was_enabled:
        gc.enable()
    _resting = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_openings)
