"""What becomes of a decoder's scores before a token is chosen, and how beams are kept.

Scores are float32 of [rows, vocabulary], changed in place; ``tokens`` are the int32 ones of each row so far,
[rows, length]. Facts about the order and the details are those of onnxruntime's operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ephost.records import Record

FORBIDDEN = np.finfo(np.float32).min
"""The score of a token that must not be chosen."""
ChangeScores = Callable[[np.ndarray, np.ndarray, int], None]
"""Changes scores, given the tokens so far and which step it is, from 1."""


def penalize_repetition(penalty: float) -> ChangeScores:
    """Tokens that a row has already become less likely, for a penalty over 1."""

    def change(scores: np.ndarray, tokens: np.ndarray, step: int) -> None:
        found = np.take_along_axis(scores, tokens, axis=1)
        weighed = np.where(found < 0, found * np.float32(penalty), found / np.float32(penalty))
        np.put_along_axis(scores, tokens, weighed, axis=1)

    return change


def forbid_repeated(size: int) -> ChangeScores:
    """No row may have the same ``size`` tokens in a row twice."""

    def change(scores: np.ndarray, tokens: np.ndarray, step: int) -> None:
        if tokens.shape[1] < size:
            return
        windows = np.lib.stride_tricks.sliding_window_view(tokens, size, axis=1)
        last = tokens[:, tokens.shape[1] - size + 1 :]
        rows, places = np.nonzero((windows[:, :, :-1] == last[:, None, :]).all(axis=2))
        scores[rows, windows[rows, places, -1]] = FORBIDDEN

    return change


def forbid_masked(mask: np.ndarray, first_step_only: bool = False) -> ChangeScores:
    """Tokens whose entry is 0, in a mask of [vocabulary] or of [batch, vocabulary], are not chosen."""

    def change(scores: np.ndarray, tokens: np.ndarray, step: int) -> None:
        if step > 1 and first_step_only:
            return
        wide = mask if mask.ndim == 1 else np.repeat(mask, len(scores) // len(mask), axis=0)
        scores[np.broadcast_to(wide == 0, scores.shape)] = FORBIDDEN

    return change


def forbid_end(length: int, end: int) -> ChangeScores:
    """The token that ends a text is not chosen before there are so many."""

    def change(scores: np.ndarray, tokens: np.ndarray, step: int) -> None:
        if tokens.shape[1] < length:
            scores[:, end] = FORBIDDEN

    return change


def divide(temperature: float) -> ChangeScores:
    """Scores come closer to each other for a temperature over 1."""

    def change(scores: np.ndarray, tokens: np.ndarray, step: int) -> None:
        scores /= np.float32(temperature)

    return change


def penalize_presence(mask: np.ndarray, penalty: float) -> ChangeScores:
    """Takes the penalty off the tokens of [batch, vocabulary] that the mask marks."""

    def change(scores: np.ndarray, tokens: np.ndarray, step: int) -> None:
        scores -= mask.astype(np.float32) * np.float32(penalty)

    return change


class TimestampTokens(Record, frozen=True):
    """Tokens of Whisper's that are no text."""

    end: int
    start: int
    translate: int
    transcribe: int
    start_of_lm: int
    no_timestamps: int
    first: int  # of the timestamps, which go on to the vocabulary's end
    latest_at_first = 50  # how many timestamps after the first one the first may be


def keep_timestamps_in_order(ids: TimestampTokens) -> ChangeScores:
    """Whisper's timestamps come in pairs around text, and never go back."""

    def change(scores: np.ndarray, tokens: np.ndarray, step: int) -> None:
        scores[:, [i for i in (ids.no_timestamps, ids.start_of_lm) if 0 <= i < scores.shape[1]]] = FORBIDDEN
        for row, seen in zip(scores, tokens, strict=True):
            _keep_in_order(ids, row, seen)

    return change


def _keep_in_order(ids: TimestampTokens, row: np.ndarray, seen: np.ndarray) -> None:
    stamps = np.nonzero(seen >= ids.first)[0]
    begin = int(stamps[0]) + 1 if len(stamps) else len(seen)
    if len(seen) > begin:
        others = (ids.start, ids.translate, ids.transcribe)
        row[[token for token in others if 0 <= token < len(row)]] = FORBIDDEN
    is_last = bool(seen[-1] >= ids.first)
    is_paired = len(seen) <= begin or bool(seen[-2] >= ids.first)
    if is_last and is_paired:
        row[ids.first :] = FORBIDDEN
    elif is_last:
        row[: ids.end] = FORBIDDEN
    if len(stamps):
        newest = int(seen[stamps[-1]])
        row[ids.first : newest + (0 if is_last and not is_paired else 1)] = FORBIDDEN
    if len(seen) == begin:
        row[ids.first + ids.latest_at_first + 1 :] = FORBIDDEN
    # Where the timestamps together are likelier than each text token, one of them it is.
    later = row[ids.first :]
    top = later.max(initial=FORBIDDEN)
    if top > FORBIDDEN and top + np.log(np.exp(later - top).sum()) > row[: ids.first].max():
        row[: ids.first] = FORBIDDEN


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """Of each row."""
    shifted: np.ndarray = scores - scores.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted


def softmax(scores: np.ndarray) -> np.ndarray:
    """Along the last axis."""
    powers: np.ndarray = np.exp(scores - scores.max(axis=-1, keepdims=True))
    powers /= powers.sum(axis=-1, keepdims=True)
    return powers


def best(scores: np.ndarray, count: int) -> np.ndarray:
    """The indices of the ``count`` best of a row, the best one first; of equal ones the first."""
    if count >= len(scores):
        candidates = np.arange(len(scores))
    else:
        candidates = np.nonzero(scores >= np.partition(scores, len(scores) - count)[-count])[0]
    return candidates[np.lexsort((candidates, -scores[candidates]))][:count]


class Hypotheses:
    """The finished texts of one entry of a batch: as many as there are beams, the best ones."""

    def __init__(self, beams: int, length_penalty: float) -> None:
        self._beams = beams
        self._length_penalty = np.float32(length_penalty)
        self._kept: list[tuple[np.float32, np.ndarray]] = []  # the best first
        self.is_done = False

    def _score(self, sum_of_logs: np.float32, length: int) -> np.float32:
        return np.float32(sum_of_logs / np.power(np.float32(length), self._length_penalty))

    def add(self, tokens: np.ndarray, sum_of_logs: np.float32) -> None:
        """Keep a text if it is one of the best; of equal ones the first is better."""
        score = self._score(sum_of_logs, len(tokens))
        at = len(self._kept)
        while at > 0 and score > self._kept[at - 1][0]:
            at -= 1
        self._kept.insert(at, (score, tokens))
        del self._kept[self._beams :]

    @property
    def are_enough(self) -> bool:
        """Whether there is one for each beam."""
        return len(self._kept) == self._beams

    def can_improve(self, sum_of_logs: np.float32, length: int) -> bool:
        """Whether a text of this length and score would be better than the worst."""
        return bool(self._kept[-1][0] < self._score(sum_of_logs, length))

    def best(self, count: int) -> Sequence[tuple[np.float32, np.ndarray]]:
        """Score and tokens of the best."""
        return self._kept[:count]
