"""What came of all checks: tables for a terminal, JSON, and JUnit's XML."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from ephost import saving
from ephost.checking.registry import GROUPS, all_checks
from ephost.checking.subject import Given
from ephost.checking.verdicts import FAILED, PARTS, SKIPPED, VERDICTS, WARNING, WRONG, Outcome
from ephost.tables import Table, printable, time_text

_NO_XML = re.compile("[\ufffe\uffff]")
SCHEMA = 1  # of the JSON; it changes where a reader of the old one would go wrong


@dataclass
class Report:
    """The outcomes of a plugin's checks, in one host or two."""

    given: Given
    outcomes: list[Outcome]
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    level: int = 0
    seed: int = 0
    seconds: float = 0.0

    @property
    def wrong(self) -> list[Outcome]:
        """What counts against the plugin."""
        return [outcome for outcome in self.outcomes if outcome.is_wrong]

    @property
    def hosts(self) -> list[str]:
        """The hosts, in order."""
        return list(dict.fromkeys(outcome.host for outcome in self.outcomes))

    def counts(self, host: str = "", group: str = "") -> dict[str, int]:
        """How many outcomes there are of each verdict; those that were expected count apart."""
        made = dict.fromkeys([*VERDICTS, "expected"], 0)
        for outcome in self.outcomes:
            if host in ("", outcome.host) and group in ("", outcome.group):
                made["expected" if outcome.expected else outcome.status] += 1
        return made

    def headline(self) -> str:
        """One line: what the plugin is, and how many checks it passes."""
        told = []
        for host in self.hosts:
            counts = self.counts(host)
            there = ", ".join(f"{number} {verdict}" for verdict, number in counts.items() if number)
            told.append(there if len(self.hosts) == 1 else f"{host}: {there}")
        names = {str(fact["ep_name"]) for fact in self.facts.values() if fact.get("ep_name")}
        who = f"{self.given.name} ({', '.join(sorted(names))})" if names else self.given.name
        what = f"{who}: {'; '.join(told) or 'no check was done'}"
        return f"{what}, in {time_text(self.seconds)}"

    def tables(self) -> list[Table]:
        """The groups, what is wrong or unwise, where hosts differ, and what one of them alone can check."""
        tables = (self._groups(), self._bad(), self._warned(), self._differ(), self._one_sided())
        return [table for table in tables if table.rows]

    def _groups(self) -> Table:
        columns = ["group", *VERDICTS, "expected"]
        table = Table("Groups", columns, right=frozenset(columns[1:]))
        for group in GROUPS:
            counts = self.counts("", group)
            if any(counts.values()):
                if any(counts[verdict] for verdict in WRONG):
                    table.marked.add(len(table.rows))
                table.rows.append([group, *(str(number or "") for number in counts.values())])
        return table

    def _bad(self) -> Table:
        both = len(self.hosts) > 1
        table = Table("What is wrong", ["check", *(["host"] if both else []), "verdict", "what happened"])
        for outcome in self.wrong:
            host = [outcome.host] if both else []
            table.rows.append([outcome.check, *host, outcome.status, outcome.message])
        return table

    def _warned(self) -> Table:
        table = Table("Warnings", ["check", "what is unwise"])
        for outcome in self.outcomes:
            if outcome.status == WARNING:
                table.rows.append([outcome.check, outcome.message])
        return table

    def differences(self) -> list[tuple[str, dict[str, Outcome]]]:
        """The checks whose verdict is not the same in each host. What one could not check is no difference,
        unless it is wrong in the other.
        """
        return [
            (name, by_host)
            for name, by_host in self._unlike()
            if not _is_one_sided(outcome.status for outcome in by_host.values())
        ]

    def one_sided(self) -> list[tuple[str, list[str], str]]:
        """Host, checks and reason of what one host alone could check; what has one reason is one entry."""
        found: dict[tuple[str, str], list[str]] = {}
        for name, by_host in self._unlike():
            if not _is_one_sided(outcome.status for outcome in by_host.values()):
                continue
            (other,) = (outcome for outcome in by_host.values() if outcome.status == SKIPPED)
            (done,) = (outcome for outcome in by_host.values() if outcome.status != SKIPPED)
            reason = f"{other.host}: {other.message}"
            if PARTS in done.numbers:
                reason = (
                    f"{done.host} replaces the node by its function's body, of which the plugin takes nodes; "
                    f"{other.host} offers the node as it is, which the plugin does not take"
                )
            found.setdefault((done.host, reason), []).append(name)
        return [(host, names, reason) for (host, reason), names in found.items()]

    def _unlike(self) -> Iterator[tuple[str, dict[str, Outcome]]]:
        found: dict[str, dict[str, Outcome]] = {}
        for outcome in self.outcomes:
            found.setdefault(outcome.check, {})[outcome.host] = outcome
        for name, by_host in found.items():
            if len(by_host) > 1 and len({outcome.status for outcome in by_host.values()}) > 1:
                yield name, by_host

    def _differ(self) -> Table:
        table = Table("Where the hosts differ", ["check", *self.hosts, "what happened"])
        for name, by_host in self.differences():
            told = [f"{h}: {by_host[h].message}" for h in self.hosts if h in by_host and by_host[h].message]
            verdicts = [by_host[h].status if h in by_host else "" for h in self.hosts]
            table.rows.append([name, *verdicts, "; ".join(told)])
        return table

    def _one_sided(self) -> Table:
        table = Table("Checked in one host alone", ["host", "checks", "why not in the other"])
        table.rows += [[host, ", ".join(names), reason] for host, names, reason in self.one_sided()]
        return table

    def to_dict(self) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        from ephost import __version__

        checks = all_checks()
        return {
            "schema": SCHEMA,
            "ephost": __version__,
            "plugin": self.given.to_dict(),
            "level": self.level,
            "seed": self.seed,
            "seconds": self.seconds,
            "facts": _finite({host: dict(facts) for host, facts in self.facts.items()}),
            "counts": {host: self.counts(host) for host in self.hosts},
            "checks": [
                {
                    **_finite(outcome.to_dict()),
                    "group": outcome.group,
                    "level": checks[outcome.check].level,
                    "text": checks[outcome.check].text,
                    "repeat": repeating(self.given, outcome),
                }
                for outcome in self.outcomes
            ],
        }

    def junit(self) -> str:
        """The same as JUnit's XML: a suite for each group and host."""
        root = ElementTree.Element("testsuites", name=_in_xml(f"ephost check {self.given.name}"))
        for host in self.hosts:
            for group in GROUPS:
                there = [o for o in self.outcomes if o.host == host and o.group == group]
                if there:
                    root.append(self._suite(host, group, there))
        return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)

    def _suite(self, host: str, group: str, outcomes: Sequence[Outcome]) -> ElementTree.Element:
        failures = [o for o in outcomes if o.is_wrong and o.status == FAILED]
        errors = [o for o in outcomes if o.is_wrong and o.status != FAILED]
        skipped = [o for o in outcomes if o.status == SKIPPED or o.expected]
        suite = ElementTree.Element(
            "testsuite",
            name=f"{host}.{group}",
            tests=str(len(outcomes)),
            failures=str(len(failures)),
            errors=str(len(errors)),
            skipped=str(len(skipped)),
            time=f"{sum(o.seconds for o in outcomes):.3f}",
        )
        for outcome in outcomes:
            case = ElementTree.SubElement(
                suite,
                "testcase",
                classname=f"{host}.{group}",
                name=outcome.check,
                time=f"{outcome.seconds:.3f}",
            )
            message = _in_xml(outcome.message)
            if outcome.is_wrong:
                kind = "failure" if outcome.status == FAILED else "error"
                made = ElementTree.SubElement(case, kind, message=message, type=outcome.status)
                made.text = _in_xml(outcome.log)
            elif outcome.status == SKIPPED or outcome.expected:
                ElementTree.SubElement(case, "skipped", message=_in_xml(outcome.expected) or message)
            elif outcome.notes:
                ElementTree.SubElement(case, "system-out").text = _in_xml("\n".join(outcome.notes))
        return suite


def _in_xml(text: str) -> str:
    """A text without the characters that no XML has."""
    return _NO_XML.sub(lambda found: f"\\u{ord(found[0]):04x}", printable(text))


def _is_one_sided(statuses: Iterable[str]) -> bool:
    given = set(statuses)
    return SKIPPED in given and not given & WRONG


def _finite(value: Any) -> Any:
    """JSON has no number for what is not finite: that becomes a text."""
    if isinstance(value, Mapping):
        return {str(key): _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    if isinstance(value, float) and value - value != 0:
        return str(value)
    return value


def repeating(given: Given, outcome: Outcome) -> str:
    """The command that repeats a check."""
    own = given.name == Path(given.path).stem.removeprefix("lib")
    words = ["ephost", "check", given.path if own else f"{given.name}={given.path}"]
    words += ["--reproduce", str(outcome.seed)] if outcome.group == "fuzz" else ["--only", outcome.check]
    if outcome.host != "ephost":
        words += ["--host", outcome.host]
    if given.device:
        words += ["--device", given.device]
    for key, value in given.options.items():
        words += ["--option", f"{key}={value}"]
    if outcome.seed and outcome.group != "fuzz":
        words += ["--seed", str(outcome.seed)]
    return shlex.join(words)


def write_text(path: str, text: str) -> None:
    """Write a report's file."""
    saving.write_text(path, text, "backslashreplace")
