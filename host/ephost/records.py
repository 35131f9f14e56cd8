"""Classes that are a few fields: what dataclasses are, without what it takes to make those.

``dataclasses`` writes a class's methods as text and compiles them whenever the class is made, which takes up
to half a millisecond for each. The modules that open a session have thirty such classes. Here all classes
share their methods, and C sets the fields (``host/native/records.c``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

from ephost._bindings import call

_R = TypeVar("_R", bound="Record")


class _Made:
    """Stands in a class for a default that each object gets a new one of."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def made_by(*, default_factory: Callable[[], Any]) -> Any:
    """The default of a field of which each object has its own."""
    return _Made(default_factory)


@dataclass_transform(eq_default=False, field_specifiers=(made_by,))
class _RecordType(type):
    _fields: tuple[str, ...]
    _defaults: dict[str, Any]
    _factories: dict[str, Callable[[], Any]]  # of the defaults that each object gets a new one of

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], frozen: bool = False
    ) -> Any:
        own = [field for field in namespace.get("__annotations__", ()) if not field.startswith("__")]
        defaults = {field: namespace.pop(field) for field in own if field in namespace}
        namespace["__slots__"] = tuple(own)
        if frozen:
            namespace.update(__setattr__=_refused, __delattr__=_refused, __eq__=_equals)
            namespace.setdefault("__hash__", _hash)  # what has lists says itself what it is hashed by
        cls = super().__new__(mcs, name, bases, namespace)
        above = [base for base in bases if isinstance(base, _RecordType)]
        cls._fields = tuple(field for base in above for field in base._fields) + tuple(own)
        cls._defaults = {key: value for base in above for key, value in base._defaults.items()}
        cls._factories = {key: make for base in above for key, make in base._factories.items()}
        for field, value in defaults.items():
            if type(value) is _Made:
                cls._factories[field] = value.make
            else:
                cls._defaults[field] = value
        return cls

    def __init__(cls, *_: Any, **__: Any) -> None:
        """Nothing that is not done yet."""


class Record(call.Fields, metaclass=_RecordType):  # type: ignore[misc]
    """What has fields: those that its annotations name, with the values that they have there as defaults.

    With ``frozen=True`` no field is set again, and two with equal fields are equal.
    """

    def __repr__(self) -> str:
        fields = ", ".join(f"{field}={getattr(self, field)!r}" for field in type(self)._fields)
        return f"{type(self).__name__}({fields})"

    def __reduce__(self) -> Any:
        return type(self), tuple(getattr(self, field) for field in type(self)._fields)


def _refused(self: Record, field: str, *_: Any) -> None:
    raise AttributeError(f"the field '{field}' of {type(self).__name__} cannot be set")


def _equals(self: Record, other: object) -> Any:
    if type(self) is not type(other):
        return NotImplemented
    return all(getattr(self, field) == getattr(other, field) for field in type(self)._fields)


def _hash(self: Record) -> int:
    return hash(tuple(getattr(self, field) for field in type(self)._fields))


def replaced(record: _R, **changes: Any) -> _R:
    """A record with the same fields, but for these."""
    kept = {field: getattr(record, field) for field in type(record)._fields}
    return type(record)(**kept | changes)
