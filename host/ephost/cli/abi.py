"""``ephost abi``: how much of the plugin ABI the host implements."""

from __future__ import annotations

import dataclasses

import click

from ephost.cli.output import show, show_json
from ephost.coverage import abi_coverage
from ephost.tables import Table


@click.command()
@click.option("--missing", is_flag=True, help="List the functions that answer ORT_NOT_IMPLEMENTED.")
@click.option("--json", "as_json", is_flag=True, help="Print every function as JSON.")
def abi(missing: bool, as_json: bool) -> None:
    """Show which functions of the plugin ABI the host implements."""
    coverage = abi_coverage()
    if as_json:
        functions = coverage.missing() if missing else coverage
        show_json([dataclasses.asdict(function) for function in functions])
        return
    counts = coverage.counts()
    kinds = ("native", "missing")
    table = Table("Functions of the plugin ABI", ("table", "all", *kinds), right=frozenset({"all", *kinds}))
    for name, row in counts.items():
        table.rows.append((name, str(sum(row.values())), *(str(row[kind]) for kind in kinds)))
    totals = [sum(row[kind] for row in counts.values()) for kind in kinds]
    table.rows.append(("all", str(sum(totals)), *map(str, totals)))
    parts = [table]
    if missing:
        listed = Table("Missing: they answer ORT_NOT_IMPLEMENTED", ("table", "function", "since version"))
        listed.rows.extend((f.table, f.name, str(f.since)) for f in coverage.missing())
        parts.append(listed)
    show(parts)
