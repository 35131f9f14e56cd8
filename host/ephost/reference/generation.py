"""BeamSearch, WhisperBeamSearch, GreedySearch and Sampling: a text, token by token, from a decoder.

They are operators of com.microsoft whose decoder, and encoder where there is one, are subgraphs: exporters
write whole models of them. Which parts of a subgraph a plugin runs is the plan's matter; here is the loop
around them.

N is the number of texts that grow side by side: the batch times the beams.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ..message_helpers import numpy_dtype
from ..messages import ValueInfoProto
from . import token_scores
from .control_flow import ControlNode, Implicit, Subgraph, scalar_of, tensor_of
from .token_scores import ChangeScores, Hypotheses, TimestampTokens
from .values import Value

_GPT, _T5, _WHISPER = 0, 1, 2  # values of model_type
_LONGEST = 4096
_MOST_BEAMS = 128
_INT32 = np.int32
Step = Callable[[np.ndarray, np.ndarray | None, np.ndarray], np.ndarray]
"""The scores of the next tokens, [N, vocabulary], given the tokens so far, [N, length]; which of the last
step's rows each goes on from, None for as they are; and the last tokens, [N].
"""


class _Inputs:
    """A node's inputs by what they are called."""

    def __init__(self, names: Sequence[str], values: Sequence[Value]) -> None:
        self._values = dict(zip(names, values, strict=False))

    def tensor(self, name: str, rank: int | None = None) -> np.ndarray | None:
        """A tensor, or None where it is not there."""
        value = self._values.get(name)
        if value is None:
            return None
        tensor = tensor_of(value, name)
        if rank is not None and tensor.ndim != rank:
            raise ValueError(f"{name} must have {rank} dimensions, got shape {list(tensor.shape)}")
        return tensor

    def needed(self, name: str, rank: int | None = None) -> np.ndarray:
        """A tensor that must be there."""
        value = self.tensor(name, rank)
        if value is None:
            raise ValueError(f"{name} is missing")
        return value

    def number(self, name: str, otherwise: Any) -> Any:
        """A tensor's only element."""
        value = self._values.get(name)
        return otherwise if value is None else scalar_of(value, name)


class _Node:
    """What the operators share: attributes, limits, the decoder."""

    names: ClassVar[Sequence[str]] = ()  # of the inputs
    _usual_model_type: ClassVar[int] = _GPT

    def __init__(self, node: ControlNode) -> None:
        self._attributes = node.attributes
        self.model_type = self._number("model_type", self._usual_model_type)
        self.end = self._number("eos_token_id", -1)
        self.padding = self._number("pad_token_id", -1)
        if self.end < 0 or self.padding < 0:
            raise ValueError("eos_token_id and pad_token_id must be there, and not negative")
        try:
            self.decoder = node.subgraphs["decoder"]
        except KeyError:
            raise ValueError("its attribute 'decoder' is missing") from None
        self.encoder = node.subgraphs.get("encoder")
        self.first_decoder = node.subgraphs.get("init_decoder")
        if self.model_type not in (_GPT, _T5, _WHISPER):
            raise NotImplementedError(f"model_type {self.model_type} is none of 0 (GPT), 1 (T5), 2 (Whisper)")
        if (self.encoder is None) != (self.model_type == _GPT):
            raise ValueError(f"model_type {self.model_type} with{'out' * (self.encoder is None)} an encoder")
        for body in (self.decoder, self.encoder, self.first_decoder):
            if body is not None:
                _check_is_of_the_cpu(body)
        self.vocabulary = self._number("vocab_size", -1)

    def _number(self, name: str, otherwise: int) -> int:
        return int(self._attributes.get(name, otherwise))

    def _real(self, name: str, otherwise: float) -> float:
        return float(self._attributes.get(name, otherwise))

    def lengths(self, inputs: _Inputs, start: int) -> tuple[int, int]:
        """The most and the fewest tokens of a text that begins with so many."""
        most, fewest = inputs.number("max_length", _LONGEST), inputs.number("min_length", 0)
        if not start < most <= _LONGEST:
            raise ValueError(
                f"max_length {most} must be over the {start} tokens to begin with and at most {_LONGEST}"
            )
        if fewest >= most:
            raise ValueError(f"min_length {fewest} must be under max_length {most}")
        return most, fewest

    def within_vocabulary(self, logits: np.ndarray) -> tuple[np.ndarray, int]:
        """Scores without those of padding, and how many tokens there are."""
        size = self.vocabulary if self.vocabulary > 0 else logits.shape[1]
        if size > logits.shape[1]:
            raise ValueError(f"vocab_size is {size}, the decoder gives scores of {logits.shape[1]} tokens")
        return logits[:, :size], size

    def changes(
        self, inputs: _Inputs, tokens: np.ndarray, fewest: int, shape: tuple[int, int], temperature: float
    ) -> list[ChangeScores]:
        """What becomes of scores, in order; ``shape`` is the batch and the vocabulary."""
        vocabulary = shape[1]
        made: list[ChangeScores] = []
        penalty = inputs.number("repetition_penalty", 1.0)
        if penalty <= 0:
            raise ValueError(f"repetition_penalty must be over 0, got {penalty}")
        if penalty != 1:
            made.append(token_scores.penalize_repetition(penalty))
        if (size := self._number("no_repeat_ngram_size", 0)) > 0:
            made.append(token_scores.forbid_repeated(size))
        if made and tokens.size and not 0 <= tokens.min() <= tokens.max() < vocabulary:
            wrong = next(token for token in tokens.flat if not 0 <= token < vocabulary)
            raise ValueError(f"the text begins with a token {wrong}, the vocabulary has {vocabulary}")
        if (mask := _of_shape(inputs, "vocab_mask", (vocabulary,))) is not None:
            made.append(token_scores.forbid_masked(mask))
        if (mask := _of_shape(inputs, "prefix_vocab_mask", shape)) is not None:
            made.append(token_scores.forbid_masked(mask, first_step_only=True))
        if fewest > 0:
            if self.end >= vocabulary:
                raise ValueError(f"eos_token_id {self.end} is not in the vocabulary of {vocabulary}")
            made.append(token_scores.forbid_end(fewest, self.end))
        if temperature > 0 and temperature != 1:
            made.append(token_scores.divide(temperature))
        presence = _of_shape(inputs, "presence_mask", shape)
        if presence is not None and (penalty := self._real("presence_penalty", 0.0)) != 0:
            made.append(token_scores.penalize_presence(presence, penalty))
        return made


def _of_shape(inputs: _Inputs, name: str, shape: tuple[int, ...]) -> np.ndarray | None:
    value = inputs.tensor(name)
    if value is not None and value.shape != shape:
        raise ValueError(f"{name} must have shape {list(shape)}, got {list(value.shape)}")
    return value


def _check_is_of_the_cpu(body: Subgraph) -> None:
    """Refuses what onnxruntime has for CUDA alone: a cache that stays in its place."""
    for info in body.graph.input:
        if info.name in ("past_sequence_length", "beam_width", "cache_indirection"):
            raise NotImplementedError(
                f"its subgraph {body.graph.name!r} has an input {info.name!r}: a cache that past and present "
                "share is written for CUDA; export the model without it"
            )


def _declared(info: ValueInfoProto, rank: int) -> list[int]:
    """Declared dimensions; 0 for those that are open."""
    dims = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
    if len(dims) != rank:
        raise ValueError(f"the subgraph must declare {info.name!r} with {rank} dimensions, has {len(dims)}")
    return dims


def _tensors(values: Sequence[Value]) -> list[np.ndarray]:
    """What a body has made, all of which must be tensors."""
    made = [value for value in values if isinstance(value, np.ndarray)]
    if len(made) != len(values):
        raise TypeError("its subgraphs must give tensors alone")
    return made


def _typed(array: np.ndarray, info: ValueInfoProto) -> np.ndarray:
    return array.astype(numpy_dtype(info.type.tensor_type.elem_type), copy=False)


def _last(logits: np.ndarray, rows: int) -> np.ndarray:
    """The last tokens' scores, float32 of [rows, vocabulary], of [rows or batch, length, vocabulary]."""
    if logits.ndim != 3 or not logits.size:
        raise ValueError("the decoder's first output must be logits of [batch, length, vocabulary]")
    found = logits[:, -1].astype(np.float32)
    return found if len(found) == rows else np.repeat(found, rows // len(found), axis=0)


# ---- decoders


class _Gpt:
    """A decoder of input_ids, position_ids, attention_mask and states, which has read the text so far."""

    def __init__(self, node: _Node, ids: np.ndarray, mask: np.ndarray | None, beams: int, implicit: Implicit):
        self._decoder, self._first, self._implicit = node.decoder, node.first_decoder, implicit
        is_text = ids != node.padding
        if mask is None:
            mask = is_text.astype(_INT32)
        elif mask.shape != ids.shape:
            raise ValueError(f"attention_mask must have shape {list(ids.shape)}, got {list(np.shape(mask))}")
        positions = np.where(is_text, np.cumsum(is_text, axis=1) - 1, 0)
        self._mask = np.repeat(mask, beams, axis=0)
        self._positions = np.repeat(positions, beams, axis=0)
        self._length = np.repeat(is_text.sum(axis=1), beams)[:, None]
        self._states: list[np.ndarray] = []
        declared = self._decoder.graph.input[3:]
        if len(declared) != len(self._decoder.graph.output) - 1:
            raise ValueError(
                f"the decoder has {len(declared)} past inputs and "
                f"{len(self._decoder.graph.output) - 1} present outputs"
            )
        for info in declared:
            two, _, heads, _, size = _declared(info, 5)
            empty = np.zeros((two or 2, len(self._mask), heads, 0, size), np.float32)
            self._states.append(_typed(empty, info))
        self._is_first = True

    def __call__(self, tokens: np.ndarray, rows: np.ndarray | None, last: np.ndarray) -> np.ndarray:
        body = self._decoder
        if self._is_first:
            fed, positions = tokens, self._positions
            body = self._first or body
        else:
            fed, positions = last[:, None], self._length
            self._length = self._length + 1
            self._mask = np.concatenate([self._mask, np.ones((len(last), 1), self._mask.dtype)], axis=1)
            if rows is not None:
                self._states = [np.take(state, rows, axis=1) for state in self._states]
        self._is_first = False
        given = [
            _typed(value, info)
            for value, info in zip((fed, positions, self._mask), body.graph.input, strict=False)
        ]
        logits, *self._states = _tensors(body.run([*given, *self._states], self._implicit))
        return _last(logits, len(tokens))


class _EncoderDecoder:
    """An encoder, which may have read the first tokens too, and a decoder that looks at what it made."""

    def __init__(
        self,
        node: _Node,
        ids: np.ndarray,
        mask: np.ndarray | None,
        start: np.ndarray,
        beams: int,
        implicit: Implicit,
    ):
        assert node.encoder is not None
        self._decoder, self._implicit = node.decoder, implicit
        read = {"encoder_input_ids": ids}
        if mask is not None:
            read["encoder_attention_mask"] = mask
        inputs, outputs = node.encoder.graph.input, node.encoder.graph.output
        given = zip((*read.values(), start), inputs, strict=False)
        made = _tensors(node.encoder.run([_typed(value, info) for value, info in given], implicit))
        # What the decoder is given by name, and then in order.
        self._by_name = {name: np.repeat(value, beams, axis=0) for name, value in read.items()}
        self._logits: np.ndarray | None = None
        if outputs and outputs[0].name == "logits":
            self._logits, hidden, *states = made
            self._by_name["encoder_hidden_states"] = np.repeat(hidden, beams, axis=0)
        else:
            states = made
        self._states = [np.repeat(state, beams, axis=0) for state in states]
        declared = self._decoder.graph.input
        self._named = [info.name for info in declared[1:] if info.name in _OF_THE_ENCODER]
        self._grows = len(self._decoder.graph.output) - 1
        if self._logits is None:  # the decoder has read nothing yet
            empty = []
            for info in declared[1 + len(self._named) :][: self._grows]:
                _, heads, _, size = _declared(info, 4)
                empty.append(_typed(np.zeros((len(start) * beams, heads, 0, size), np.float32), info))
            self._states = empty + self._states
        if 1 + len(self._named) + len(self._states) != len(declared):
            raise ValueError(
                f"the decoder has {len(declared)} inputs, for its tokens, {len(self._named)} values of the "
                f"encoder's and {len(self._states)} states"
            )
        shape = declared[0].type.tensor_type.shape.dim
        self._reads_all = not (len(shape) == 2 and shape[1].dim_value == 1)

    def __call__(self, tokens: np.ndarray, rows: np.ndarray | None, last: np.ndarray) -> np.ndarray:
        if self._logits is not None:
            logits, self._logits = self._logits, None
            return _last(logits, len(tokens))
        if rows is not None:
            grown = [np.take(state, rows, axis=0) for state in self._states[: self._grows]]
            self._states[: self._grows] = grown
        declared = self._decoder.graph.input
        ids = _typed(tokens if self._reads_all else last[:, None], declared[0])
        named = [
            _typed(self._by_name[name], info) for name, info in zip(self._named, declared[1:], strict=False)
        ]
        made = self._decoder.run([ids, *named, *self._states], self._implicit)
        logits, *self._states[: self._grows] = _tensors(made)
        return _last(logits, len(tokens))


_OF_THE_ENCODER = ("encoder_input_ids", "encoder_attention_mask", "encoder_hidden_states")


# ---- operators


class BeamSearch(_Node):
    """The likeliest texts, of which several are kept at each step."""

    names: ClassVar[Sequence[str]] = (
        "input_ids",
        "max_length",
        "min_length",
        "num_beams",
        "num_return_sequences",
        "length_penalty",
        "repetition_penalty",
        "vocab_mask",
        "prefix_vocab_mask",
        "attention_mask",
        "decoder_input_ids",
        "logits_processor",
    )

    def __init__(self, node: ControlNode) -> None:
        super().__init__(node)
        self._stops_early = bool(self._number("early_stopping", 0))
        self._keeps_scores = node.wanted[2:3] == (True,)
        self._start = self._number("decoder_start_token_id", -1)

    def __call__(self, values: Sequence[Value], implicit: Implicit) -> list[Value]:
        """sequences, int32 of [batch, returned, max_length]; their scores; each step's scores."""
        inputs = _Inputs(self.names, values)
        ids = inputs.needed("input_ids", 3 if self.model_type == _WHISPER else 2)
        tokens = self._first_tokens(inputs, ids)
        batch, start = tokens.shape
        most, fewest = self.lengths(inputs, start)
        beams = inputs.number("num_beams", 1)
        returned = inputs.number("num_return_sequences", 1)
        if not 1 <= beams <= _MOST_BEAMS:
            raise ValueError(f"num_beams must be 1 to {_MOST_BEAMS}, got {beams}")
        if not 1 <= returned <= beams:
            raise ValueError(f"num_return_sequences must be 1 to num_beams {beams}, got {returned}")
        step = self._decoder_of(inputs, ids, tokens, beams, implicit)
        tokens = np.repeat(tokens, beams, axis=0)
        found = [Hypotheses(beams, inputs.number("length_penalty", 1.0)) for _ in range(batch)]
        sums = np.zeros((batch, beams), np.float32)
        sums[:, 1:] = -1e9  # else all beams would be the same
        changes: list[ChangeScores] | None = None
        steps: list[np.ndarray] = []
        rows: np.ndarray | None = None
        last, count, vocabulary = tokens[:, -1], 0, 0
        while tokens.shape[1] < most:
            logits, vocabulary = self.within_vocabulary(step(tokens, rows, last))
            if changes is None:
                changes = self._changes(inputs, tokens, fewest, (batch, vocabulary))
            scores = token_scores.log_softmax(logits)
            count += 1
            for change in changes:
                change(scores, tokens, count)
            scores = scores.reshape(batch, beams, vocabulary) + sums[:, :, None]
            if self._keeps_scores:
                steps.append(scores)
            rows, last, sums = self._choose(scores, tokens, found)
            tokens = np.concatenate([tokens[rows], last[:, None]], axis=1)
            rows = None if beams == 1 else rows
            if all(one.is_done for one in found):
                break
        return self._results(found, tokens, sums, steps, (batch, returned, most, start), vocabulary)

    def _first_tokens(self, inputs: _Inputs, ids: np.ndarray) -> np.ndarray:
        """What each text begins with, int32 of [batch, length]."""
        if self.model_type == _GPT:
            return ids.astype(_INT32)
        given = inputs.tensor("decoder_input_ids", 2)
        if given is not None and self.model_type == _WHISPER:
            return given.astype(_INT32)
        if self._start < 0:
            raise ValueError("decoder_start_token_id must be there, and not negative")
        return np.full((len(ids), 1), self._start, _INT32)

    def _decoder_of(
        self, inputs: _Inputs, ids: np.ndarray, tokens: np.ndarray, beams: int, implicit: Implicit
    ) -> Step:
        mask = inputs.tensor("attention_mask")
        if self.model_type == _GPT:
            return _Gpt(self, ids, mask, beams, implicit)
        if self.model_type == _WHISPER:
            return _EncoderDecoder(self, ids, None, tokens, beams, implicit)
        if mask is None:
            # Padding in front of the text; one behind it may be its end.
            mask = np.logical_or.accumulate(ids != self.padding, axis=1).astype(_INT32)
        return _EncoderDecoder(self, ids, mask, tokens, beams, implicit)

    def _changes(
        self, inputs: _Inputs, tokens: np.ndarray, fewest: int, shape: tuple[int, int]
    ) -> list[ChangeScores]:
        made = self.changes(inputs, tokens, fewest, shape, inputs.number("temperature", 1.0))
        if self.model_type == _WHISPER and inputs.number("logits_processor", 0) == 1:
            made.append(token_scores.keep_timestamps_in_order(self._timestamps()))
        return made

    def _timestamps(self) -> TimestampTokens:
        """As Whisper's multilingual vocabulary has them, which begin with the end of a text."""
        end = self.end
        return TimestampTokens(end, end + 1, 50358, 50359, end + 105, end + 106, end + 107)

    def _choose(
        self, scores: np.ndarray, tokens: np.ndarray, found: Sequence[Hypotheses]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The rows to go on from, their next tokens, and the sums of logarithms: [N], [N], [batch, beams]."""
        batch, beams, vocabulary = scores.shape
        rows, last = np.zeros(batch * beams, np.int64), np.full(batch * beams, self.padding, _INT32)
        sums = np.zeros((batch, beams), np.float32)
        chosen = [token_scores.best(scores[at].reshape(-1), 2 * beams) for at in range(batch)]
        for at, (one, flat) in enumerate(zip(found, chosen, strict=True)):
            if one.is_done:
                continue
            kept = 0
            for place, index in enumerate(flat):
                beam, token = divmod(int(index), vocabulary)
                row, score = at * beams + beam, scores[at, beam, token]
                if token == self.end:
                    if place < beams:
                        one.add(tokens[row], score)
                    continue
                rows[at * beams + kept], last[at * beams + kept], sums[at, kept] = row, token, score
                kept += 1
                if kept == beams:
                    break
            if kept < beams:
                raise ValueError(f"a vocabulary of {vocabulary} is too small for {beams} beams")
            best = scores[at].reshape(-1)[flat[0]]
            if one.are_enough and (self._stops_early or not one.can_improve(best, tokens.shape[1])):
                one.is_done = True
        return rows, last, sums

    def _results(
        self,
        found: Sequence[Hypotheses],
        tokens: np.ndarray,
        sums: np.ndarray,
        steps: Sequence[np.ndarray],
        sizes: tuple[int, int, int, int],
        vocabulary: int,
    ) -> list[Value]:
        batch, returned, most, start = sizes
        beams = sums.shape[1]
        sequences = np.full((batch, returned, most), self.padding, _INT32)
        scores = np.zeros((batch, returned), np.float32)
        for at, one in enumerate(found):
            if not one.is_done:
                for beam in range(beams):
                    one.add(tokens[at * beams + beam], sums[at, beam])
            for place, (score, text) in enumerate(one.best(returned)):
                sequences[at, place, : len(text)] = text
                scores[at, place] = score
        if not self._keeps_scores:
            return [sequences, scores]
        each = np.zeros((most - start, batch, beams, vocabulary), np.float32)
        for place, step in enumerate(steps):
            each[place] = step
        return [sequences, scores, each]


class WhisperBeamSearch(BeamSearch):
    """BeamSearch of a Whisper model, with the numbers of its tokens."""

    names: ClassVar[Sequence[str]] = (
        *BeamSearch.names,
        "cross_qk_layer_head",
        "extra_decoding_ids",
        "temperature",
    )
    _usual_model_type: ClassVar[int] = _WHISPER

    def __init__(self, node: ControlNode) -> None:
        super().__init__(node)
        if self._number("decoder_output_cross_qk", 0):
            raise NotImplementedError("decoder_output_cross_qk is for decoders that are written for CUDA")

    def _changes(
        self, inputs: _Inputs, tokens: np.ndarray, fewest: int, shape: tuple[int, int]
    ) -> list[ChangeScores]:
        extra = inputs.tensor("extra_decoding_ids")
        if extra is not None and extra.size:
            raise NotImplementedError("extra_decoding_ids is for decoders that are written for CUDA")
        return super()._changes(inputs, tokens, fewest, shape)

    def _timestamps(self) -> TimestampTokens:
        usual = super()._timestamps()
        number = self._number
        return TimestampTokens(
            usual.end,
            number("decoder_start_token_id", usual.start),
            number("translate_token_id", usual.translate),
            number("transcribe_token_id", usual.transcribe),
            number("start_of_lm_token_id", usual.start_of_lm),
            number("no_timestamps_token_id", usual.no_timestamps),
            number("beginning_timestamp_token_id", usual.first),
        )


class GreedySearch(_Node):
    """One text for each of the batch: at each step the likeliest token."""

    names: ClassVar[Sequence[str]] = (
        "input_ids",
        "max_length",
        "min_length",
        "repetition_penalty",
        "vocab_mask",
        "prefix_vocab_mask",
        "attention_mask",
    )

    def __init__(self, node: ControlNode) -> None:
        super().__init__(node)
        if self.model_type != _GPT:
            raise NotImplementedError(f"model_type {self.model_type}: this operator has 0 (GPT) alone")
        self._temperature = 1.0

    def __call__(self, values: Sequence[Value], implicit: Implicit) -> list[Value]:
        """sequences, int32 of [batch, max_length]; for Sampling the last step's scores, too."""
        inputs = _Inputs(self.names, values)
        tokens = inputs.needed("input_ids", 2).astype(_INT32)
        batch, start = tokens.shape
        most, fewest = self.lengths(inputs, start)
        step = _Gpt(self, tokens, inputs.tensor("attention_mask"), 1, implicit)
        choose = self._chooser(inputs)
        has_ended = np.zeros(batch, bool)
        changes: list[ChangeScores] | None = None
        scores = np.zeros((batch, max(self.vocabulary, 0)), np.float32)
        last, count = tokens[:, -1], 0
        while tokens.shape[1] < most and not has_ended.all():
            logits, vocabulary = self.within_vocabulary(step(tokens, None, last))
            if changes is None:
                changes = self.changes(inputs, tokens, fewest, (batch, vocabulary), self._temperature)
            count += 1
            scores = logits.copy()
            for change in changes:
                change(scores, tokens, count)
            last = choose(scores).astype(_INT32)
            has_ended |= last == self.end
            last[has_ended] = self.padding
            tokens = np.concatenate([tokens, last[:, None]], axis=1)
        sequences = np.full((batch, most), self.padding, _INT32)
        sequences[:, : tokens.shape[1]] = tokens
        return [sequences, scores]

    def _chooser(self, inputs: _Inputs) -> Callable[[np.ndarray], np.ndarray]:
        return lambda scores: scores.argmax(axis=1)


class Sampling(GreedySearch):
    """One text for each of the batch: at each step a token at random, the likelier the oftener."""

    names: ClassVar[Sequence[str]] = (*GreedySearch.names, "presence_mask", "seed")

    def __init__(self, node: ControlNode) -> None:
        super().__init__(node)
        self._temperature = self._real("temperature", 1.0)
        self._top = self._real("top_p", 0.0)
        self._filtered = np.float32(self._real("filter_value", -1e20))
        self._fewest = self._number("min_tokens_to_keep", 0)
        self._is_custom = bool(self._number("custom", 0))

    def _chooser(self, inputs: _Inputs) -> Callable[[np.ndarray], np.ndarray]:
        seed = inputs.number("seed", None)
        numbers = np.random.default_rng(None if seed is None else abs(int(seed)))

        def choose(scores: np.ndarray) -> np.ndarray:
            self._filter(scores)
            odds = np.cumsum(token_scores.softmax(scores.astype(np.float64)), axis=1)
            drawn = numbers.random(len(scores)) * odds[:, -1]
            return np.array(
                [np.searchsorted(row, one, side="right") for row, one in zip(odds, drawn, strict=True)]
            )

        return choose

    def _filter(self, scores: np.ndarray) -> None:
        """Lets only the likeliest tokens stay, which together are as likely as ``top_p``."""
        order = np.argsort(-scores if self._is_custom else scores, axis=1, kind="stable")
        odds = np.cumsum(token_scores.softmax(np.take_along_axis(scores, order, axis=1)), axis=1)
        if self._is_custom:
            # The token that goes over it stays.
            gone = np.concatenate([np.zeros((len(scores), 1), bool), odds[:, :-1] > self._top], axis=1)
        else:
            gone = odds <= 1 - self._top
            gone[:, gone.shape[1] - self._fewest :] = False
        rows, places = np.nonzero(gone)
        scores[rows, order[rows, places]] = self._filtered


GENERATION: Mapping[str, Callable[[ControlNode], Callable[[Sequence[Value], Implicit], list[Value]]]] = {
    "BeamSearch": BeamSearch,
    "GreedySearch": GreedySearch,
    "Sampling": Sampling,
    "WhisperBeamSearch": WhisperBeamSearch,
}
"""What makes the operators of com.microsoft that generate texts."""
