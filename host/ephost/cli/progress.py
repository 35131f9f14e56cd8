"""A bar on the terminal while a model opens."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ephost.options import SessionOptions

if TYPE_CHECKING:
    from ephost.progress import OpeningProgress

_PATIENCE = 0.5  # seconds: what is done before shows nothing


@contextmanager
def shown_progress(options: SessionOptions) -> Iterator[None]:
    """Show on stderr how far an opening with these options is, where that is a terminal; then erase it.

    Elsewhere the messages that ``--log info`` shows tell the same.
    """
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        console=Console(stderr=True, highlight=False),
        transient=True,
    )
    started = time.monotonic()
    task = bar.add_task("opening")

    def told(progress: OpeningProgress) -> None:
        what = f"{progress.stage}: {progress.detail}" if progress.detail else progress.stage
        bar.update(task, description=what, completed=progress.done, total=progress.stages)
        # A model that goes to a plugin may be there for minutes, without another word.
        if time.monotonic() - started > _PATIENCE or progress.detail:
            bar.start()

    options.set_progress_function(told)
    try:
        yield
    finally:
        bar.stop()
        options.set_progress_function(None)
