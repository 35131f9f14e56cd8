"""GroupQueryAttention: one token after many, with caches as numbers, and in codes of eight and four bits.

The caches are bound, and what goes out is written over what came in, as programs that generate text do it.
On the host's own provider, all cores. Results are held to each other first.

    python bench/attention.py [--save]                  beside onnxruntime
    python bench/attention.py --against CHECKOUT        beside another commit of ephost
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from harness.report import Row, arguments, note, report, temporary_folder, wanted
from harness.results import begin
from harness.sides import Host, in_turns, sides
from onnx import helper, numpy_helper

# Heads of queries, of keys and values, their channels, and tokens before.
SIZES = ((32, 8, 128, 2048), (32, 8, 64, 512), (8, 8, 64, 512), (8, 1, 128, 2048), (12, 2, 96, 1000))
CACHES = {"float32": None, "8 bits": ("PER_TENSOR", 8), "4 bits": ("PER_CHANNEL", 4)}
MORE = 64  # Tokens that the caches have room for beyond.


def write_case(folder: Path, heads: int, kv_heads: int, channels: int, past: int, codes: str) -> None:
    """A model of one node in ``model.onnx``, and what it is fed with in ``feed.npz``."""
    random = np.random.default_rng(past)
    cache = [1, kv_heads, past + MORE, channels]
    attributes: dict[str, int | str] = {"num_heads": heads, "kv_num_heads": kv_heads}
    feed = {
        name: random.standard_normal((1, 1, n * channels)).astype(np.float32)
        for name, n in (("q", heads), ("k", kv_heads), ("v", kv_heads))
    }
    constants = {}
    kind = CACHES[codes]
    if kind is None:
        feed |= {name: random.standard_normal(cache).astype(np.float32) for name in ("pk", "pv")}
    else:
        by, bits = kind
        scales = [1] if by == "PER_TENSOR" else [1, kv_heads, 1, channels]
        constants = {name: np.full(scales, 0.02, np.float32) for name in ("ks", "vs")}
        attributes |= {"k_quant_type": by, "v_quant_type": by, "kv_cache_bit_width": bits}
        cache[3] = channels * bits // 8
        drawn = {name: random.integers(0, 256, cache, dtype=np.uint8) for name in ("pk", "pv")}
        feed |= {name: x.view(np.int8) if bits == 8 else x for name, x in drawn.items()}
    feed |= {"n": np.array([past], np.int32), "t": np.array(past + 1, np.int32)}
    inputs = [*feed, *([""] * 5 if constants else []), *constants]
    kind_of = helper.np_dtype_to_tensor_dtype
    infos = {name: helper.make_tensor_value_info(name, kind_of(x.dtype), x.shape) for name, x in feed.items()}
    outputs = [
        helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, feed["q"].shape),
        helper.make_tensor_value_info("ck", kind_of(feed["pk"].dtype), cache),
        helper.make_tensor_value_info("cv", kind_of(feed["pv"].dtype), cache),
    ]
    node = helper.make_node(
        "GroupQueryAttention", inputs, ["y", "ck", "cv"], domain="com.microsoft", **attributes
    )
    graph = helper.make_graph(
        [node],
        "attention",
        list(infos.values()),
        outputs,
        [numpy_helper.from_array(x, name) for name, x in constants.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), folder / "model.onnx")
    np.savez(folder / "feed.npz", **feed)


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__, rounds=9)
    both = sides(options.against)
    kept = begin("attention")
    rows = []
    with temporary_folder() as folder, Host(both[0]) as one, Host(both[1]) as other:
        hosts = (one, other)
        given = {"model": str(folder / "model.onnx"), "feed": str(folder / "feed.npz")}
        for codes in CACHES:
            for heads, kv_heads, channels, past in SIZES:
                name = f"{heads} heads on {kv_heads} of {channels}, after {past:,}, {codes}"
                if not wanted(name, options):
                    continue
                note(f"{name} ...")
                write_case(folder, heads, kv_heads, channels, past, codes)
                shared = {"ck": "pk", "cv": "pv"}
                found = [np.array(host("prepare_in_place", shared=shared, **given)[0]) for host in hosts]
                if not np.allclose(*found, rtol=1e-3, atol=1e-4):
                    raise SystemExit(f"{name}: the hosts do not agree")
                calls = max(1, round(2e-3 / one("run", calls=1)))
                rows.append(Row(name, *in_turns(hosts, "run", rounds=options.rounds, calls=calls), limit=1.0))
    return report(kept, rows, both, options)


if __name__ == "__main__":
    sys.exit(main())
