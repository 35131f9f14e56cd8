"""``ephost bisect``: from a wrong answer to the node that makes it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ephost.cli.model import SECONDS, config_option, pairs
from ephost.cli.output import reports_failures, show, show_json
from ephost.cli.plugins import Plugin, parse_plugin, plugin_option

_HOSTS = ("ephost", "onnxruntime")
_SYMPTOMS = ("numbers", "error", "crash", "hang", "leak", "slow")


def parse_target(text: str, config: Mapping[str, str], parameter: str) -> Any:
    """The target that a text ``reference|cpu|onnxruntime|[HOST:]PLUGIN`` means."""
    from ephost.bisection.targets import named_target

    if (named := named_target(text, config)) is not None:
        return named
    host, separator, rest = text.partition(":")
    if not separator or host not in _HOSTS:
        host, rest = "ephost", text
    try:
        return target_of([parse_plugin(rest)], host, config)
    except click.BadParameter as error:
        raise click.BadParameter(error.message, param_hint=parameter) from None


def target_of(plugins: Sequence[Plugin], host: str, config: Mapping[str, str]) -> Any:
    """The target of plugins in a host."""
    from ephost.bisection.targets import Library, Target, named_target
    from ephost.layers import ENVIRONMENT as LAYERS

    if not plugins:
        own = named_target("cpu" if host == "ephost" else host, config)
        assert own is not None
        return own
    layers = plugins[0].layers  # --layer is for all of them
    if layers and host != "ephost":
        raise click.UsageError(f"--layer is for ephost: `ephost layer wrap` writes a library for {host}")
    environment = {LAYERS: ",".join(layers)} if layers else {}
    label = " and ".join(plugin.name for plugin in plugins)
    libraries = tuple(Library(plugin.name, plugin.path, plugin.options) for plugin in plugins)
    if host != "ephost":
        label = f"{label} in {host}"
    return Target(label, host, libraries, dict(config), environment)


def sizes_of(dimensions: Sequence[tuple[str, str]]) -> dict[str, int]:
    """What ``--dim`` says."""
    for name, size in dimensions:
        if not size.isdecimal():
            raise click.BadParameter(f"{name}={size}: a dimension is a number, 0 or more", param_hint="--dim")
    return {name: int(size) for name, size in dimensions}


@contextmanager
def steps_shown() -> Iterator[Any]:
    """What is being done, on stderr: on one line of a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield lambda text: status.update(text)


@click.command(short_help="Find the node that makes MODEL go wrong on a plugin.")
@click.argument("model", type=click.Path(dir_okay=False))
@plugin_option
@click.option(
    "--input",
    "inputs",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    help="An .npz file with arrays for inputs, by name. Several are tried in turn; what they lack is "
    "made up.",
)
@click.option(
    "--against",
    default="cpu",
    show_default=True,
    metavar="reference|cpu|onnxruntime|[HOST:]PLUGIN",
    help="What is right: ONNX's reference operators, the bundled CPU plugin, onnxruntime's CPU provider, or "
    "a plugin as in --ep, in ephost or, behind onnxruntime:, there.",
)
@click.option(
    "--host", type=click.Choice(_HOSTS), default="ephost", show_default=True, help="The host of --ep."
)
@click.option("--symptom", type=click.Choice(_SYMPTOMS), help="What to look for; by default whatever shows.")
@click.option("--all", "everything", is_flag=True, help="Look for more faults when one is found.")
@click.option(
    "--dim",
    "dimensions",
    multiple=True,
    callback=pairs,
    metavar="NAME=VALUE",
    help="The size of a named dimension, for inputs that are made up; others are 1.",
)
@config_option
@click.option(
    "--against-config",
    multiple=True,
    callback=pairs,
    metavar="KEY=VALUE",
    help="The entries of --against, where they are others than those of --config.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="For inputs that are made up."
)
@click.option(
    "--timeout",
    type=SECONDS,
    default=60,
    show_default=True,
    help="Seconds that opening may take, and each run.",
)
@click.option(
    "--memory",
    type=click.IntRange(min=1),
    default=1024,
    show_default=True,
    help="MiB of values to hold at once.",
)
@click.option("--no-shrink", is_flag=True, help="Do not reduce what is found.")
@click.option(
    "--no-probes", is_flag=True, help="Do not look for leaks, and for runs that disturb each other."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder for what is found; by default MODEL's name with -bisect behind it, in this folder.",
)
@click.option("--resume", is_flag=True, help="Go on with a search that was interrupted.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@reports_failures
def bisect(
    model: str,
    plugins: Sequence[Plugin],
    inputs: Sequence[str],
    against: str,
    host: str,
    symptom: str | None,
    everything: bool,
    dimensions: Sequence[tuple[str, str]],
    config: Sequence[tuple[str, str]],
    against_config: Sequence[tuple[str, str]],
    seed: int,
    timeout: float,
    memory: int,
    no_shrink: bool,
    no_probes: bool,
    output: Path | None,
    resume: bool,
    as_json: bool,
) -> None:
    """Find the node, or the nodes together, that make MODEL go wrong on a plugin.

    What goes wrong is recognised: wrong numbers, an error, a crash, a run without end, a leak. Each fault is
    reduced to the smallest model that still shows it, and left in a folder with inputs and a program for the
    vendor.

    Exit code 0: nothing is wrong. 1: a fault was found, or the search failed, or could not be written.
    """
    from ephost.bisection.bisecting import bisect as search

    if not plugins and (host, against) == ("ephost", "cpu"):
        raise click.UsageError("Missing option '--ep': which plugin goes wrong?")
    folder = output or Path(f"{Path(model).stem}-bisect")
    entries = dict(config)
    with steps_shown() as told:
        try:
            result = search(
                model,
                target_of(plugins, host, entries),
                against=parse_target(against, dict(against_config) or entries, "--against"),
                inputs=inputs,
                dimensions=sizes_of(dimensions),
                seed=seed,
                symptom=symptom or "",
                everything=everything,
                timeout=timeout,
                memory=memory << 20,
                shrink=not no_shrink,
                probes=not no_probes,
                output=folder,
                resume=resume,
                told=told,
            )
        except KeyboardInterrupt:
            if not folder.exists():
                raise click.ClickException("interrupted before there was anything to keep") from None
            raise click.ClickException(
                f"interrupted: what was found is in {folder}; the same command with --resume goes on there"
            ) from None
    if as_json:
        show_json(result.to_dict())
    else:
        show([result.headline(), *result.tables(), *result.footer()])
    if result.found or not result.is_written:
        raise click.exceptions.Exit(1)
