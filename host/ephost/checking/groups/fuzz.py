"""A model drawn at random, by the seed: what ``--fuzz`` does again and again."""

from __future__ import annotations

from ephost.checking.fuzzing import draw
from ephost.checking.judging import require_equal
from ephost.checking.registry import check
from ephost.checking.subject import Subject, reference

_FLOOR = 2e-5  # numbers near 1 that nearly cancel out leave as much


@check("fuzz.model", 5, needs="devices")
def _model(subject: Subject) -> None:
    """A model drawn at random gives the right numbers, three times, with other sizes where it may."""
    drawn = draw(subject.seed)
    session = subject.open(drawn.model, optimized=subject.seed % 2 == 1)
    subject.numbers |= {"claimed": subject.groups(session), "operators": drawn.op_types}
    for number, feeds in enumerate(drawn.feeds):
        what = f"run {number + 1} of the model of seed {subject.seed}"
        got = subject.run(session, feeds)
        for precision in require_equal(got, reference(drawn.model, feeds), what, drawn.op_types, _FLOOR):
            subject.warn(f"{what}: as exact as {precision} allows, and not float32")
