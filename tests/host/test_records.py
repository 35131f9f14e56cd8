"""Records are what dataclasses are, as far as the host needs it."""

from __future__ import annotations

import copy
import pickle

import pytest
from ephost.records import Record, made_by, replaced


class Plain(Record):
    """Fields."""

    one: int
    two: str = "2"
    many: list[int] = made_by(default_factory=list)


class More(Plain):
    """More fields."""

    three: float = 0.5


class Frozen(Record, frozen=True):
    """Fields that are not set again."""

    one: int
    two: str = "2"


def test_fields_are_set_by_place_or_by_name_or_have_defaults() -> None:
    made = Plain(1)
    assert (made.one, made.two, made.many) == (1, "2", [])
    assert Plain(1).many is not made.many
    assert (Plain(two="b", one=2).two, Plain(1, "c", [3]).many) == ("b", [3])
    assert (More(1, three=2.0).three, More(1).three, More(1, "b", [], 3.0).three) == (2.0, 0.5, 3.0)
    made.one = 5
    assert made.one == 5
    assert repr(made) == "Plain(one=5, two='2', many=[])"


@pytest.mark.parametrize(
    ("values", "named", "said"),
    [
        ((), {}, "Plain lacks a value for 'one'"),
        ((1, "2", [], 4), {}, "Plain has 3 fields, not 4"),
        ((1,), {"one": 2}, "no field 'one', or has it twice"),
        ((1,), {"four": 2}, "no field 'four'"),
    ],
)
def test_wrong_arguments_are_errors(values: tuple, named: dict, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        Plain(*values, **named)


def test_there_are_no_other_attributes() -> None:
    with pytest.raises(AttributeError):
        Plain(1).other = 2  # type: ignore[attr-defined]


def test_frozen_ones_are_equal_by_their_fields_and_stay_as_they_are() -> None:
    assert Frozen(1) == Frozen(1, "2") != Frozen(2)
    assert len({Frozen(1), Frozen(1), Frozen(2)}) == 2
    assert Frozen(1) != (1, "2")
    with pytest.raises(AttributeError, match="'one' of Frozen"):
        Frozen(1).one = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match="'one' of Frozen"):
        del Frozen(1).one
    assert Plain(1) != Plain(1)


def test_copies_have_the_same_fields() -> None:
    assert copy.copy(Frozen(3, "b")) == pickle.loads(pickle.dumps(Frozen(3, "b"))) == Frozen(3, "b")
    assert replaced(Frozen(3, "b"), one=4) == Frozen(4, "b")
    with pytest.raises(TypeError, match="no field 'three'"):
        replaced(Frozen(3), three=4)
