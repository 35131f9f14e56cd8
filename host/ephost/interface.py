"""What a model takes and gives, and what is wrong with a feed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ephost._bindings import abi_element_type, dtype_of
from ephost.errors import InvalidArgument
from ephost.feeds import fit, required_dims
from ephost.model.graph import TensorType, Value


class Interface:
    """What a model takes and gives, and what is wrong with a feed. Knows nothing of the session, so that a
    session is gone as soon as its last user lets go of it.
    """

    def __init__(
        self,
        inputs: Sequence[Value],
        required: int,
        outputs: Sequence[Value],
        sparse_outputs: Collection[str] = (),
    ) -> None:
        self.inputs = list(inputs)  # those that an initializer gives a default come last
        self.required = required
        self.outputs = list(outputs)
        self.output_names = [value.name for value in outputs]
        self.output_index = {name: i for i, name in reversed(list(enumerate(self.output_names)))}
        self.sparse_outputs = frozenset(sparse_outputs)
        # An optional's default is to hold nothing.
        self.must_be_fed = [value.name for value in self.inputs[:required] if not _is_optional(value)]
        self._index = {value.name: at for at, value in enumerate(self.inputs)}

    def specifications(self) -> tuple[tuple[str, int, tuple[int, ...] | None, bool, bool], ...]:
        """What the call module checks a feed by: name, element type, dimensions, whether it must be fed,
        and whether it holds nothing where it is not.
        """
        specs = []
        for at, value in enumerate(self.inputs):
            element_type, dims = 0, None
            if isinstance(value.type, TensorType):
                element_type = abi_element_type(value.type.element_type)
                dtype_of(value.type.element_type)
                required = required_dims(value.type)
                if required is not None:
                    dims = tuple(d if isinstance(d, int) else -1 for d in required)
            must, may = at < self.required, _is_optional(value)
            specs.append((value.name, element_type, dims, must and not may, must and may))
        return tuple(specs)

    def convert(self, index: int, value: Any) -> Any:
        """The feed as an array or OrtValue of the right type; where all but plain fitting arrays go.

        Raises:
            InvalidArgument: the wrong type, rank or dimension, naming the input.
        """
        return fit(self.inputs[index].name, self.inputs[index].type, value)

    def check_input_name(self, name: str) -> None:
        """Raise InvalidArgument for a name that is no input."""
        if not isinstance(name, str) or name not in self._index:
            raise self._unknown_input(name)

    def check_output_name(self, name: str) -> None:
        """Raise InvalidArgument for a name that is no output."""
        if not isinstance(name, str) or name not in self.output_index:
            raise self.feed_error(name)

    def feed_error(self, feed: Any) -> Exception:
        """The exception for a feed with missing or unknown names, or for the name of an unknown output."""
        if not isinstance(feed, Mapping):
            return InvalidArgument(
                f"Invalid output name: {feed}. The model's outputs are {self.output_names}"
            )
        names = list(feed)
        missing = [name for name in self.must_be_fed if name not in feed]
        if missing:
            return ValueError(f"Required inputs ({missing}) are missing from input feed ({names}).")
        unknown = [name for name in names if name not in self._index]
        unknown.sort(key=lambda name: feed[name] is None)  # which is fed under any name
        return self._unknown_input(unknown[0] if unknown else "?")

    def _unknown_input(self, name: Any) -> Exception:
        known = [value.name for value in self.inputs]
        return InvalidArgument(f"Invalid input name: {name}. The model's inputs are {known}")


def _is_optional(value: Value) -> bool:
    """Whether it is an optional."""
    kind = value.type
    return kind is not None and not isinstance(kind, TensorType) and kind.HasField("optional_type")
