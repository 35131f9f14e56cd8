"""``ephost layer`` and ``ephost trace``: what stands between a host and a plugin, and what it wrote."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from ephost.cli.output import reports_failures, say, show, show_json
from ephost.cli.plugins import parse_plugin
from ephost.layers import RULES, Layer, Trace, Validate, read_findings, wrap
from ephost.layers.findings import summary
from ephost.saving import write_text
from ephost.tables import Table


@click.group(short_help="Libraries that see every call between a host and a plugin.")
def layer() -> None:
    """Libraries that stand between a host and a plugin and see every call of both, and what they found."""


@layer.command("wrap", short_help="Write a library for the PLUGIN's place.")
@click.argument("plugin", metavar="PLUGIN")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="The library to write.")
@click.option("--trace", type=click.Path(path_type=Path), help="The file that the trace is written to.")
@click.option("--only", multiple=True, metavar="PATTERN", help="Functions to write down, such as 'OrtEp*.*'.")
@click.option("--graphs", is_flag=True, help="Write out each graph that the plugin is shown, with options.")
@click.option(
    "--validate", is_flag=True, help="Hold the plugin to the rules of the ABI, in place of a trace."
)
@click.option(
    "--findings",
    type=click.Path(path_type=Path),
    help="With --validate: the file that findings are added to.",
)
@click.option("--raise", "raises", is_flag=True, help="With --validate: calls fail with what is found.")
@click.option(
    "--bounds/--no-bounds",
    default=True,
    show_default=True,
    help="With --validate: put outputs between guards, and compare inputs.",
)
@click.option(
    "--reads", is_flag=True, help="With --validate: put pages behind inputs that cannot be touched."
)
@reports_failures
def wrap_plugin(
    plugin: str,
    output: Path,
    trace: Path | None,
    only: tuple[str, ...],
    graphs: bool,
    validate: bool,
    findings: Path | None,
    raises: bool,
    bounds: bool,
    reads: bool,
) -> None:
    """Write a library to be registered in the PLUGIN's place, in onnxruntime or in ephost.

    It traces every call for `ephost trace`, or with --validate looks for rules that the plugin breaks, or
    does both with --trace as well. The file with ".layer" behind its name says what it does, and can be
    edited.
    """
    if not validate and (findings is not None or raises):
        raise click.UsageError("--findings and --raise go with --validate")
    if reads and not (validate and bounds):
        raise click.UsageError("--reads goes with --validate, and not with --no-bounds")
    if validate and trace is None and (only or graphs):
        raise click.UsageError("--only and --graphs go with --trace")
    found = parse_plugin(plugin)
    chosen: list[Layer] = []
    told = []
    if trace is not None or not validate:
        file = trace or Path(f"{output}.trace")
        chosen.append(Trace(file, only, graphs))
        told.append(f"traces to {file}")
    if validate:
        chosen.append(Validate(findings, raises, bounds, reads))
        told.append(f"validates{f', with findings in {findings}' if findings is not None else ''}")
    wrap(found.path, output, chosen)
    say(f"{output} stands for {found.path} and {' and '.join(told)}")


@layer.command("rules")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
def list_rules(as_json: bool) -> None:
    """List the rules that the layer `validate` holds a plugin to."""
    if as_json:
        show_json([asdict(rule) for rule in RULES.values()])
        return
    table = Table("Rules", ("rule", "severity", "the plugin"))
    table.rows += [(rule.name, rule.severity, rule.text) for rule in RULES.values()]
    show([table])


@layer.command("findings")
@click.argument("file", type=click.Path(path_type=Path))
@click.pass_context
@reports_failures
def show_findings(ctx: Any, file: Path) -> None:
    """Show what the layer `validate` found.

    Exit code 1: there is something.
    """
    read = read_findings(file)
    show(summary(read))
    if read:
        ctx.exit(1)


class _FileOrCommand(click.Group):
    """A group whose first argument may be a file in a command's place."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands:
            args = ["show", *args]
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # an option in front of the file is the file's command's
        if args and args[0].startswith("-") and args[0] not in ctx.help_option_names:
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_FileOrCommand, short_help="Read what the layer `trace` wrote.")
def trace() -> None:
    """Read what the layer `trace` wrote: `ephost trace FILE`, or `ephost trace diff ONE OTHER`.

    A file can be read while its process runs, and after it was killed.
    """


@trace.command("show")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--calls", is_flag=True, help="Print every call in order, and not a summary.")
@click.option("--json", "as_json", is_flag=True, help="Print every call as JSON.")
@click.option("--chrome", type=click.Path(path_type=Path), help="Write a timeline for Chrome and Perfetto.")
@click.option(
    "--html", type=click.Path(path_type=Path), help="Write a page with a timeline to zoom and search."
)
@click.option("--slowest", default=10, show_default=True, help="How many calls and errors to list.")
@reports_failures
def show_trace(
    file: Path, calls: bool, as_json: bool, chrome: Path | None, html: Path | None, slowest: int
) -> None:
    """Sum a trace up (this command's name can be left out)."""
    import json

    from ephost.layers import trace as traces

    read = traces.TraceFile(file)
    if chrome is not None:
        write_text(chrome, json.dumps(traces.chrome(read)))
        say(f"{chrome}: {len(read.calls)} calls")
    elif html is not None:
        from ephost.layers.page import page_of

        write_text(html, page_of(read).html())
        say(f"{html}: {len(read.calls)} calls")
    elif as_json:
        show_json(traces.as_json(read))
    elif calls:
        for line in traces.lines(read):
            say(line)
    else:
        show(traces.summary(read, slowest))


@trace.command("diff", short_help="Show where two traces part.")
@click.argument("one", type=click.Path(path_type=Path))
@click.argument("other", type=click.Path(path_type=Path))
@click.pass_context
@reports_failures
def diff(ctx: Any, one: Path, other: Path) -> None:
    """Show where two traces part, of two hosts or of two versions of a plugin.

    Pointers and times do not count. Exit code 1: they part.
    """
    from ephost.layers import trace as traces

    parts = traces.difference(traces.TraceFile(one), traces.TraceFile(other))
    show(parts or ["the two hosts and the plugin say the same in both"])
    if parts:
        ctx.exit(1)
