"""The hot way from Python into a run and back: host/native/call.c."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

def setup(status_error: Callable[[int, str], BaseException], dtypes: Mapping[int, Any], /) -> None: ...
def finalize() -> None: ...
def value_to_object(address: int, /) -> Any: ...
def value_from_object(value: Any, /) -> int: ...
def object_address(value: object, /) -> int: ...

class Runner:
    def __new__(
        cls,
        plan: int,
        owner: object,
        convert: Callable[[int, Any], Any],
        feed_error: Callable[[Mapping[str, Any]], BaseException],
        inputs: tuple[tuple[str, int, Sequence[int] | None, bool], ...],
        output_names: tuple[str, ...],
        /,
    ) -> Runner: ...
    def run(
        self, output_names: Sequence[str] | None, feed: Mapping[str, Any], options: Any = ..., /
    ) -> list[Any]: ...
    def run_values(
        self, feed: Mapping[str, Any], outputs: Sequence[tuple[str, int]], options: Any, /
    ) -> list[int]: ...
