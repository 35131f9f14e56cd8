"""What is printed of whole models, and the limits that they are held to."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.report import AGAINST_LIMIT, geometric_mean

from whole_models.measure import Result, ratio

TOLERANCE = 2e-3
# Models in which values are rounded, to bytes or to float16 (bench/quantize_models.py): the hosts round at
# other places, and both are as far from the same model without rounding: mobilenetv3 of signed bytes by 0.3
# to 0.4.
ROUNDED = {"_half": 1e-2, "_int8": 0.1, "_q4": 0.1, "_qdq": 0.2, "_s8": 0.2}
LIMITS = {"run": 0.9, "run of any": 1.2, "open": 1.0, "memory": 1.0, "claimed": 0.95}


def number(value: float, text: str = ".2f") -> str:
    """A figure, or a dash where there is none."""
    return "-" if math.isnan(value) else f"{value:{text}}"


def agrees(result: Result) -> bool:
    """Whether the hosts' outputs differ by no more than they may."""
    allowed = next((most for form, most in ROUNDED.items() if result.name.endswith(form)), TOLERANCE)
    return result.error <= allowed


def table(results: Sequence[Result], names: Sequence[str]) -> str:
    """The figures in Markdown."""
    lines = [
        f"| model | nodes claimed | difference | {names[0]} | {names[1]} "
        "| time | 1 thread | opening | memory | process |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in results:
        times = [f"{seconds * 1e3:.2f} ms" for seconds in r.run] or ["-", "-"]
        agree = "-" if math.isnan(r.error) else f"{r.error:.0e}" + ("" if agrees(r) else " **wrong**")
        ratios = [number(ratio(pair)) for pair in (r.run, r.run_single, r.open, r.memory, r.process)]
        cells = [r.name, f"{r.claimed:.0%}", agree, *times, *ratios]
        lines.append("| " + " | ".join(cells) + " |")
    means = [
        number(geometric_mean([ratio(getattr(r, key)) for r in results]))
        for key in ("run", "run_single", "open", "memory", "process")
    ]
    lines.append("| " + " | ".join(["geometric mean", "", "", "", "", *means]) + " |")
    for r in results:
        if r.failure:
            lines.append(f"\n{r.name} was not measured: {r.failure}")
        if r.missing:
            listed = ", ".join(
                f"{op} ({n})" for op, n in sorted(r.missing.items(), key=lambda item: -item[1])
            )
            lines.append(f"\n{r.name}, on the fallback: {listed}")
    return "\n".join(lines)


def slower(results: Sequence[Result]) -> list[str]:
    """What is slower, in the mean, than the checkout that it is compared with; one line for each."""
    lines = [f"{r.name}: {r.failure}" for r in results if r.failure]
    for key in ("run", "run_single", "open"):
        mean = geometric_mean([ratio(getattr(r, key)) for r in results])
        if mean > AGAINST_LIMIT:
            lines.append(f"geometric mean of {key}: {mean:.3f}")
    return lines


def broken(results: Sequence[Result]) -> list[str]:
    """Which of the limits do not hold, one line for each."""
    lines = []
    for r in results:
        if r.failure:
            lines.append(f"{r.name}: {r.failure}")
        elif not agrees(r):
            lines.append(f"{r.name}: differs by {r.error:.1e}")
        if r.claimed < LIMITS["claimed"]:
            lines.append(f"{r.name}: {r.claimed:.0%} of the nodes are claimed")
        for key in ("run", "run_single"):
            if ratio(getattr(r, key)) > LIMITS["run of any"]:
                lines.append(f"{r.name}: {key} {ratio(getattr(r, key)):.2f}")
    for key in ("run", "run_single", "open", "memory"):
        mean = geometric_mean([ratio(getattr(r, key)) for r in results])
        if mean > LIMITS[key.removesuffix("_single")]:
            lines.append(f"geometric mean of {key}: {mean:.2f}")
    return lines
