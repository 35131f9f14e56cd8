"""Processes that run modules of this package, whatever lies in the working directory."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def module_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of this package; with ``module_environment`` it is found.

    Without ``-P`` a ``queue.py`` of the user's own would be Python's for the process.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


def module_environment() -> dict[str, str]:
    """The environment, with the folder of this package among those in which modules are looked for."""
    root = str(Path(__file__).parents[1])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, "PYTHONPATH": path}
