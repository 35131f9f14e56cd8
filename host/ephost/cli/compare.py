"""``ephost compare``: how near a model's results are to another provider's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from ephost.cli.bisect import parse_target, sizes_of, steps_shown
from ephost.cli.model import SECONDS, config_option, pairs
from ephost.cli.output import reports_failures, require_folders, show, show_json
from ephost.saving import write_text


@click.command(short_help="Compare the results of MODEL at A with those at B.")
@click.argument("model", type=click.Path(dir_okay=False))
@click.argument("target", metavar="A")
@click.argument("against", metavar="B")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    help="An .npz file with arrays for inputs, by name; may be given often. What they lack is made up.",
)
@click.option(
    "--count", type=click.IntRange(min=1), default=16, show_default=True, help="How many inputs to make up."
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="For inputs that are made up."
)
@click.option(
    "--dim", "dimensions", multiple=True, callback=pairs, metavar="NAME=VALUE", help="An open size."
)
@config_option
@click.option(
    "--timeout", type=SECONDS, default=60, show_default=True, help="Seconds for opening, and for each run."
)
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a page with plots there."
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@reports_failures
def compare(
    model: str,
    target: str,
    against: str,
    inputs: Sequence[str],
    count: int,
    seed: int,
    dimensions: Sequence[tuple[str, str]],
    config: Sequence[tuple[str, str]],
    timeout: float,
    html: Path | None,
    as_json: bool,
) -> None:
    """Compare the results of MODEL at A with those at B, over many inputs.

    A and B are each reference, cpu, onnxruntime (its CPU provider), or a plugin as in --ep, in ephost or,
    behind onnxruntime:, there. Errors are relative to the largest number that B gives.
    """
    from ephost.bisection.comparing import compare as measure

    require_folders(html)
    entries = dict(config)
    with steps_shown() as told:
        found = measure(
            model,
            parse_target(target, entries, "A"),
            parse_target(against, entries, "B"),
            inputs=inputs,
            count=count,
            dimensions=sizes_of(dimensions),
            seed=seed,
            timeout=timeout,
            told=told,
        )
    if html is not None:
        write_text(html, found.page().html())
    if as_json:
        show_json(found.to_dict())
    else:
        show([found.headline(), found.table(), *found.remarks()])
