"""A configuration file: failures that are expected, with reasons, and time limits.

    [expected]
    "numbers.Softmax" = "opset 11 is not done yet"

    [expected.onnxruntime]  # in that host alone
    "shapes.rows-0" = "tensors without elements have no memory there"

    [timeout]
    "numbers.*" = 120

Patterns match names of checks as ``--only`` does.
"""

from __future__ import annotations

import fnmatch
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from ephost.checking.registry import HOSTS
from ephost.checking.verdicts import PASS, WARNING, WRONG, Outcome
from ephost.errors import InvalidArgument
from ephost.suggestions import did_you_mean

_T = TypeVar("_T")
_SECTIONS = ("expected", "timeout")


@dataclass(frozen=True)
class Settings:
    """What a configuration says, by patterns of names."""

    expected: Mapping[str, str] = field(default_factory=dict)
    expected_in: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # in one host
    timeout: Mapping[str, float] = field(default_factory=dict)

    def judged(self, outcome: Outcome) -> Outcome:
        """The outcome with the reason for which it was expected; a pass that was not is a warning."""
        reason = _find(self.expected_in.get(outcome.host, {}), outcome.check)
        if reason is None:
            reason = _find(self.expected, outcome.check)
        if reason is None:
            return outcome
        if outcome.status in WRONG:
            return replace(outcome, expected=reason)
        if outcome.status == PASS:
            text = f"passes, where the configuration expects a failure: {reason}"
            return replace(outcome, status=WARNING, message=text, notes=[*outcome.notes, text])
        return outcome

    def timeout_of(self, name: str, default: float) -> float:
        """Seconds that a check may take."""
        found = _find(self.timeout, name)
        return default if found is None else found


def _find(entries: Mapping[str, _T], name: str) -> _T | None:
    return next((value for pattern, value in entries.items() if fnmatch.fnmatchcase(name, pattern)), None)


def read_settings(path: str, names: Iterable[str]) -> Settings:
    """Read a configuration file.

    Raises:
        InvalidArgument: it is no TOML, has something that is unknown, or names no check.
        OSError: it cannot be read.
    """
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{path} is no TOML: {error}") from None
    known = list(names)
    for section, entries in data.items():
        if section not in _SECTIONS or not isinstance(entries, dict):
            raise InvalidArgument(
                f"{path}: there is no section [{section}]{did_you_mean(section, _SECTIONS)}; there are "
                f"{', '.join(_SECTIONS)}"
            )
        hosts = HOSTS if section == "expected" else ()
        for host in [key for key, value in entries.items() if isinstance(value, dict)]:
            if host not in hosts:
                raise InvalidArgument(
                    f"{path}: there is no section [{section}.{host}]{did_you_mean(host, hosts)}"
                )
        named = [(section, *entry) for entry in entries.items() if entry[0] not in hosts]
        named += [(f"{section}.{host}", *each) for host in hosts for each in entries.get(host, {}).items()]
        for where, pattern, value in named:
            if not any(fnmatch.fnmatchcase(name, pattern) for name in known):
                raise InvalidArgument(
                    f"{path}: [{where}] {pattern!r} names no check{did_you_mean(pattern, known)}"
                )
            if section == "expected" and not (isinstance(value, str) and value.strip()):
                raise InvalidArgument(f"{path}: [{where}] {pattern!r} needs a reason, a text")
            if section == "timeout" and (
                isinstance(value, bool) or not isinstance(value, int | float) or value <= 0
            ):
                raise InvalidArgument(f"{path}: [timeout] {pattern!r} is a number of seconds, not {value!r}")
    expected = data.get("expected", {})
    return Settings(
        {pattern: reason for pattern, reason in expected.items() if pattern not in HOSTS},
        {host: expected[host] for host in HOSTS if host in expected},
        data.get("timeout", {}),
    )
