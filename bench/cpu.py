"""Whole models on the bundled CPU plugin and on onnxruntime's CPU provider: time, memory, agreement.

Each host runs in a process of its own, since each keeps threads that spin for a while after a run. The two
are asked in turns, and what is reported is the ratio of medians: below 1 ephost is quicker.

    python bench/cpu.py                             ONNX's light models, rapidocr's, magika's
    python bench/cpu.py --models FOLDER             those that bench/export_models.py wrote, too
    python bench/cpu.py --packages FOLDER           those that bench/collect_models.py wrote, alone
    python bench/cpu.py --models FOLDER --scaling   batches of 1 to 64 and 16 to 1,024 tokens
    python bench/cpu.py --models FOLDER --quantized   what bench/quantize_models.py quantised statically
    python bench/cpu.py --only bert --profile       where the time of a run goes, by operator, on either side
    python bench/cpu.py --against CHECKOUT          beside another commit of ephost: ratios of this to that
    python bench/cpu.py --without-onednn            beside the build that .ci/without_onednn makes

``--save`` keeps the figures in ``bench/results`` (``cpu.json``, ``cpu-packages.json``,
``cpu-quantized.json``, ``cpu-onednn.json``, ``scaling.json``). With ``EPHOST_CPU_ISA`` set both hosts do
with that instruction set.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import asdict
from pathlib import Path

from harness.machine import ROOT
from harness.report import checked, common, dump, note, wanted
from harness.results import begin
from harness.sides import sides
from whole_models.catalog import all_models, models_of
from whole_models.measure import Result, measure, ratio
from whole_models.profiles import profile
from whole_models.scaling import scaling
from whole_models.tables import broken, number, slower, table

# Where .ci/without_onednn leaves its build.
WITHOUT_ONEDNN = ROOT / "build" / "without-onednn" / "tree"


def options_of() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    common(parser)
    parser.add_argument(
        "--models", type=Path, metavar="FOLDER", help="with what bench/export_models.py wrote"
    )
    parser.add_argument(
        "--packages", type=Path, metavar="FOLDER", help="what bench/collect_models.py wrote, alone"
    )
    parser.add_argument("--seconds", type=float, default=6.0, help="for each measurement (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="all cores and opening only")
    parser.add_argument("--memory", action="store_true", help="peak memory only")
    parser.add_argument("--at-least", type=float, default=0.5, help="part of the nodes that must be claimed")
    parser.add_argument("--threads", type=int, default=0, help="for --profile and --scaling (0: all)")
    parser.add_argument("--profile", action="store_true", help="time by operator")
    parser.add_argument("--scaling", action="store_true", help="by batch and by tokens")
    parser.add_argument("--quantized", action="store_true", help="models of bytes only (NAME_qdq, NAME_s8)")
    parser.add_argument("--without-onednn", action="store_true", help="what oneDNN is worth")
    parser.add_argument("--markdown", metavar="FILE", help="write what is printed there")
    options = checked(parser)
    if options.without_onednn:
        if options.against or options.scaling or options.quantized:
            parser.error("--without-onednn is a comparison of its own")
        if not (WITHOUT_ONEDNN / "host" / "ephost" / "__init__.py").is_file():
            parser.error(f"{WITHOUT_ONEDNN} has no build: run .ci/without_onednn")
        options.against = WITHOUT_ONEDNN
    return options


def main() -> int:
    """Measure and report; 1 with --check when a limit is broken."""
    options = options_of()
    both = sides(options.against)
    names = [side.name for side in both]
    found = models_of(options.packages) if options.packages else all_models(options.models)
    models = [model for model in found if wanted(model.name, options)]
    if options.quantized:
        models = [model for model in models if model.name.endswith(("_qdq", "_s8"))]
    if options.profile:
        texts = []
        for model in models:
            texts.append(profile(model, both, options))
            print(texts[-1], end="\n\n", flush=True)
        if options.markdown:
            Path(options.markdown).write_text("\n\n".join(texts) + "\n")
        return 0
    part = "-quantized" if options.quantized else "-onednn" if options.without_onednn else ""
    part = "-packages" if options.packages else part
    kept = begin("scaling" if options.scaling else f"cpu{part}")
    if options.scaling:
        kept.rows = scaling(models, both, options)
        if options.json:
            dump(options.json, kept.rows)
        if options.save:
            kept.keep()
        return 0
    results: list[Result] = []
    text = ""
    for model in models:
        result = measure(model, both, options)
        results.append(result)
        pairs = (result.run, result.run_single, result.open, result.memory, result.process)
        ratios = " ".join(number(ratio(pair)) for pair in pairs)
        note(f"{model.name}: {result.claimed:.0%} {ratios} {result.failure}")
        text = f"{table(results, names)}\n"
        if options.markdown:
            Path(options.markdown).write_text(text)
        kept.rows = [_row(each) for each in results]
        if options.json:  # after each model: a run of all takes long
            kept.write(Path(options.json))
    print(text)
    if options.save:
        kept.keep()
    complaints = slower(results) if options.against else broken(results)
    for line in complaints if options.check else ():
        note(line)
    return int(options.check and bool(complaints))


def _row(result: Result) -> dict[str, object]:
    """What JSON holds of it: what was not measured is left out."""
    kept = asdict(result)
    return {
        key: value
        for key, value in kept.items()
        if value not in ([], {}, "") and not (isinstance(value, float) and not math.isfinite(value))
    }


if __name__ == "__main__":
    sys.exit(main())
