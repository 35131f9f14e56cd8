"""BeamSearch, GreedySearch, Sampling and WhisperBeamSearch, beside onnxruntime's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ephost
import numpy as np
import onnx
import pytest
from ephost.errors import InvalidGraph, NotImplemented
from ephost.reference.generation import GENERATION
from ephost.reference.token_scores import FORBIDDEN, best, forbid_repeated, penalize_repetition
from onnx import helper
from text_models import WIDTH, encoder_and_decoder, gpt, text_model

ort = pytest.importorskip("onnxruntime")
INT, FLOAT = np.int32, np.float32


def one(number: float, dtype: type = INT) -> np.ndarray:
    return np.array([number], dtype)


def made(op_type: str, inputs: dict[str, np.ndarray], *outputs: str, **attributes: Any) -> bytes:
    order = GENERATION[op_type].names  # type: ignore[attr-defined]
    return text_model(op_type, inputs, order, ("sequences", *outputs), **attributes).SerializeToString()


def greedy(*ids: list[int], most: int = 10, **more: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "input_ids": np.array(ids, INT),
        "max_length": one(most),
        "min_length": one(0),
        "repetition_penalty": one(1, FLOAT),
        **more,
    }


def beams(
    *ids: list[int], count: int = 3, returned: int = 2, most: int = 10, **more: np.ndarray
) -> dict[str, np.ndarray]:
    return {
        **greedy(*ids, most=most),
        "num_beams": one(count),
        "num_return_sequences": one(returned),
        "length_penalty": one(1, FLOAT),
        **more,
    }


def both(model: bytes, inputs: dict[str, np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What onnxruntime gives, and what this host does."""
    theirs = ort.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, inputs)
    return theirs, ephost.InferenceSession(model).run(None, inputs)


def assert_same(model: bytes, inputs: dict[str, np.ndarray]) -> None:
    theirs, ours = both(model, inputs)
    np.testing.assert_array_equal(ours[0], theirs[0])
    for our, their in zip(ours[1:], theirs[1:], strict=True):
        # onnxruntime leaves what was in memory where no step wrote.
        steps = np.any(our, axis=(1, 2, 3)) if our.ndim == 4 else slice(None)
        np.testing.assert_allclose(our[steps], their[steps], rtol=1e-3, atol=1e-3)


IDS = {"eos_token_id": 2, "pad_token_id": 1}
MANNERS: list[dict[str, Any]] = [
    {},
    {"count": 1, "returned": 1},
    {"count": 4, "returned": 4, "length_penalty": one(-0.5, FLOAT)},
    {"length_penalty": one(2, FLOAT), "early_stopping": 1},
    {"repetition_penalty": one(1.7, FLOAT)},
    {"no_repeat_ngram_size": 1},
    {"no_repeat_ngram_size": 2, "min_length": one(6)},
    {"vocab_mask": (np.arange(20) % 3 != 0).astype(INT)},
    {"prefix_vocab_mask": (np.arange(20) % 2 == 0).astype(INT)[None]},
    {"vocab_size": 20},
]


@pytest.mark.parametrize("kind", ["gpt", "text", "sound"])
@pytest.mark.parametrize("manner", MANNERS, ids=lambda manner: "-".join(manner) or "plain")
def test_beams_are_those_of_onnxruntime(kind: str, manner: dict[str, Any]) -> None:
    attributes = dict(IDS, model_type=["gpt", "text", "sound"].index(kind), decoder_start_token_id=3)
    inputs = beams([5, 9, 7, 11])
    for name, value in manner.items():
        if name in ("count", "returned"):
            inputs[{"count": "num_beams", "returned": "num_return_sequences"}[name]] = one(value)
        elif isinstance(value, np.ndarray):
            inputs[name] = value
        else:
            attributes[name] = value
    if kind == "gpt":
        attributes["decoder"] = gpt(20)
    else:
        attributes.update(encoder_and_decoder(20, sound=kind == "sound"))
    if kind == "sound":
        inputs["input_ids"] = np.random.default_rng(1).normal(size=(1, WIDTH, 6)).astype(FLOAT)
        inputs["decoder_input_ids"] = np.array([[3, 4]], INT)
    assert_same(made("BeamSearch", inputs, "sequences_scores", "scores", **attributes), inputs)


@pytest.mark.parametrize("kind", ["gpt", "text"])
def test_padding_and_masks_are_those_of_onnxruntime(kind: str) -> None:
    attributes = dict(IDS, model_type=int(kind == "text"), decoder_start_token_id=3)
    attributes.update({"decoder": gpt(20)} if kind == "gpt" else encoder_and_decoder(20))
    padded = beams([1, 1, 5, 9], [7, 1, 6, 1])
    assert_same(made("BeamSearch", padded, **attributes), padded)
    masked = dict(padded, attention_mask=np.array([[0, 1, 1, 1], [1, 0, 1, 1]], INT))
    assert_same(made("BeamSearch", masked, **attributes), masked)


def test_a_text_does_not_depend_on_its_neighbours_in_a_batch() -> None:
    texts = [[5, 9], [7, 11], [6, 3]]
    attributes = dict(IDS, decoder=gpt(20))
    together = beams(*texts)
    (found,) = ephost.InferenceSession(made("BeamSearch", together, **attributes)).run(None, together)
    for text, expected in zip(texts, found, strict=True):
        alone = beams(text)
        (one_text,) = ephost.InferenceSession(made("BeamSearch", alone, **attributes)).run(None, alone)
        np.testing.assert_array_equal(one_text[0], expected)


@pytest.mark.parametrize("first", [False, True])
def test_the_likeliest_tokens_are_those_of_onnxruntime(first: bool) -> None:
    bodies = {"decoder": gpt(20), **({"init_decoder": gpt(20)} if first else {})}
    inputs = greedy([5, 9, 1], [7, 11, 6], repetition_penalty=one(1.4, FLOAT))
    model = made("GreedySearch", inputs, eos_token_id=19, pad_token_id=1, **bodies)
    assert_same(model, inputs)


def test_ended_texts_are_padded() -> None:
    inputs = greedy([5, 9], most=40)
    model = made("GreedySearch", inputs, eos_token_id=8, pad_token_id=1, decoder=gpt(12))
    (found,) = ephost.InferenceSession(model).run(None, inputs)
    free = made("GreedySearch", inputs, eos_token_id=0, pad_token_id=1, decoder=gpt(12))
    (longer,) = ephost.InferenceSession(free).run(None, inputs)
    end = next(at for at in range(2, 40) if found[0, at] == 1)
    np.testing.assert_array_equal(found[0, :end], longer[0, :end])
    assert longer[0, end] == 8
    assert (found[0, end:] == 1).all()


@pytest.mark.parametrize("custom", [0, 1])
def test_the_only_token_that_stays_is_sampled(custom: int) -> None:
    inputs = greedy([5, 9], [6, 3], seed=one(7))
    attributes: dict[str, Any] = dict(IDS, decoder=gpt(20), top_p=1e-9, min_tokens_to_keep=1, custom=custom)
    assert_same(made("Sampling", inputs, temperature=0.7, filter_value=-np.inf, **attributes), inputs)


def test_samples_are_as_often_as_they_are_likely() -> None:
    inputs = greedy(*[[3, 4]] * 2000, most=3, seed=one(7))
    bodies = {"decoder": gpt(12, seed=5)}
    attributes: dict[str, Any] = dict(bodies, eos_token_id=3, pad_token_id=3, top_p=0.8, min_tokens_to_keep=1)
    model = made("Sampling", inputs, "filtered_logits", filter_value=-1e20, **attributes)
    found, scores = ephost.InferenceSession(model).run(None, inputs)
    likely = np.exp(scores[0] - scores[0].max())
    likely /= likely.sum()
    assert 1 < np.count_nonzero(likely) < 12
    seen = np.bincount(found[:, -1], minlength=12) / len(found)
    np.testing.assert_allclose(seen, likely, atol=0.05)
    (again, _) = ephost.InferenceSession(model).run(None, inputs)
    np.testing.assert_array_equal(again, found)


@pytest.mark.parametrize("seed", range(8))
def test_timestamps_are_those_of_onnxruntime(seed: int) -> None:
    numbers = np.random.default_rng(seed)
    inputs = beams([0], count=2, returned=1, most=12, logits_processor=one(1))
    inputs["input_ids"] = numbers.normal(size=(1, WIDTH, 5)).astype(FLOAT)
    inputs["decoder_input_ids"] = np.array([[3, 4]], INT)
    tokens = ["translate", "transcribe", "start_of_lm", "no_timestamps", "no_speech"]
    ids = {f"{name}_token_id": 10 + at for at, name in enumerate(tokens)}
    ids["no_timestamps_token_id"] = 13
    model = made(
        "WhisperBeamSearch",
        inputs,
        **dict(IDS, model_type=2, decoder_start_token_id=3, beginning_timestamp_token_id=16),
        **ids,
        **encoder_and_decoder(24, sound=True),
    )
    assert_same(model, inputs)


def test_a_decoder_may_know_only_the_states_of_its_encoder() -> None:
    """The newer form of T5's: the encoder reads no token, and the decoder begins with none."""
    bodies = encoder_and_decoder(20)
    encoder = bodies["encoder"]
    kept = [value for value in encoder.output if "cross" in value.name]
    needed = {"Constant", "Cast", "Unsqueeze", "Mul"}
    nodes = [n for n in encoder.node if n.output[0] in ("felt",) or n.op_type in needed]
    nodes = [n for n in nodes if "self" not in n.output[0]]
    del encoder.node[:], encoder.output[:], encoder.input[2:]
    encoder.node.extend(nodes)
    encoder.output.extend(kept)
    inputs = beams([5, 9, 7])
    attributes = dict(IDS, model_type=1, decoder_start_token_id=3, **bodies)
    assert_same(made("BeamSearch", inputs, "sequences_scores", **attributes), inputs)


REFUSED: dict[str, tuple[Callable[[dict[str, Any]], Any], type[Exception], str]] = {
    "no end": (lambda given: given.pop("eos_token_id"), InvalidGraph, "eos_token_id"),
    "no decoder": (lambda given: given.pop("decoder"), InvalidGraph, "decoder"),
    "another kind": (lambda given: given.update(model_type=7), NotImplemented, "model_type 7"),
    "no encoder": (lambda given: given.update(model_type=1), InvalidGraph, "without an encoder"),
    "a shared cache": (
        lambda given: given["decoder"].input.append(
            helper.make_tensor_value_info("past_sequence_length", onnx.TensorProto.INT32, [1])
        ),
        NotImplemented,
        "written for CUDA",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_is_refused_as_the_model_opens(what: str) -> None:
    change, error, said = REFUSED[what]
    attributes: dict[str, Any] = dict(IDS, decoder=gpt(20))
    change(attributes)
    inputs = beams([5, 9])
    with pytest.raises(error, match=f"'generate'.*{said}"):
        ephost.InferenceSession(made("BeamSearch", inputs, **attributes))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"max_length": one(2)}, "max_length 2 must be over the 2 tokens"),
        ({"max_length": one(9999)}, "at most 4096"),
        ({"min_length": one(10)}, "min_length 10"),
        ({"num_beams": one(200)}, "num_beams must be 1 to 128"),
        ({"num_return_sequences": one(4)}, "num_return_sequences must be 1 to num_beams 3"),
        ({"repetition_penalty": one(0, FLOAT)}, "repetition_penalty"),
        ({"num_beams": np.zeros(2, INT)}, "num_beams must have one element"),
        ({"vocab_mask": np.ones(3, INT)}, r"vocab_mask must have shape \[20\], got \[3\]"),
        ({"attention_mask": np.ones((1, 3), INT)}, r"attention_mask must have shape \[1, 2\]"),
    ],
)
def test_values_that_cannot_be_are_refused(change: dict[str, np.ndarray], said: str) -> None:
    inputs = {**beams([5, 9]), **change}
    session = ephost.InferenceSession(made("BeamSearch", inputs, **dict(IDS, decoder=gpt(20))))
    with pytest.raises(Exception, match=said):
        session.run(None, inputs)


def test_padding_of_the_vocabulary_is_no_token() -> None:
    inputs = greedy([5, 19], repetition_penalty=one(2, FLOAT))
    model = made("GreedySearch", inputs, decoder=gpt(20), vocab_size=18, **IDS)
    with pytest.raises(Exception, match="begins with a token 19, the vocabulary has 18"):
        ephost.InferenceSession(model).run(None, inputs)
    (found,) = ephost.InferenceSession(model).run(None, greedy([5, 9], most=30))
    assert found.max() < 18


def test_a_vocabulary_beyond_the_decoders_is_refused() -> None:
    inputs = greedy([5, 9])
    model = made("GreedySearch", inputs, decoder=gpt(20), vocab_size=2**31 - 1, **IDS)
    with pytest.raises(Exception, match="vocab_size is 2147483647, the decoder gives scores of 20 tokens"):
        ephost.InferenceSession(model).run(None, inputs)


def test_there_must_be_a_token_for_each_beam() -> None:
    inputs = beams([0], count=2, returned=1)
    session = ephost.InferenceSession(
        made("BeamSearch", inputs, eos_token_id=0, pad_token_id=0, decoder=gpt(1))
    )
    with pytest.raises(Exception, match="a vocabulary of 1 is too small for 2 beams"):
        session.run(None, inputs)


def test_types_and_ranks_are_known() -> None:
    inputs = beams([5, 9])
    model = onnx.load_from_string(
        made("BeamSearch", inputs, "sequences_scores", "scores", **dict(IDS, decoder=gpt(20)))
    )
    for output in model.graph.output:
        output.ClearField("type")
    found = ephost.InferenceSession(model.SerializeToString()).get_outputs()
    assert [(one.type, len(one.shape)) for one in found] == [
        ("tensor(int32)", 3),
        ("tensor(float)", 2),
        ("tensor(float)", 4),
    ]


def test_a_model_need_not_say_the_opset_of_onnxruntimes_operators() -> None:
    inputs = greedy([5, 9])
    model = onnx.load_from_string(made("GreedySearch", inputs, **dict(IDS, decoder=gpt(20))))
    del model.opset_import[1:]
    assert_same(model.SerializeToString(), inputs)


def test_the_best_of_equal_scores_is_the_first() -> None:
    assert best(np.array([1, 3, 3, 2, 3], FLOAT), 2).tolist() == [1, 2]
    assert best(np.array([1, 2], FLOAT), 4).tolist() == [1, 0]


def test_a_repeated_row_of_tokens_is_forbidden() -> None:
    scores = np.zeros((2, 5), FLOAT)
    forbid_repeated(2)(scores, np.array([[1, 2, 3, 1], [4, 4, 0, 4]], INT), 1)
    assert (scores == FORBIDDEN).tolist() == [
        [False, False, True, False, False],
        [True, False, False, False, True],
    ]


def test_a_token_is_penalized_once_however_often_it_was_there() -> None:
    scores = np.array([[4, -4, 1]], FLOAT)
    penalize_repetition(2)(scores, np.array([[0, 0, 1, 1]], INT), 1)
    assert scores.tolist() == [[2, -8, 1]]
