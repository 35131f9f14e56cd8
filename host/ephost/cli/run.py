"""``ephost run``: run a model, time it, look at its outputs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ephost.cli.feeding import feed_options, guessed, make_feed
from ephost.cli.model import Dimensions, model_options, open_session
from ephost.cli.output import reports_failures, show, show_json
from ephost.errors import OnnxRuntimeException
from ephost.tables import Table, time_text

if TYPE_CHECKING:
    pass


@click.command()
@model_options
@feed_options
@click.option(
    "--repeat", type=click.IntRange(min=1), default=5, show_default=True, help="Runs that are measured."
)
@click.option("--warmup", type=click.IntRange(min=0), default=1, show_default=True, help="Runs before them.")
@click.option(
    "--save", type=click.Path(file_okay=False, path_type=Path), help="A folder to save the outputs in."
)
@click.option("--profile", is_flag=True, help="Show the time of each step of the measured runs.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@reports_failures
def run(
    dimensions: Dimensions,
    files: Sequence[tuple[str, str]],
    seed: int,
    repeat: int,
    warmup: int,
    save: Path | None,
    profile: bool,
    as_json: bool,
    **model: Any,
) -> None:
    """Run MODEL and show its outputs and timings.

    Inputs are random unless a file is given: normal floats, integers 0 and 1. Dimensions that the model
    leaves open are 1 unless --dim gives them. Outputs are saved as .npy, or as .pb where numpy has no
    room for their type.
    """
    from ephost.cli.inputs import check_axes, describe, file_stems, write_value
    from ephost.explanation import explain, start_profile, step_times

    session = open_session(dimensions=dimensions, **model)
    if wrong := check_axes(session, dimensions.axes):
        raise click.BadParameter(wrong, param_hint="--dim")
    feed, sources = make_feed(session, files, dimensions, seed)
    times = []
    outputs: list[Any] = []
    try:
        for _ in range(warmup):
            session.run(None, feed)
        if profile:
            start_profile(session, groups=False)
        for _ in range(repeat):
            started = time.perf_counter()
            outputs = session.run(None, feed)
            times.append(time.perf_counter() - started)
    except OnnxRuntimeException as error:
        if not (hint := guessed(session, sources, dimensions)):
            raise
        raise type(error)(f"{error}\n{hint}") from error
    steps = step_times(session) if profile else []
    names = [output.name for output in session.get_outputs()]
    saved = {}
    if save is not None:
        save.mkdir(parents=True, exist_ok=True)
        saved = {
            name: str(write_value(save, stem, name, value))
            for stem, name, value in zip(file_stems(names), names, outputs, strict=True)
        }
    explanation = explain(session)
    timing = _statistics(times)
    described = {name: describe(value) for name, value in zip(names, outputs, strict=True)}
    if as_json:
        shares = {p.ep_name: p.nodes for p in explanation.providers}
        show_json(
            {
                "model": explanation.model,
                "nodes": {**shares, "fallback": len(explanation.fallback)},
                "inputs": {n: {**describe(feed[n]), "source": source} for n, source in sources.items()},
                "outputs": described,
                "saved": saved,
                "open_seconds": explanation.stages["total"],
                "runs": repeat,
                "seconds": timing,
                "steps": [asdict(step) for step in steps],
            }
        )
        return
    parts: list[Table | str] = [explanation.headline(), _values("Inputs", sources, feed)]
    files_saved = {name: saved.get(name, "") for name in names}
    parts.append(_values("Outputs", files_saved, dict(zip(names, outputs, strict=True))))
    parts.append(_timings(explanation.stages["total"], repeat, timing))
    if profile:
        parts.append(_profile(steps, repeat))
    show(parts)


def _statistics(times: Sequence[float]) -> dict[str, float]:
    ordered = sorted(times)
    # The smallest time that nine in ten runs do not exceed.
    p90 = ordered[max(0, -(-9 * len(ordered) // 10) - 1)]
    return {"min": ordered[0], "median": statistics.median(ordered), "p90": p90, "max": ordered[-1]}


def _timings(opening: float, repeat: int, timing: dict[str, float]) -> Table:
    table = Table("Time", ("what", "times", *timing), right=frozenset({"times", *timing}))
    table.rows.append(("opening", "1", *("" for _ in list(timing)[1:]), time_text(opening)))
    table.rows.append(("run", str(repeat), *map(time_text, timing.values())))
    return table


def _values(title: str, notes: dict[str, str], values: dict[str, Any]) -> Table:
    from ephost.cli.inputs import describe

    numbers = ("min", "max", "mean", "not finite")
    table = Table(
        title,
        ("name", "type", "shape", *numbers, "file" if title == "Outputs" else "from"),
        right=frozenset(numbers),
    )
    for name, note in notes.items():
        about = describe(values[name])
        shape = "-" if about["shape"] is None else "x".join(map(str, about["shape"])) or "scalar"
        cells = [f"{about[key]:.5g}" if key in about else "-" for key in ("min", "max", "mean")]
        table.rows.append(
            (name, about["type"], shape, *cells, str(about.get("not_finite", "-")), note or "-")
        )
    return table


def _profile(steps: Sequence[Any], runs: int) -> Table:
    total = sum(step.seconds for step in steps) or 1.0
    columns = ("a run", "share", "nodes", "EP", "operator", "step")
    table = Table(f"Steps, mean of {runs} runs", columns, right=frozenset(columns[:3]))
    for step in steps[:30]:
        share = f"{100 * step.seconds / total:.1f} %"
        table.rows.append(
            (time_text(step.seconds / runs), share, str(step.nodes), step.ep_name, step.op_type, step.name)
        )
    if len(steps) > 30:
        rest = sum(step.seconds for step in steps[30:])
        share = f"{100 * rest / total:.1f} %"
        table.rows.append((time_text(rest / runs), share, str(len(steps) - 30), "", "", "all other steps"))
    return table
