"""What becomes of a check: its verdict, and what it says for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PASS, WARNING, SKIPPED = "pass", "warning", "skipped"
FAILED, CRASHED, TIMED_OUT = "failed", "crashed", "timed out"
VERDICTS = (PASS, WARNING, SKIPPED, FAILED, CRASHED, TIMED_OUT)
WRONG = frozenset([FAILED, CRASHED, TIMED_OUT])
PARTS = "taken as"
"""Among an outcome's numbers: what the plugin ran of the body of the function that is checked."""


class Skip(Exception):
    """A check cannot be done with this plugin; the text says why."""


class Failure(Exception):
    """The plugin does not do what the check asks for; the text says what it does."""

    def __init__(self, text: str, **numbers: Any) -> None:
        super().__init__(text)
        self.numbers = numbers


@dataclass
class Outcome:
    """A check's verdict in one host.

    ``stage`` is what was being done when it ended badly; ``log`` what the process printed; ``expected`` the
    reason that a configuration gives for a verdict that is wrong.
    """

    check: str
    host: str
    status: str
    message: str = ""
    stage: str = ""
    seconds: float = 0.0
    log: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    seed: int = 0
    expected: str = ""

    @property
    def group(self) -> str:
        """The group of the check."""
        return self.check.partition(".")[0]

    @property
    def is_wrong(self) -> bool:
        """Whether it counts against the plugin."""
        return self.status in WRONG and not self.expected

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return dict(vars(self))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Outcome:
        """What :meth:`to_dict` gave."""
        return cls(**data)
