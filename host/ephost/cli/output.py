"""How commands print and how they fail."""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import click

from ephost.errors import Fail, OnnxRuntimeException, PluginFault
from ephost.interrupted_start import is_command
from ephost.tables import Table, printable

# What JSON takes as it is, and a terminal obeys or UTF-8 has no bytes for.
_NOT_ESCAPED = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_P = ParamSpec("_P")
_R = TypeVar("_R")


def show(parts: Iterable[Table | str]) -> None:
    """Print texts and tables with a blank line between: through rich in a terminal, else as plain lines."""
    if not sys.stdout.isatty():
        click.echo("\n\n".join(printable(part) if isinstance(part, str) else part.plain() for part in parts))
        return
    from rich.console import Console

    console = Console(highlight=False)
    for part in parts:
        # What is too long for a line goes on in the next as the terminal has it, and can be copied whole.
        shown = printable(part) if isinstance(part, str) else part
        console.print(shown, markup=False, overflow="ignore", crop=False)


def say(text: str, err: bool = False) -> None:
    """Print a line that may have names of files, plugins and models in it."""
    click.echo(printable(text), err=err)


def show_json(data: Any) -> None:
    """Print data as JSON, and nothing else."""
    text = json.dumps(data, indent=2, ensure_ascii=False)
    click.echo(_NOT_ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


@contextmanager
def _nothing_else_on_stdout() -> Iterator[None]:
    """Lead to stderr what plugins, and processes that are started, print: stdout is for the JSON."""
    try:
        is_real = sys.stdout.fileno() == 1
    except (OSError, ValueError):  # a stream of the caller's
        is_real = False
    if not is_real:
        yield
        return
    stream = sys.stdout
    stream.flush()
    file = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = open(file, "w", encoding=stream.encoding, errors=stream.errors)  # noqa: SIM115
    try:
        yield
    finally:
        if not is_command():  # whose process ends now, where plugins may have last words
            os.dup2(file, 1)
            sys.stdout.close()
            sys.stdout = stream


def require_folders(*files: str | os.PathLike[str] | None) -> None:
    """Look whether files can be written where they are wanted, before something is done that takes long.

    Raises:
        Fail: there is no folder for one.
    """
    for file in files:
        folder = os.path.dirname(os.path.abspath(file)) if file is not None else ""
        if folder and not os.path.isdir(folder):
            raise Fail(f"{file} cannot be written: there is no folder {folder}")


def fail(error: BaseException) -> click.ClickException:
    """The failure of a model, a plugin or a file: a message, no traceback of Python's, exit code 1."""
    message = printable(str(error)) or type(error).__name__
    if isinstance(error, PluginFault):  # where an isolated plugin was, as far as its worker could tell
        told = [*(f"it logged: {each}" for each in error.messages), *error.backtrace.strip().splitlines()]
        message += "".join(f"\n  {printable(line)}" for line in told)
    return click.ClickException(f"{type(error).__name__}: {message}")


def reports_failures(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Turn what models, plugins and files may raise into a message and exit code 1; and keep what plugins
    print from what is printed as JSON (``as_json``).

    Anything else is a bug of the host and keeps its traceback.
    """

    @functools.wraps(function)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            if kwargs.get("as_json"):
                with _nothing_else_on_stdout():
                    return function(*args, **kwargs)
            return function(*args, **kwargs)
        except (OnnxRuntimeException, OSError, MemoryError) as error:
            if isinstance(error, BrokenPipeError):
                raise
            raise fail(error) from None

    return wrapped
