"""Tables of the documents: for each name one function of the results.

Each gives Markdown. What is measured on several machines is shown for each of them, under its name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from harness.report import geometric_mean
from harness.results import Results
from harness.sides import HOSTS

All = dict[str, list[Results]]
_N = TypeVar("_N", int, float)
Row = dict[str, Any]

_SETS = {
    "avx2": "AVX2",
    "avx512": "AVX-512",
    "avx512_vnni": "VNNI",
    "avx512_bf16": "BF16",
    "avx512_fp16": "FP16",
    "avx_vnni": "VNNI",
    "amx": "AMX",
}


def machine(results: Results) -> str:
    """A machine in a few words."""
    described = results.machine
    if accelerator := described.get("accelerator"):
        return str(accelerator)
    sets = described["instruction_sets"]
    shown = dict.fromkeys(_SETS[name] for name in sets if not (name == "avx2" and "avx512" in sets))
    processor = described["processor"]
    if family := described.get("family"):
        processor += f" of family {family[0]}, model {family[1]}"
    lowered = f", as if it were {described['lowered_to']}" if "lowered_to" in described else ""
    return f"{processor} ({', '.join(shown)}), {described['cores']} cores{lowered}"


def caption(results: Results) -> str:
    """Where, when and of what a table is."""
    load = f", load {max(results.load):.0f}" if results.load and max(results.load) >= 2 else ""
    rival = f"onnxruntime {results.versions['onnxruntime']}"
    if "accelerator" in results.machine:  # the processor's load says little of it
        package = "torch" if results.benchmark == "gpu-kernels" else "onnxruntime-gpu"
        rival, load = f"{package} {results.versions[package]}", ""
    return f"{machine(results)}; {results.date}, commit {results.commit}, {rival}{load}:"


def seconds(value: float) -> str:
    """A time, to three digits."""
    for unit, factor in (("us", 1e6), ("ms", 1e3), ("s", 1.0)):
        if value * factor < 1000 or unit == "s":
            digits = max(0, 2 - math.floor(math.log10(value * factor))) if value else 0
            return f"{value * factor:.{min(digits, 2)}f} {unit}"
    raise AssertionError


def ratio(row: Row, key: str) -> float:
    """What ephost takes as a part of what onnxruntime takes; nan where it was not measured."""
    if (told := row.get(f"{key}_ratio")) is not None:
        return float(told)
    pair = row.get(key, ())
    return pair[1] / pair[0] if len(pair) == 2 else math.nan


def mean(rows: Iterable[Row], key: str) -> float:
    """The geometric mean of such ratios."""
    return geometric_mean([ratio(row, key) for row in rows])


def number(value: float) -> str:
    """A ratio; nothing where there is none."""
    return "" if math.isnan(value) else f"{value:.2f}"


def span(values: Sequence[_N], show: Callable[[_N], str]) -> str:
    """From the least of some values to the largest, or the one that they show as."""
    least, most = show(min(values)), show(max(values))
    return least if least == most else f"{least} to {most}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def by_machine(benchmark: str, found: All, show: Callable[[Results], str]) -> str:
    """What is shown of each machine, under its caption."""
    shown = [f"{caption(results)}\n\n{show(results)}" for results in found.get(benchmark, ())]
    return "\n\n".join(shown) or "Not measured yet."


def timed(results: Results) -> str:
    """Rows of seconds in both hosts."""
    rows = [
        (
            row["name"],
            seconds(row["onnxruntime"]),
            seconds(row["ephost"]),
            number(row["ephost"] / row["onnxruntime"]),
            number(row.get("limit", math.nan)),
        )
        for row in results.rows
    ]
    return table(("", "onnxruntime", "ephost", "ratio", "limit"), rows)


def shares_of_time(results: Results) -> str:
    """Rows of the shares of each kind of code in a time."""
    kinds = [kind for kind in results.rows[0] if kind != "name"]
    rows = [(row["name"], *(f"{row[kind]:.0%}" for kind in kinds)) for row in results.rows]
    return table(("", *kinds), rows)


def gpu_kernels(results: Results) -> str:
    """Rows of seconds in PyTorch and here, and what part of memory's rate they are."""
    rows = [
        (
            row["name"],
            seconds(row["PyTorch"]),
            seconds(row["ephost"]),
            number(row["ephost"] / row["PyTorch"]),
            f"{row['least'] / row['ephost']:.0%}" if "least" in row else "",
        )
        for row in results.rows
    ]
    return table(("", "PyTorch", "ephost", "ratio", "of a copy's rate"), rows)


def gpu_models(results: Results) -> str:
    """Rows of seconds of whole models, and their mean."""
    ratios = [row["ephost"] / row["onnxruntime"] for row in results.rows]
    rows = [
        (row["name"], seconds(row["onnxruntime"]), seconds(row["ephost"]), number(each))
        for row, each in zip(results.rows, ratios, strict=True)
    ]
    mean_row = ("geometric mean", "", "", number(geometric_mean(ratios)))
    return table(("", "onnxruntime", "ephost", "ratio"), [*rows, mean_row])


def by_operator(results: Results) -> str:
    """The mean and the slowest of each operator's cases; then all of them."""
    rows = [
        (
            row["name"],
            str(row["cases"]),
            number(row["mean"]),
            number(row["ratio"]),
            row["slowest"],
        )
        for row in results.rows
    ]
    count = sum(row["cases"] for row in results.rows)
    logarithms = sum(row["cases"] * math.log(row["mean"]) for row in results.rows)
    above = sum(row["above"] for row in results.rows)
    rows.append((f"all; {above} above 1.15", str(count), number(math.exp(logarithms / count)), "", ""))
    return table(("", "cases", "mean", "slowest", "which is"), rows)


def limits(results: Results) -> str:
    """Rows of seconds in both hosts, and what part of the processor's limit they are."""
    rows = [
        (
            row["name"],
            seconds(row["onnxruntime"]),
            seconds(row["ephost"]),
            number(row["ephost"] / row["onnxruntime"]),
            *(f"{row['least'] / row[host]:.0%}" if "least" in row else "" for host in HOSTS),
        )
        for row in results.rows
    ]
    return table(("", "onnxruntime", "ephost", "ratio", "onnxruntime's part of the limit", "ephost's"), rows)


def layered(results: Results) -> str:
    """Rows of seconds of a run, without a layer and with it."""
    rows = [
        (
            row["name"],
            seconds(row["plain"]),
            seconds(row["layered"]),
            number(row["layered"] / row["plain"]),
            number(row.get("limit", math.nan)),
        )
        for row in results.rows
    ]
    return table(("", "plugin alone", "with the layer", "ratio", "limit"), rows)


def frames(results: Results) -> str:
    """Milliseconds that a browser takes for a frame."""
    rows = [
        (row["name"], *(f"{row[key]:.1f} ms" for key in ("median_ms", "p95_ms", "script_median_ms")))
        for row in results.rows
    ]
    return table(("", "median", "95 % within", "median of the script's part"), rows)


def served(results: Results) -> str:
    """What the model server does, and what stands around it."""
    units = {
        "requests_per_second": lambda value: f"{value:,.0f} requests a second",
        "milliseconds": lambda value: seconds(value / 1e3),
        "milliseconds_per_image": lambda value: f"{seconds(value / 1e3)} an image",
    }
    shown = []
    for row in results.rows:
        (unit,) = row.keys() - {"name"}
        shown.append((row["name"], units[unit](row[unit])))
    return table(("", "median"), shown)


_KINDS = {
    "run": "all cores",
    "run_single": "one thread",
    "open": "opening",
    "memory": "memory",
    "process": "whole process",
}


def whole_models(results: Results) -> str:
    """Ratios of each model."""
    kinds = [key for key in _KINDS if any(not math.isnan(ratio(row, key)) for row in results.rows)]
    rows = [(row["name"], *(number(ratio(row, key)) for key in kinds)) for row in results.rows]
    means = ("**geometric mean**", *(f"**{number(mean(results.rows, key))}**" for key in kinds))
    return table(("model", *(_KINDS[key] for key in kinds)), [*rows, means])


def cpu_summary(found: All) -> str:
    """Geometric means over all models, a row for each machine."""
    rows = []
    for results in found["cpu"]:
        means = [number(mean(results.rows, key)) for key in _KINDS]
        rows.append((machine(results), str(len(results.rows)), *means))
    return table(("machine", "models", *_KINDS.values()), rows)


def cpu_mean(found: All) -> str:
    """The means on all cores, from the least to the largest of the machines, in a sentence."""
    means = span([mean(results.rows, "run") for results in found["cpu"]], number)
    return f"{means} ({span([len(results.rows) for results in found['cpu']], str)} models)"


def nbits_mean(found: All) -> str:
    """The mean over the products by weights of few bits, of each machine, in a sentence."""
    means = [
        (geometric_mean([row["ephost"] / row["onnxruntime"] for row in results.rows]), machine(results))
        for results in found["nbits"]
    ]
    return " and ".join(f"{number(value)} ({where})" for value, where in means)


def scaling(results: Results) -> str:
    """Time for each image or token, by how many there are."""
    rows = [
        (
            row["name"],
            f"{row['size']} {row['unit']}",
            seconds(row["onnxruntime"]),
            seconds(row["ephost"]),
            number(row["ephost"] / row["onnxruntime"]),
        )
        for row in results.rows
    ]
    return table(("model", "at once", "onnxruntime", "ephost", "ratio"), rows)


def classical(results: Results) -> str:
    """Models by rows that are asked for at once, and the means."""
    cells: dict[str, dict[str, Row]] = {}
    for row in results.rows:
        name, rows = row["name"].rsplit(": ", 1)
        cells.setdefault(name, {})[rows] = row
    columns = list(dict.fromkeys(row["name"].rsplit(": ", 1)[1] for row in results.rows))
    heads = [head for rows in columns for head in (f"{rows}: onnxruntime", "ephost", "ratio")]
    lines = []
    for name, its in cells.items():
        pairs = [(its[rows]["onnxruntime"], its[rows]["ephost"]) for rows in columns]
        lines.append(
            (
                name,
                *(
                    cell
                    for one, other in pairs
                    for cell in (seconds(one), seconds(other), number(other / one))
                ),
            )
        )
    means = [number(classical_ratio(results, rows)) for rows in columns]
    lines.append(("**geometric mean**", *(cell for each in means for cell in ("", "", f"**{each}**"))))
    return table(("model", *heads), lines)


def classical_ratio(results: Results, rows: str) -> float:
    """The geometric mean of all models for so many rows."""
    its = [row for row in results.rows if row["name"].endswith(f": {rows}")]
    return geometric_mean([row["ephost"] / row["onnxruntime"] for row in its])


def ratio_range(benchmark: str, only: str = "") -> Callable[[All], str]:
    """The least and the largest ratio of a benchmark on all machines, in a sentence."""

    def show(found: All) -> str:
        ratios = [
            row["ephost"] / row["onnxruntime"]
            for results in found[benchmark]
            for row in results.rows
            if only in row["name"]
        ]
        return span(ratios, number)

    return show


def isolation(results: Results) -> str:
    """Runs of plugins in this process and in a worker of one."""
    rows = []
    for row in results.rows:
        if "left_out" in row:
            rows.append((row["name"], row["left_out"], "", "", "", ""))
            continue
        limit = number(row["limit"]) if "limit" in row else ""
        added = ("-" if row["added"] < 0 else "") + seconds(abs(row["added"]))
        times = (seconds(row["here"]), seconds(row["apart"]), added)
        rows.append((row["name"], *times, f"{row['ratio']:.3f}", limit))
    return table(("", "in this process", "isolated", "added", "ratio", "limit"), rows)


_PLUGINS = {  # by vendor: the package, and on what it runs
    "nxrt": ("nxrt-ep-cpu", ""),
    "ggml": ("onnxruntime-ggml", ""),
    "qnn": ("onnxruntime-qnn", ", HTP simulator"),
    "openvino": ("onnxruntime-ep-openvino", ""),
    "webgpu": ("onnxruntime-ep-webgpu", " on SwiftShader"),
}


def plugin(vendor: str, results: Results) -> str:
    """A vendor's package with its version."""
    if vendor not in _PLUGINS:
        return vendor
    package, where = _PLUGINS[vendor]
    return f"{package} {results.versions.get(package, '')}".strip() + where


def node_tests(results: Results) -> str:
    """The standard's node tests on each plugin, in both hosts."""
    rows = []
    told = {(row["vendor"], row["host"]): row for row in results.rows}
    for vendor in dict.fromkeys(row["vendor"] for row in results.rows):
        cells = [plugin(vendor, results)]
        for host in ("onnxruntime", "ephost"):
            row = told.get((vendor, host), {"reason": "not run"})
            claimed = str(row["claimed"]) if vendor != "none" and "claimed" in row else ""
            cells += [row["reason"], ""] if "reason" in row else [str(row["passed"]), claimed]
        rows.append(cells)
    return table(("plugin", "onnxruntime: pass", "with nodes", "ephost: pass", "with nodes"), rows)


def vendor_models(results: Results) -> str:
    """How far whole models are off on each plugin."""
    alone = [row for row in results.rows if len(row["vendors"]) == 1]
    vendors = list(dict.fromkeys(row["vendors"][0] for row in alone))
    cells: dict[str, dict[str, str]] = {}
    for row in alone:
        (vendor,) = row["vendors"]
        unclaimed = " \\*" if row.get("claimed", {}).get(vendor) == 0 else ""
        said = row.get("reason") or f"{row['distance']:.1e}".replace("e-0", "e-") + unclaimed
        cells.setdefault(row["model"], {})[vendor] = said
    rows = [(model, *(its.get(vendor, "") for vendor in vendors)) for model, its in cells.items()]
    return table(("model", *vendors), rows)


def compiled_models(results: Results) -> str:
    """How many times faster a compiled model opens."""
    columns = list(dict.fromkeys((row["vendor"], row["host"]) for row in results.rows))
    cells: dict[str, dict[tuple[str, str], str]] = {}
    for row in results.rows:
        times = row.get("times") or (row["open"] / row["open_compiled"] if "open" in row else None)
        said = row.get("reason") or f"{times:.2g}"
        cells.setdefault(row["model"], {})[row["vendor"], row["host"]] = said
    heads = [vendor if host == "ephost" else f"{vendor} in {host}" for vendor, host in columns]
    return table(
        ("model", *heads),
        [(model, *(its.get(column, "") for column in columns)) for model, its in cells.items()],
    )


def vendor_runs(vendor: str) -> Callable[[Results], str]:
    """Runs on one plugin beside onnxruntime's."""

    def processor_ratio(row: Row) -> float:
        return ratio({**row, "processor": row.get("processor_time", ())}, "processor")

    def wall_ratio(row: Row) -> float:
        return ratio({**row, "run": [row.get(h) for h in ("onnxruntime", "ephost") if h in row]}, "run")

    def show(results: Results) -> str:
        rows = []
        for row in results.rows:
            if "left_out" in row:
                rows.append((row["name"], row["left_out"], "", ""))
                continue
            run = seconds(row["ephost"]) if "ephost" in row else ""
            rows.append((row["name"], run, number(wall_ratio(row)), number(processor_ratio(row))))
        return table((f"on {plugin(vendor, results)}", "a run here", "by the clock", "processor time"), rows)

    return show


def backend_suite(results: Results) -> str:
    """The standard's backend test-suite, by group."""
    rows = [
        (row["group"], *(str(row[key]) for key in ("tests", "ephost", "onnxruntime"))) for row in results.rows
    ]
    return table(("group", "tests", "ephost", "onnxruntime"), rows)


def backend_total(found: All) -> str:
    """The suite in a sentence."""
    rows = found["backend_suite"][-1].rows
    tests, here, there = (sum(row[key] for row in rows) for key in ("tests", "ephost", "onnxruntime"))
    return f"{here:,} of {tests:,} tests pass, on onnxruntime {there:,}"


# What a document may ask for, by name.
TABLES: dict[str, Callable[[All], str]] = {
    "calls": lambda found: by_machine("calls", found, timed),
    "io_binding": lambda found: by_machine("io_binding", found, timed),
    "opening": lambda found: by_machine("opening", found, timed),
    "imports": lambda found: by_machine("imports", found, timed),
    "shares": lambda found: by_machine("shares", found, shares_of_time),
    "layers": lambda found: by_machine("layers", found, layered),
    "isolation": lambda found: by_machine("isolation", found, isolation),
    "pages": lambda found: by_machine("pages", found, frames),
    "serving": lambda found: by_machine("serving", found, served),
    "calls-range": ratio_range("calls"),
    "io_binding-range": ratio_range("io_binding"),
    "opening-range": ratio_range("opening", " on "),
    "imports-range": ratio_range("imports"),
    "cpu": lambda found: by_machine("cpu", found, whole_models),
    "cpu-quantized": lambda found: by_machine("cpu-quantized", found, whole_models),
    "cpu-packages": lambda found: by_machine("cpu-packages", found, whole_models),
    "cpu-onednn": lambda found: by_machine("cpu-onednn", found, whole_models),
    "cpu-summary": cpu_summary,
    "cpu-mean": cpu_mean,
    "nbits": lambda found: by_machine("nbits", found, timed),
    "nbits-mean": nbits_mean,
    "element_types": lambda found: by_machine("element_types", found, by_operator),
    "attention": lambda found: by_machine("attention", found, timed),
    "limits": lambda found: by_machine("limits", found, limits),
    "gpu-kernels": lambda found: by_machine("gpu-kernels", found, gpu_kernels),
    "gpu-models": lambda found: by_machine("gpu-models", found, gpu_models),
    "operators": lambda found: by_machine("operators", found, timed),
    "operators-busy": lambda found: by_machine("operators-busy", found, timed),
    "shapes": lambda found: by_machine("shapes", found, timed),
    "classical": lambda found: by_machine("classical", found, classical),
    "scaling": lambda found: by_machine("scaling", found, scaling),
    "node_tests": lambda found: by_machine("node_tests", found, node_tests),
    "vendor_models": lambda found: by_machine("vendor_models", found, vendor_models),
    "compiled_models": lambda found: by_machine("compiled_models", found, compiled_models),
    "vendor_runs-nxrt": lambda found: by_machine("vendor_runs-nxrt", found, vendor_runs("nxrt")),
    "vendor_runs-qnn": lambda found: by_machine("vendor_runs-qnn", found, vendor_runs("qnn")),
    "backend_suite": lambda found: by_machine("backend_suite", found, backend_suite),
    "backend_suite-total": backend_total,
}
