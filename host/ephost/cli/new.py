"""``ephost new``: a vendor's project."""

from __future__ import annotations

import os
import shlex

import click

from ephost.cli.output import reports_failures, show
from ephost.errors import InvalidArgument


@click.command(short_help="Write the project of a plugin NAME.")
@click.argument("name")
@click.argument("folder", required=False, type=click.Path(file_okay=False))
@click.option("--vendor", default="", help="What the plugin calls its maker; NAME by default.")
@reports_failures
def new(name: str, folder: str | None, vendor: str) -> None:
    """Write the project of a plugin NAME into FOLDER, a new one of that name by default.

    C++ with CMake, a Python package, tests, a file for CI: it builds, and passes `ephost check`. Exit code 2:
    the name cannot be used, or the folder is not empty.
    """
    from ephost.vendor_project import write_project

    target = folder or name
    try:
        files = write_project(name, target, vendor)
    except InvalidArgument as error:
        raise click.UsageError(str(error)) from None
    listed = "\n".join(f"  {os.path.relpath(path, target)}" for path in files)
    steps = f'  cd {shlex.quote(target)}\n  pip install ".[test]"\n  pytest\n  ephost check {name}'
    show([f"{target}:\n{listed}", f"Its README.md says what each is for. To begin with:\n{steps}"])
