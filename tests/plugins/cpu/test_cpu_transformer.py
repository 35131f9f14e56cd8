"""Attention and rotations: ONNX's operators beside the reference, com.microsoft's beside onnxruntime."""

import ephost
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model

MS = "com.microsoft"


def some(*shape: int, seed: int = 0, dtype: object = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def angles(length: int, half: int) -> tuple[np.ndarray, np.ndarray]:
    turn = np.outer(np.arange(length), 100.0 ** (-np.arange(half) / max(half, 1)))
    return np.cos(turn).astype(np.float32), np.sin(turn).astype(np.float32)


# ------------------------------------------------------------------------------------------ ONNX's Attention


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_attention_of_any_shape_agrees(cpu_plugin: Cpu, data: st.DataObject) -> None:
    draw = data.draw
    kv_heads, group = draw(st.sampled_from([1, 2, 3])), draw(st.sampled_from([1, 2, 4]))
    heads, batch = kv_heads * group, draw(st.sampled_from([1, 2]))
    rows, keys = draw(st.sampled_from([1, 2, 5, 13])), draw(st.sampled_from([1, 3, 17, 40]))
    depth, width = draw(st.sampled_from([4, 16, 19])), draw(st.sampled_from([4, 16, 21]))
    past = draw(st.sampled_from([0, 0, 1, 9]))
    flat = draw(st.booleans())
    feeds = {
        "q": some(batch, heads, rows, depth, seed=1),
        "k": some(batch, kv_heads, keys, depth, seed=2),
        "v": some(batch, kv_heads, keys, width, seed=3),
    }
    attributes: dict[str, object] = {"is_causal": draw(st.sampled_from([0, 1]))}
    if flat:
        feeds = {n: x.transpose(0, 2, 1, 3).reshape(batch, x.shape[2], -1) for n, x in feeds.items()}
        attributes |= {"q_num_heads": heads, "kv_num_heads": kv_heads}
    if draw(st.booleans()):
        attributes["scale"] = 0.3
    if draw(st.booleans()):
        attributes["softcap"] = 1.5
    names = ["q", "k", "v", "", "", "", ""]
    total = past + keys
    mask = draw(st.sampled_from(["", "bool", "float"]))
    if mask:
        shape = [total]
        # At least two dimensions, and causal with all rows: the reference gets others wrong.
        for full in (rows, heads, batch):
            whole = len(shape) == 1 and attributes["is_causal"]
            shape.insert(0, full if whole else draw(st.sampled_from([1, full])))
            if not draw(st.booleans()):
                break
        if draw(st.booleans()):
            shape[-1] = max(1, total - 2)
        feeds["m"] = some(*shape, seed=4) > 0.2 if mask == "bool" else some(*shape, seed=4)
        names[3] = "m"
    if past:
        feeds["pk"], feeds["pv"] = (
            some(batch, kv_heads, past, n, seed=5 + i) for i, n in enumerate((depth, width))
        )
        names[4:6] = ["pk", "pv"]
    elif draw(st.booleans()):
        feeds["n"] = np.random.default_rng(7).integers(0, total + 1, size=batch)
        names[6] = "n"
    outputs = ["y", "", "", ""]
    if past:
        outputs[1:3] = ["ck", "cv"]
    if draw(st.booleans()):
        outputs[3] = "s"
        # Products before they are capped are what the reference does not give.
        modes = [1, 2, 3] if "softcap" in attributes else [0, 1, 2, 3]
        attributes["qk_matmul_output_mode"] = draw(st.sampled_from(modes))
    opset = draw(st.sampled_from([24, 25]))
    if opset == 25 and draw(st.booleans()):
        attributes["left_window_size"] = draw(st.sampled_from([-1, 0, 3]))
        attributes["right_window_size"] = draw(st.sampled_from([-1, 0, 3]))
    node = helper.make_node("Attention", names, outputs, **attributes)
    wanted = [name for name in outputs if name]
    cpu_plugin.check(node, feeds, wanted, opset=opset, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_attention_on_halves_rounds_only_its_inputs_and_results(cpu_plugin: Cpu, dtype: type) -> None:
    feeds = {n: some(1, 2, 6, 16, seed=i, dtype=dtype) for i, n in enumerate("qkv")}
    node = helper.make_node("Attention", list("qkv"), ["y"], is_causal=1)
    found = cpu_plugin.run(make_model([node], feeds, ["y"], opset=24), feeds)[0]
    wide = {n: x.astype(np.float32) for n, x in feeds.items()}
    expected = cpu_plugin.run(make_model([node], wide, ["y"], opset=24), wide)[0]
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, expected.astype(dtype))


def test_attention_over_many_keys_and_rows_agrees(cpu_plugin: Cpu) -> None:
    feeds = {"q": some(1, 4, 300, 64), "k": some(1, 2, 500, 64, seed=1), "v": some(1, 2, 500, 64, seed=2)}
    for attributes in ({}, {"is_causal": 1}, {"left_window_size": 40, "right_window_size": 7}):
        node = helper.make_node("Attention", list("qkv"), ["y"], **attributes)
        cpu_plugin.check(node, feeds, opset=25, rtol=1e-4, atol=1e-5)


def test_products_are_shown_before_and_after_they_are_capped(cpu_plugin: Cpu) -> None:
    feeds = {n: some(1, 2, 5, 8, seed=i) for i, n in enumerate("qkv")}
    products = np.einsum("bhid,bhjd->bhij", feeds["q"], feeds["k"]) * 0.5
    for mode, expected in ((0, products), (1, 2 * np.tanh(products / 2))):
        node = helper.make_node(
            "Attention", list("qkv"), ["y", "", "", "s"], scale=0.5, softcap=2.0, qk_matmul_output_mode=mode
        )
        found = cpu_plugin.run(make_model([node], feeds, ["s"], opset=24), feeds)[0]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_an_output_that_is_left_out_has_room_for_what_is_computed(cpu_plugin: Cpu, dtype: type) -> None:
    """Of 16-bit floats it is computed in float32."""
    feeds = {n: some(1, 4, 64, 96, seed=i).astype(dtype) for i, n in enumerate("qkv")}
    made = {}
    for first in ("y", ""):
        node = helper.make_node("Attention", list("qkv"), [first, "", "", "s"], qk_matmul_output_mode=3)
        made[first] = cpu_plugin.run(make_model([node], feeds, ["s", *first], opset=24), feeds)[0]
    np.testing.assert_array_equal(made[""], made["y"])


def test_queries_that_look_at_no_key_give_zeros(cpu_plugin: Cpu) -> None:
    feeds = {n: some(1, 1, 4, 8, seed=i) for i, n in enumerate("qkv")}
    feeds["m"] = np.array([[True] * 4, [False] * 4, [True, False, False, False], [False] * 4])
    node = helper.make_node("Attention", list("qkvm"), ["y"])
    y = cpu_plugin.check(node, feeds, opset=24)[0]
    assert (y[0, 0, [1, 3]] == 0).all()
    assert (y[0, 0, [0, 2]] != 0).all()


# ------------------------------------------------------------------------------- com.microsoft's attention


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_multi_head_attention_of_any_shape_agrees(cpu_plugin: Cpu, data: st.DataObject) -> None:
    draw = data.draw
    heads, batch = draw(st.sampled_from([1, 3, 4])), draw(st.sampled_from([1, 2]))
    rows, keys = draw(st.sampled_from([1, 2, 7])), draw(st.sampled_from([1, 6, 20]))
    depth, width = draw(st.sampled_from([(8, 8), (16, 16), (8, 12)]))
    names = ["q", "k", "v"] + [""] * 5
    form = draw(st.sampled_from(["three", "cross"]))
    if form == "three":
        feeds = {
            "q": some(batch, rows, heads * depth),
            "k": some(batch, keys, heads * depth, seed=1),
            "v": some(batch, keys, heads * width, seed=2),
        }
    else:
        width = depth
        feeds = {
            "q": some(batch, rows, heads * depth),
            "k": some(batch, heads, keys, depth, seed=1),
            "v": some(batch, heads, keys, depth, seed=2),
        }
    if draw(st.booleans()):
        feeds["b"] = some(heads * (2 * depth + width), seed=3)
        names[3] = "b"
    total, outputs = keys, ["y"]
    if form == "three" and width == depth and draw(st.booleans()):
        past = draw(st.sampled_from([1, 5]))
        total += past
        feeds["pk"], feeds["pv"] = (some(batch, heads, past, depth, seed=5 + i) for i in range(2))
        names[6:8] = ["pk", "pv"]
        outputs += ["ck", "cv"]
    attributes: dict[str, object] = {"num_heads": heads}
    if draw(st.booleans()):
        attributes["scale"] = 0.4
    mask = draw(st.sampled_from(["", "two", "lengths"]))
    if mask == "two":
        keep = np.random.default_rng(9).integers(0, 2, size=(batch, total)).astype(np.int32)
        keep[:, 0] = 1
        feeds["p"] = keep
    elif mask == "lengths" and total == keys:
        feeds["p"] = np.random.default_rng(9).integers(1, total + 1, size=batch).astype(np.int32)
    if "p" in feeds:
        names[4] = "p"
    if draw(st.booleans()):
        feeds["a"] = some(draw(st.sampled_from([1, batch])), draw(st.sampled_from([1, heads])), rows, total)
        names[5] = "a"
    node = helper.make_node("MultiHeadAttention", names, outputs, domain=MS, **attributes)
    cpu_plugin.check_beside_onnxruntime(node, feeds, outputs, rtol=1e-4, atol=1e-5)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_decoder_masked_attention_of_any_shape_agrees(cpu_plugin: Cpu, data: st.DataObject) -> None:
    draw = data.draw
    heads, batch, depth = draw(st.sampled_from([1, 3, 4])), draw(st.sampled_from([1, 2])), 8
    room = draw(st.sampled_from([1, 6, 20]))
    past = draw(st.integers(0, room - 1))
    encoder = draw(st.booleans())
    names, outputs = ["q", "k", "v"] + [""] * 5, ["y"]
    attributes: dict[str, object] = {"num_heads": heads}
    feeds = {n: some(batch, 1, heads * depth, seed=i) for i, n in enumerate("qkv")}
    if encoder:
        feeds |= {n: some(batch, heads, room, depth, seed=i) for i, n in enumerate("kv")}
    total = room if encoder else past + 1
    if not encoder:
        attributes["past_present_share_buffer"] = 1
        feeds |= {
            "pk": some(batch, heads, room, depth, seed=5),
            "pv": some(batch, heads, room, depth, seed=6),
        }
        feeds["n"] = np.array([past], np.int32)
        names[5:8] = ["pk", "pv", "n"]
        outputs += ["ck", "cv"]
        if draw(st.booleans()):
            feeds["a"] = some(1, heads, 1, total, seed=7)
            names[4] = "a"
    if draw(st.booleans()):
        keep = np.random.default_rng(9).integers(0, 2, size=(batch, total)).astype(np.int32)
        keep[:, 0] = 1
        feeds["p"], names[3] = keep, "p"
    if draw(st.booleans()):
        attributes["scale"] = 0.4
    node = helper.make_node("DecoderMaskedMultiHeadAttention", names, outputs, domain=MS, **attributes)
    cpu_plugin.check_beside_onnxruntime(node, feeds, outputs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("packed", [False, True])
def test_decoder_masked_attention_adds_its_bias_to_all_three(cpu_plugin: Cpu, packed: bool) -> None:
    # onnxruntime does neither on a CPU.
    heads, depth, bias = 2, 8, some(3 * 16, seed=9)
    parts = [some(2, 1, heads * depth, seed=i) for i in range(3)]
    cache = {n: some(2, heads, 5, depth, seed=7) for n in ("pk", "pv")} | {"n": np.array([3], np.int32)}
    new = {"q": np.concatenate(parts, -1)} if packed else dict(zip("qkv", parts, strict=True))
    summed = {
        n: x + bias[at * 16 : (at + 1) * 16] for at, (n, x) in enumerate(zip("qkv", parts, strict=True))
    }
    found = []
    for feeds in (new | cache | {"b": bias}, summed | cache):
        names = [n if n in feeds else "" for n in ["q", "k", "v", "", "", "pk", "pv", "n", "", "", "b"]]
        node = helper.make_node(
            "DecoderMaskedMultiHeadAttention",
            names,
            ["y", "ck", "cv"],
            domain=MS,
            num_heads=heads,
            past_present_share_buffer=1,
        )
        found.append(cpu_plugin.run(make_model([node], feeds, ["y", "ck", "cv"]), feeds))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_a_past_that_fills_its_buffer_is_refused(cpu_plugin: Cpu) -> None:
    feeds = {n: some(1, 1, 8) for n in "qkv"} | {n: some(1, 1, 4, 8) for n in ("pk", "pv")}
    names = ["q", "k", "v", "", "", "pk", "pv", "n"]
    node = helper.make_node(
        "DecoderMaskedMultiHeadAttention",
        names,
        ["y", "ck", "cv"],
        domain=MS,
        num_heads=1,
        past_present_share_buffer=1,
    )
    model = make_model([node], feeds | {"n": np.zeros(1, np.int32)}, ["y", "ck", "cv"])
    for past in (4, -1):
        with pytest.raises(Exception, match="places of 4"):
            cpu_plugin.run(model, feeds | {"n": np.array([past], np.int32)})


def test_keys_and_values_in_one_tensor_are_those_in_two(cpu_plugin: Cpu) -> None:
    both = some(2, 6, 3, 2, 8, seed=1)
    feeds = {"q": some(2, 5, 3 * 8), "kv": both}
    apart = {
        "q": feeds["q"],
        "k": both[:, :, :, 0].reshape(2, 6, -1),
        "v": both[:, :, :, 1].reshape(2, 6, -1),
    }
    found, expected = (
        cpu_plugin.run(
            make_model(
                [helper.make_node("MultiHeadAttention", list(of), ["y"], domain=MS, num_heads=3)], of, ["y"]
            ),
            of,
        )
        for of in (feeds, apart)
    )
    np.testing.assert_array_equal(found[0], expected[0])


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_group_query_attention_of_any_shape_agrees(cpu_plugin: Cpu, data: st.DataObject) -> None:
    draw = data.draw
    kv_heads, group, batch = draw(st.sampled_from([1, 2])), draw(st.sampled_from([1, 3])), 2
    heads, depth = kv_heads * group, draw(st.sampled_from([16, 32]))
    past = draw(st.sampled_from([0, 4, 11]))
    rows = 1 if past else draw(st.sampled_from([1, 2, 9]))
    total = past + rows
    kind = draw(st.sampled_from([np.float32, np.float16]))
    names = ["q", "k", "v", "pk", "pv", "n", "t"]
    feeds = {
        "q": some(batch, rows, heads * depth, dtype=kind),
        "k": some(batch, rows, kv_heads * depth, seed=1, dtype=kind),
        "v": some(batch, rows, kv_heads * depth, seed=2, dtype=kind),
        "pk": some(batch, kv_heads, past, depth, seed=3, dtype=kind),
        "pv": some(batch, kv_heads, past, depth, seed=4, dtype=kind),
        "n": np.full(batch, total - 1, np.int32),
        "t": np.array(total, np.int32),
    }
    if draw(st.booleans()):
        packed = np.concatenate([feeds.pop("q"), feeds.pop("k"), feeds.pop("v")], axis=-1)
        feeds = {"q": packed} | feeds
        names[1:3] = ["", ""]
    attributes: dict[str, object] = {"num_heads": heads, "kv_num_heads": kv_heads}
    if draw(st.booleans()):
        attributes |= {"do_rotary": 1, "rotary_interleaved": draw(st.sampled_from([0, 1]))}
        half = depth // 2
        feeds["c"], feeds["s"] = (x.astype(kind) for x in angles(total + 3, half))
        names += ["c", "s"]
    if draw(st.booleans()):
        shape = (draw(st.sampled_from([1, batch])), draw(st.sampled_from([1, heads])), rows, total)
        feeds["a"] = some(*shape, seed=8, dtype=kind)
        names += [""] * (10 - len(names)) + ["a"]
    if draw(st.booleans()):
        attributes["local_window_size"] = draw(st.sampled_from([1, 3, 30]))
    if draw(st.booleans()):
        attributes["softcap"] = 2.0
    if draw(st.booleans()):
        attributes["scale"] = 0.2
    if draw(st.booleans()):
        feeds["sink"] = some(heads, seed=9, dtype=kind)
        names += [""] * (11 - len(names)) + ["sink"]
    if draw(st.booleans()):
        attributes["smooth_softmax"] = 1
    node = helper.make_node("GroupQueryAttention", names, ["y", "ck", "cv"], domain=MS, **attributes)
    tolerance = 1e-4 if kind is np.float32 else 1e-2
    cpu_plugin.check_beside_onnxruntime(node, feeds, ["y", "ck", "cv"], rtol=tolerance, atol=tolerance)


def test_group_query_attention_puts_keys_behind_those_of_each_batch(cpu_plugin: Cpu) -> None:
    feeds = {
        "q": some(2, 1, 4 * 16),
        "k": some(2, 1, 2 * 16, seed=1),
        "v": some(2, 1, 2 * 16, seed=2),
        "pk": some(2, 2, 8, 16, seed=3),
        "pv": some(2, 2, 8, 16, seed=4),
        "n": np.array([3, 6], np.int32),
        "t": np.array(7, np.int32),
    }
    node = helper.make_node(
        "GroupQueryAttention", list(feeds), ["y", "ck", "cv"], domain=MS, num_heads=4, kv_num_heads=2
    )
    model = make_model([node], feeds, ["y", "ck", "cv"])
    y, keys, values = cpu_plugin.run(model, feeds)
    for b, length in enumerate((4, 7)):
        np.testing.assert_array_equal(keys[b, :, length - 1], feeds["k"][b].reshape(2, 16))
        np.testing.assert_array_equal(keys[b, :, : length - 1], feeds["pk"][b, :, : length - 1])
        k, v = (np.repeat(x[b, :, :length], 2, axis=0).astype(np.float64) for x in (keys, values))
        scores = np.einsum("hd,hnd->hn", feeds["q"][b].reshape(4, 16), k) / 4
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        np.testing.assert_allclose(
            y[b].reshape(4, 16), np.einsum("hn,hnd->hd", weights, v), rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("past", [0, 2])
@pytest.mark.parametrize("more", [{}, {"unidirectional": 1}, {"scale": 0.3}])
def test_multi_head_attention_shows_its_scores(cpu_plugin: Cpu, past: int, more: dict[str, object]) -> None:
    heads, depth, rows, keys = 2, 4, 3, 5
    feeds = {
        "q": some(2, rows, heads * depth),
        "k": some(2, keys, heads * depth, seed=1),
        "v": some(2, keys, heads * depth, seed=2),
        "add": some(1, heads, rows, past + keys, seed=3),
    }
    if past:
        feeds |= {name: some(2, heads, past, depth, seed=4) for name in ("pk", "pv")}
    inputs = ["q", "k", "v", "", "", "add", *(["pk", "pv"] if past else [])]
    outputs = ["y", *(["ck", "cv"] if past else ["", ""]), "s"]
    node = helper.make_node("MultiHeadAttention", inputs, outputs, domain=MS, num_heads=heads, **more)
    named = [name for name in outputs if name]
    made = dict(zip(named, cpu_plugin.run(make_model([node], feeds, named), feeds), strict=True))

    def split(x: np.ndarray) -> np.ndarray:
        return x.reshape(2, -1, heads, depth).transpose(0, 2, 1, 3).astype(np.float64)

    k, v = (np.concatenate([feeds[f"p{n}"], split(feeds[n])], 2) if past else split(feeds[n]) for n in "kv")
    scores = (
        np.einsum("bhrd,bhcd->bhrc", split(feeds["q"]), k) * more.get("scale", depth**-0.5) + feeds["add"]
    )
    if "unidirectional" in more:
        scores[:, :, np.triu(np.ones((rows, past + keys), bool), past + 1)] = -np.inf
    np.testing.assert_allclose(made["s"], scores, rtol=1e-5, atol=1e-5)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    y = np.einsum("bhrc,bhcd->brhd", weights / weights.sum(-1, keepdims=True), v)
    np.testing.assert_allclose(made["y"], y.reshape(2, rows, -1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows, past, total", [(5, 0, 5), (1, 9, 7), (1, 6, 7)])
@pytest.mark.parametrize("shown", [1, 2])
@pytest.mark.parametrize("sink", [None, "smooth", "heads"])
@pytest.mark.parametrize("more", [{}, {"local_window_size": 2}, {"softcap": 1.5}])
def test_group_query_attention_shows_its_scores(
    cpu_plugin: Cpu, rows: int, past: int, total: int, shown: int, sink: str | None, more: dict[str, object]
) -> None:
    heads, depth = 4, 16
    feeds = {
        "q": some(1, rows, heads * depth),
        "k": some(1, rows, 2 * depth, seed=1),
        "v": some(1, rows, 2 * depth, seed=2),
        "pk": some(1, 2, past, depth, seed=3),
        "pv": some(1, 2, past, depth, seed=4),
        "n": np.array([total - 1], np.int32),
        "t": np.array(total, np.int32),
    }
    names, sinks = [*feeds], np.zeros(heads, np.float32)
    if sink == "heads":
        feeds["sink"] = sinks = some(heads, seed=5)
        names += [""] * 4 + ["sink"]
    outputs = ["y", "ck", "cv", "s"]
    node = helper.make_node(
        "GroupQueryAttention",
        names,
        outputs,
        domain=MS,
        num_heads=heads,
        kv_num_heads=2,
        qk_output=shown,
        smooth_softmax=int(sink == "smooth"),
        **more,
    )
    y, keys, values, found = cpu_plugin.run(make_model([node], feeds, outputs), feeds)
    k, v = (np.repeat(x[0, :, :total], 2, axis=0).astype(np.float64) for x in (keys, values))
    scores = np.einsum("nhd,hcd->hnc", feeds["q"][0].reshape(rows, heads, depth), k) / 4
    if "softcap" in more:
        scores = 1.5 * np.tanh(scores / 1.5)
    places, columns = np.arange(total - rows, total)[:, None], np.arange(total)
    seen = (columns <= places) & (columns > places - int(str(more.get("local_window_size", total))))
    weights = np.exp(scores) * seen
    weights /= weights.sum(-1, keepdims=True) + (0 if sink is None else np.exp(sinks)[:, None, None])
    expected = np.einsum("hnc,hcd->nhd", weights, v).reshape(1, rows, -1)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
    assert found.shape == (1, heads, rows, total)
    np.testing.assert_allclose(found[0], scores * seen if shown == 1 else weights, rtol=1e-5, atol=1e-6)


def test_a_length_beyond_the_cache_is_refused(cpu_plugin: Cpu) -> None:
    feeds = {n: some(1, 1, 16, seed=i) for i, n in enumerate("qkv")}
    feeds |= {"pk": some(1, 1, 4, 16), "pv": some(1, 1, 4, 16)}
    feeds |= {"n": np.array([9], np.int32), "t": np.array(5, np.int32)}
    node = helper.make_node(
        "GroupQueryAttention", list(feeds), ["y", "ck", "cv"], domain=MS, num_heads=1, kv_num_heads=1
    )
    session = cpu_plugin.session(make_model([node], feeds, ["y", "ck", "cv"]))
    with pytest.raises(Exception, match="asks for more earlier keys"):
        session.run(None, feeds)
    with pytest.raises(Exception, match="length that the cache"):
        session.run(None, feeds | {"n": np.array([-1], np.int32)})


def test_earlier_keys_that_are_not_there_are_refused(cpu_plugin: Cpu) -> None:
    """The present would have room for them, and nobody would have written it."""
    feeds = {n: some(1, 1, 16, seed=i) for i, n in enumerate("qkv")}
    feeds |= {"pk": some(1, 1, 4, 16), "pv": some(1, 1, 4, 16)}
    feeds |= {"n": np.array([6], np.int32), "t": np.array(7, np.int32)}
    node = helper.make_node(
        "GroupQueryAttention", list(feeds), ["y", "ck", "cv"], domain=MS, num_heads=1, kv_num_heads=1
    )
    session = cpu_plugin.session(make_model([node], feeds, ["y", "ck", "cv"]))
    with pytest.raises(Exception, match="asks for more earlier keys"):
        session.run(None, feeds)


# ------------------------------------------------------------------------------------------------- rotations


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_rotary_embedding_of_any_shape_agrees(cpu_plugin: Cpu, data: st.DataObject) -> None:
    draw = data.draw
    batch, heads, rows = draw(st.sampled_from([1, 2])), draw(st.sampled_from([1, 3])), draw(st.integers(1, 6))
    depth = draw(st.sampled_from([4, 10, 16]))
    turned = draw(st.sampled_from([0, 4, depth]))
    half = (turned or depth) // 2
    four = draw(st.booleans())
    feeds = {"x": some(batch, heads, rows, depth) if four else some(batch, rows, heads * depth)}
    feeds["c"], feeds["s"] = angles(20, half)
    attributes = {"interleaved": draw(st.sampled_from([0, 1])), "rotary_embedding_dim": turned}
    if not four:
        attributes["num_heads"] = heads
    positions = np.random.default_rng(3).integers(0, 20, size=(batch, rows))
    if draw(st.booleans()):
        feeds["p"] = positions
    else:
        feeds["c"], feeds["s"] = feeds["c"][positions], feeds["s"][positions]
    node = helper.make_node("RotaryEmbedding", list(feeds), ["y"], **attributes)
    cpu_plugin.check(node, feeds, opset=23)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("positions", ["first", "each"])
@pytest.mark.parametrize("four", [False, True])
def test_microsofts_rotary_embedding_agrees(
    cpu_plugin: Cpu, interleaved: int, positions: str, four: bool
) -> None:
    x = some(2, 3, 5, 16) if four else some(2, 5, 3 * 16)
    places = np.array([4]) if positions == "first" else np.random.default_rng(2).integers(0, 12, size=(2, 5))
    cosines, sines = angles(12, 8)
    feeds = {"x": x, "p": places, "c": cosines, "s": sines}
    node = helper.make_node("RotaryEmbedding", list(feeds), ["y"], domain=MS, interleaved=interleaved)
    cpu_plugin.check_beside_onnxruntime(node, feeds)


def test_a_position_without_an_angle_is_refused(cpu_plugin: Cpu) -> None:
    feeds = {"x": some(1, 1, 2, 4), "c": some(3, 2), "s": some(3, 2), "p": np.array([[1, 3]])}
    node = helper.make_node("RotaryEmbedding", list(feeds), ["y"])
    session = cpu_plugin.session(make_model([node], feeds, ["y"], opset=23))
    with pytest.raises(Exception, match="position without an angle"):
        session.run(None, feeds)


@pytest.mark.parametrize("name", ["q_num_heads", "kv_num_heads"])
def test_numbers_of_heads_are_those_of_the_tensors(cpu_plugin: Cpu, name: str) -> None:
    feeds = {name: np.ones((1, 2, 3, 4), np.float32) for name in "qkv"}
    for heads in (0, 2, 3):
        node = helper.make_node("Attention", list(feeds), ["y"], "the node", **{name: heads})
        model = make_model([node], feeds, ["y"], opset=23, open_shapes=True)
        if heads != 3:
            assert cpu_plugin.run(model, feeds)[0].shape == (1, 2, 3, 4)
            continue
        with pytest.raises(ephost.errors.InvalidArgument, match=rf"the node.*{name} is 3 for 2 heads"):
            cpu_plugin.run(model, feeds)


def test_a_window_of_no_tokens_is_refused(cpu_plugin: Cpu) -> None:
    feeds = {
        **{name: np.ones((1, 1, 16), np.float32) for name in "qkv"},
        **{name: np.ones((1, 2, 4, 8), np.float32) for name in ("pk", "pv")},
        "lengths": np.array([4], np.int32),
        "total": np.array([5], np.int32),
    }
    given = {"num_heads": 2, "kv_num_heads": 2, "domain": "com.microsoft", "local_window_size": 0}
    outputs = ["y", "present_k", "present_v"]
    node = helper.make_node("GroupQueryAttention", list(feeds), outputs, "the node", **given)
    with pytest.raises(ephost.errors.InvalidArgument, match=r"the node.*a window of no tokens"):
        cpu_plugin.run(make_model([node], feeds, outputs, open_shapes=True), feeds)
