"""``ephost explain``: who runs which nodes of a model, and why the rest fell back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ephost.cli.feeding import feed_options, guessed, make_feed
from ephost.cli.model import Dimensions, model_options, open_session
from ephost.cli.output import reports_failures, require_folders, show, show_json
from ephost.errors import OnnxRuntimeException
from ephost.saving import write_text

if TYPE_CHECKING:
    from ephost.session import InferenceSession


@click.command()
@model_options
@click.option("--all", "everything", is_flag=True, help="Show all rows, not just the first 24 of a table.")
@click.option("--profile", is_flag=True, help="Run MODEL, and show the time of each partition.")
@click.option(
    "--repeat", type=click.IntRange(min=1), default=5, show_default=True, help="Runs that --profile measures."
)
@feed_options
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option(
    "--html",
    "page",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a page for a browser, in one file: the graph by partition, to zoom and search.",
)
@reports_failures
def explain(
    everything: bool,
    profile: bool,
    repeat: int,
    files: Sequence[tuple[str, str]],
    seed: int,
    as_json: bool,
    page: Path | None,
    dimensions: Dimensions,
    **model: Any,
) -> None:
    """Show who runs which nodes of MODEL.

    Opens MODEL on the given execution providers and prints its partitions with the bytes that cross their
    borders, the nodes that were left to the fallback or to a later execution provider with the reason of
    each that was asked before, and the time that opening took. Nothing is run without --profile, which takes
    inputs as `ephost run` does. Sizes are known only for known shapes: --dim gives the missing ones.
    """
    from ephost.explanation import explain as explain_session

    if files and not profile:
        raise click.UsageError("--input is for --profile: nothing is run without it")
    require_folders(page)
    session = open_session(dimensions=dimensions, **model)
    if profile:
        _run(session, files, dimensions, seed, repeat)
    explanation = explain_session(session)
    if page is not None:
        write_text(page, explanation.to_html())
    if as_json:
        show_json(explanation.to_dict())
    else:
        show([explanation.headline(), *explanation.tables(None if everything else 24)])


def _run(
    session: InferenceSession,
    files: Sequence[tuple[str, str]],
    dimensions: Dimensions,
    seed: int,
    repeat: int,
) -> None:
    """Measure some runs, after one that warms up."""
    from ephost.cli.inputs import check_axes
    from ephost.explanation import start_profile

    if wrong := check_axes(session, dimensions.axes):
        raise click.BadParameter(wrong, param_hint="--dim")
    feed, sources = make_feed(session, files, dimensions, seed)
    try:
        session.run(None, feed)
        start_profile(session)
        for _ in range(repeat):
            session.run(None, feed)
    except OnnxRuntimeException as error:
        if not (hint := guessed(session, sources, dimensions)):
            raise
        raise type(error)(f"{error}\n{hint}") from error
