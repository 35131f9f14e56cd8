"""Other work on the machine while something is measured."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

# Products of matrices on one thread: what another program that computes would do to caches and frequencies.
# Never in a real-time class, which what is measured may be in: nothing else would run on the machine.
_COMPUTE = """
import os
import numpy as np
if hasattr(os, "sched_setscheduler"):
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
x = np.ones((512, 512), np.float32)
print(flush=True)
while True:
    x @ x
"""
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@contextlib.contextmanager
def others_computing(count: int) -> Iterator[None]:
    """So many processes that compute without a pause, each on one thread."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _COMPUTE], stdout=subprocess.PIPE, env={**os.environ, **_ONE_THREAD}
        )
        for _ in range(count)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()  # It has begun.
        yield
    finally:
        for process in processes:
            process.kill()
            process.communicate()
