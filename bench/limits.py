"""How near products and convolutions come to what the processor can do at most.

Float32 products are held to the rate of a loop that multiplies and adds in registers, products of bytes to
the same of bytes, and products of one row to the rate at which memory is read; all on all cores, measured
between the hosts' turns. Convolutions are counted as the definition has them: Winograd's method needs fewer
multiplications, and so may be above the peak.

    python bench/limits.py [--save]                 beside onnxruntime
    python bench/limits.py --against CHECKOUT       beside another commit of ephost
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from harness.limits import Limits
from harness.nodes import Feed, conv, network, prepare, random, single, some
from harness.report import Row, arguments, note, report, temporary_folder, wanted
from harness.results import begin
from harness.sides import Host, in_turns, sides
from onnx import helper

CALL = 5e-3  # Seconds or so of calls that are timed together.
UNITS = {"floats": "operations", "bytes": "operations", "memory": "bytes"}


@dataclass(frozen=True)
class Case:
    """A model, and what it does in a run: operations, or bytes that it reads."""

    make: Callable[[], tuple[bytes, Feed]]
    kind: str  # of the limit: a method of Limits
    work: float


def product(m: int, k: int, n: int) -> Case:
    """Float32, with constants on the right; of one row the constants are what counts."""

    def make() -> tuple[bytes, Feed]:
        return single("MatMul", {"x": some(m, k)}, {"w": some(k, n)})

    return Case(make, "memory", 4.0 * k * n) if m == 1 else Case(make, "floats", 2.0 * m * k * n)


def product_of_bytes(m: int, k: int, n: int) -> Case:
    """Unsigned by signed bytes."""

    def make() -> tuple[bytes, Feed]:
        x = random.integers(0, 256, (m, k), dtype="uint8")
        return single("MatMulInteger", {"x": x}, {"w": random.integers(-64, 64, (k, n), dtype="int8")})

    return Case(make, "bytes", 2.0 * m * k * n)


def convolution(shape: tuple[int, ...], outputs: int, size: int, stride: int = 1) -> Case:
    """A square one, with its input and output as they are in a model."""
    work = 2.0 * outputs * shape[1] * size**2 * (shape[2] // stride) * (shape[3] // stride)
    return Case(lambda: conv(shape, outputs, size, size, strides=[stride, stride]), "floats", work)


def blocks(channels: int, side: int, count: int = 4) -> Case:
    """Some blocks of a residual network, of three convolutions each: 1x1, 3x3 and 1x1."""
    inner = channels // 4
    shapes = ((inner, channels, 1), (inner, inner, 3), (channels, inner, 1))

    def make() -> tuple[bytes, Feed]:
        constants: Feed = {}
        nodes, node = [], helper.make_node
        for at in range(count):
            last = first = "x" if at == 0 else f"y{at - 1}"
            for i, (outputs, inputs, size) in enumerate(shapes):
                made, w, b = f"c{at}.{i}", f"w{at}.{i}", f"b{at}.{i}"
                constants |= {w: some(outputs, inputs, size, size), b: some(outputs)}
                nodes.append(node("Conv", [last, w, b], [made], pads=[size // 2] * 4))
                last = f"r{at}.{i}"
                if i < 2:
                    nodes.append(node("Relu", [made], [last]))
            nodes.append(node("Add", [made, first], [f"s{at}"]))
            nodes.append(node("Relu", [f"s{at}"], ["y" if at == count - 1 else f"y{at}"]))
        feed = {"x": some(1, channels, side, side)}
        return network(nodes, feed, constants), feed

    work = sum(2.0 * outputs * inputs * size**2 for outputs, inputs, size in shapes)
    return Case(make, "floats", work * side**2 * count)


CASES = {
    **{
        f"MatMul, {m} x {k} x {n}": product(m, k, n)
        for m, k, n in (
            (128, 768, 768),
            (128, 768, 3072),
            (128, 3072, 768),
            (512, 512, 512),
            (1024, 1024, 1024),
            (1536, 1536, 1536),
            (1, 4096, 8192),
        )
    },
    "MatMulInteger, 128 x 768 x 3072": product_of_bytes(128, 768, 3072),
    "MatMulInteger, 1024 x 1024 x 1024": product_of_bytes(1024, 1024, 1024),
    "Conv, 3 to 64 channels of 224 x 224, 7 x 7 in steps of 2": convolution((1, 3, 224, 224), 64, 7, 2),
    **{
        f"4 residual blocks, {channels} channels of {side} x {side}": blocks(channels, side)
        for channels, side in ((256, 56), (512, 28), (1024, 14), (2048, 7))
    },
}


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__, rounds=9)
    both = sides(options.against)
    kept = begin("limits")
    taken: dict[str, list[float]] = {}
    rates: dict[str, float] = {}  # The best ones: a loop that was interrupted says nothing of the processor.
    with temporary_folder() as folder, Host(both[0]) as one, Host(both[1]) as other:
        hosts, limits = (one, other), Limits(folder)
        for name, case in CASES.items():
            if not wanted(name, options):
                continue
            note(f"{name} ...")
            prepare(hosts, folder, name, *case.make())
            calls = max(1, round(CALL / hosts[0]("run", calls=1)))
            taken[name] = in_turns(hosts, "run", rounds=options.rounds, calls=calls)
            rates[case.kind] = max(rates.get(case.kind, 0.0), getattr(limits, case.kind)())
    for kind, rate in rates.items():
        print(f"{kind}: at most {rate / 1e9:.1f} billion {UNITS[kind]} a second")
    rows = []
    for name, times in taken.items():
        work, rate = CASES[name].work, rates[CASES[name].kind]
        rows.append(Row(name, times[0], times[1], limit=1.0, least=work / rate if rate else None))
    return report(kept, rows, both, options)


if __name__ == "__main__":
    sys.exit(main())
