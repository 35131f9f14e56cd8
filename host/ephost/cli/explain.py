"""``ephost explain``: who runs which nodes of a model, and why the rest fell back."""

from __future__ import annotations

from typing import Any

import click

from ephost.cli.model import model_options, open_session
from ephost.cli.output import reports_failures, show, show_json


@click.command()
@model_options
@click.option("--all", "everything", is_flag=True, help="Show every partition, not just the first 24.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@reports_failures
def explain(everything: bool, as_json: bool, **model: Any) -> None:
    """Show who runs which nodes of MODEL.

    Opens MODEL on the given execution providers and prints its partitions with the bytes that cross their
    borders, the nodes that were left to the fallback with the reason of each execution provider, and the time
    that opening took. Nothing is run. Sizes are known only for known shapes: --dim gives the missing ones.
    """
    from ephost.explanation import explain as explain_session

    explanation = explain_session(open_session(**model))
    if as_json:
        show_json(explanation.to_dict())
    else:
        show([explanation.headline(), *explanation.tables(None if everything else 24)])
