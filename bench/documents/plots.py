"""Plots of the documents, as SVG: for each file one function of the results.

matplotlib draws them. The same results give the same file, byte for byte, with the version that
pyproject.toml names: letters stay letters, and nothing in the file is random or of the day.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import matplotlib

matplotlib.use("svg")
from harness.sides import HOSTS
from matplotlib import pyplot

from documents.tables import All, machine, mean, ratio

_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "ephost",
    "svg.id": None,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "path.simplify": True,
}


def _svg(figure: Any) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    said = re.sub(r"<metadata>.*?</metadata>\s*", "", text.getvalue(), flags=re.DOTALL)
    said = re.sub(r"(\d+\.\d\d)\d+", r"\1", said)  # a hundredth of a point is enough
    said = re.sub(r"\s*\n(?=[LCQzM\"])", " ", said)  # a path in a line
    return re.sub(r"[ \t]+\n", "\n", said)


def whole_models(found: All) -> str:
    """The time of a run of each model as a part of onnxruntime's, on each machine."""
    measured = found["cpu"]
    names = list(dict.fromkeys(row["name"] for results in measured for row in results.rows))
    size = (7.5, 0.9 + (0.12 + 0.12 * len(measured)) * len(names))
    figure, axes = pyplot.subplots(figsize=size, layout="constrained")
    height = 0.8 / len(measured)
    for at, results in enumerate(measured):
        told = {row["name"]: ratio(row, "run") for row in results.rows}
        places = [row + (at - (len(measured) - 1) / 2) * height for row in range(len(names))]
        label = f"{machine(results)}: mean {mean(results.rows, 'run'):.2f}"
        axes.barh(places, [told.get(name, float("nan")) for name in names], height, label=label)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)  # The first on top.
    axes.set_xlabel("time of a run, ephost / onnxruntime (less is better)")
    figure.legend(loc="outside lower left", frameon=False, fontsize="small")
    return _svg(figure)


def scaling(found: All) -> str:
    """Time for each image or token by how many there are: a row for each machine, a plot for each model."""
    measured = found["scaling"]
    models = list(dict.fromkeys(row["name"] for results in measured for row in results.rows))
    figure, grid = pyplot.subplots(
        len(measured),
        len(models),
        figsize=(2.6 * len(models), 2.6 * len(measured)),
        layout="constrained",
        squeeze=False,
    )
    for results, line in zip(measured, grid, strict=True):
        for name, axes in zip(models, line, strict=True):
            rows = [row for row in results.rows if row["name"] == name]
            sizes = [row["size"] for row in rows]
            for host in HOSTS:
                axes.plot(sizes, [row[host] * 1e3 for row in rows], marker=".", label=host)
            axes.set_xscale("log", base=2)
            axes.set_xticks(sizes[::2], [str(size) for size in sizes[::2]])
            axes.minorticks_off()
            axes.set_ylim(bottom=0)
            axes.set_title(name, fontsize="medium")
            axes.set_xlabel(rows[0]["unit"] if rows else "not measured")
        line[0].set_ylabel(f"ms for each\n{machine(results)}", fontsize="small")
    grid[0][0].legend(fontsize="small", frameon=False)
    return _svg(figure)


# By the file's name in docs/.
PLOTS: dict[str, Callable[[All], str]] = {"models.svg": whole_models, "scaling.svg": scaling}


def draw() -> dict[str, Callable[[All], str]]:
    """The plots, in the project's style."""
    matplotlib.rcdefaults()
    matplotlib.rcParams.update(_STYLE)
    return PLOTS
