"""``ephost check``: whether a plugin keeps to the rules."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from ephost.cli.model import SECONDS, pairs
from ephost.cli.output import reports_failures, require_folders, say, show, show_json
from ephost.cli.plugins import parse_plugin
from ephost.errors import InvalidArgument
from ephost.tables import Table

if TYPE_CHECKING:
    from ephost.checking.report import Report
    from ephost.checking.running import Plan, Told
    from ephost.checking.verdicts import Outcome

_STYLES = {"pass": "green", "warning": "yellow", "skipped": "dim", "failed": "red", "crashed": "bold red"}
_SHOWN = 12  # outcomes in the live table


class Live:
    """What a terminal shows while checks run: a bar, and a table of what is not well."""

    def __init__(self, progress: Any, live: Any) -> None:
        self._progress, self._live = progress, live
        self._task = progress.add_task("starting", total=None)
        self._rows: list[Outcome] = []
        self._counts: dict[str, int] = {}

    def told(self, outcome: Outcome, done: int, total: int) -> None:
        """Hear of an outcome."""
        from rich.console import Group
        from rich.table import Table as RichTable
        from rich.text import Text

        self._counts[outcome.status] = self._counts.get(outcome.status, 0) + 1
        if outcome.is_wrong or outcome.status == "warning":
            self._rows.append(outcome)
        told = ", ".join(f"{number} {verdict}" for verdict, number in self._counts.items())
        self._progress.update(self._task, completed=done, total=total, description=told)
        table = RichTable(box=None, show_header=False, pad_edge=False)
        for row in self._rows[-_SHOWN:]:
            style = _STYLES.get(row.status, "bold red")
            table.add_row(Text(row.check), Text(row.status, style), Text(row.message[:200]))
        self._live.update(Group(table, self._progress))


@contextmanager
def _shown() -> Iterator[Told]:
    """What to tell each outcome: a live table on a terminal, a line for each that is wrong elsewhere."""
    if not sys.stderr.isatty():
        yield _line
        return
    from rich.console import Console
    from rich.live import Live as RichLive
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, highlight=False)
    progress = Progress(
        MofNCompleteColumn(), BarColumn(bar_width=20), TimeElapsedColumn(), TextColumn("{task.description}")
    )
    with RichLive(progress, console=console, transient=True, refresh_per_second=8) as live:
        yield Live(progress, live).told


def _line(outcome: Outcome, done: int, total: int) -> None:
    if outcome.is_wrong:
        say(f"[{done}/{total}] {outcome.check}: {outcome.status}: {outcome.message}", err=True)


def _list(level: int, only: Sequence[str], exclude: Sequence[str]) -> list[Table | str]:
    from ephost.checking.running import chosen

    checks = chosen(level, only, exclude)
    table = Table("", ["check", "level", "hosts", "text"], right=frozenset(["level"]))
    for made in checks:
        hosts = "both" if len(made.hosts) > 1 else made.hosts[0]
        table.rows.append([made.name, str(made.level), hosts, made.text])
    return [table, f"{len(checks)} checks"]


def _in_process(plan: Plan, name: str) -> None:
    """Do one check here, under whatever debugger this runs in."""
    from ephost.checking.alone import perform_here

    outcome = perform_here(plan, name, lambda text: say(f"-- {text}", err=True))
    say(f"{outcome.check}: {outcome.status}{': ' if outcome.message else ''}{outcome.message}")
    if outcome.is_wrong:
        raise click.exceptions.Exit(1)


@click.command(short_help="Check whether PLUGIN keeps to the rules.")
@click.argument("plugin", required=False)
@click.option("--only", multiple=True, metavar="GLOB", help="Only checks, or groups, of these names.")
@click.option("--exclude", multiple=True, metavar="GLOB", help="No checks, or groups, of these names.")
@click.option(
    "--level",
    type=click.IntRange(1, 10),
    default=5,
    show_default=True,
    help="How strict: 1 loads and runs at all, 5 is fit to ship, 10 is all that can be asked.",
)
@click.option("--jobs", type=click.IntRange(min=1), help="Checks at once; by default one for each processor.")
@click.option(
    "--timeout", type=SECONDS, default=30, show_default=True,
    help="Seconds for a check.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the values that are made up."
)
@click.option(
    "--fuzz", type=SECONDS, metavar="SECONDS",
    help="Do nothing but draw models at random, from --seed on, for so long.",
)  # fmt: skip
@click.option(
    "--reproduce",
    type=click.IntRange(min=0),
    metavar="SEED",
    help="Do the one model of a seed that --fuzz drew.",
)
@click.option("--in-process", metavar="CHECK", help="Do one check in this process, for a debugger.")
@click.option(
    "--host",
    type=click.Choice(["ephost", "onnxruntime", "both"]),
    default="ephost",
    show_default=True,
    help="In which host; in onnxruntime there are the checks that its Python API allows.",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False),
    help="A TOML file with failures that are expected, and time limits.",
)
@click.option("--device", default="", help="Of the devices offered those of this type, EP or number.")
@click.option(
    "--option", "options", multiple=True, callback=pairs, metavar="KEY=VALUE",
    help="An option of the execution provider.",
)  # fmt: skip
@click.option("--json", "json_file", type=click.Path(dir_okay=False), help="Write a report; - prints it.")
@click.option("--junit", type=click.Path(dir_okay=False), help="Write a report as JUnit's XML.")
@click.option("--html", type=click.Path(dir_okay=False), help="Write a report as a page for a browser.")
@click.option("--list", "list_only", is_flag=True, help="List the checks, and do none.")
@reports_failures
def check(
    plugin: str | None,
    only: Sequence[str],
    exclude: Sequence[str],
    level: int,
    jobs: int | None,
    timeout: float,
    seed: int,
    fuzz: float | None,
    reproduce: int | None,
    in_process: str | None,
    host: str,
    config: str | None,
    device: str,
    options: Sequence[tuple[str, str]],
    json_file: str | None,
    junit: str | None,
    html: str | None,
    list_only: bool,
) -> None:
    """Check whether PLUGIN keeps to the rules: a library's path, or a package that has get_library_path().

    Each check is done in a process of its own. Exit code 0: nothing is wrong. 1: something is. 2: the command
    line is wrong.
    """
    from ephost.checking.registry import HOSTS, all_checks
    from ephost.checking.running import Plan, check_plugin
    from ephost.checking.settings import Settings, read_settings
    from ephost.checking.subject import Given
    from ephost.environment import processor_count

    try:
        if list_only:
            show(_list(level, only, exclude))
            return
        if not plugin:
            raise click.UsageError("Missing argument 'PLUGIN'.")
        found = parse_plugin(plugin)
        require_folders(junit, html, None if json_file == "-" else json_file)
        if not os.path.exists(found.path):
            raise click.UsageError(f"there is no library {found.path}")
        given = Given(
            os.path.abspath(found.path), found.name, "ephost", device, {**found.options, **dict(options)}
        )
        if reproduce is not None:
            only, seed = ["fuzz.model"], reproduce
        plan = Plan(
            given,
            HOSTS if host == "both" else (host,),
            level,
            only,
            exclude,
            jobs or processor_count(),
            timeout,
            seed,
            read_settings(config, all_checks()) if config else Settings(),
            fuzz or 0.0,
        )
        if in_process is not None:
            _in_process(plan, in_process)
            return
        with _shown() as told:
            report = check_plugin(plan, told)
    except InvalidArgument as error:
        raise click.UsageError(str(error)) from None
    # The files come first: whoever reads what is printed may stop.
    failed = _written(report, json_file, junit, html)
    if json_file == "-":
        show_json(report.to_dict())
    else:
        show([*report.tables(), report.headline()])
    if failed is not None:
        raise failed
    if report.wrong:
        raise click.exceptions.Exit(1)


def _written(report: Report, json_file: str | None, junit: str | None, html: str | None) -> OSError | None:
    """Write the reports that are wanted, and give the error of the first that cannot be."""
    from ephost.checking.page import page_of
    from ephost.checking.report import write_text

    failed: OSError | None = None
    made: list[tuple[str | None, Callable[[], str]]] = [
        (json_file, lambda: json.dumps(report.to_dict(), indent=1)),
        (junit, report.junit),
        (html, lambda: page_of(report).html()),
    ]
    for path, text in made:
        if path and path != "-":
            try:
                write_text(path, text())
            except OSError as error:
                failed = failed or error
    return failed
