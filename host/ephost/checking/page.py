"""The page of a report: verdicts by group, and each check with what is known of it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ephost.checking.registry import GROUPS, all_checks
from ephost.checking.report import Report, repeating
from ephost.checking.verdicts import FAILED, PASS, SKIPPED, VERDICTS, WARNING, Outcome
from ephost.pages import Entries, Grid, Page, Part, Text

_KINDS = {PASS: "good", WARNING: "warn", SKIPPED: "plain"}
_ORDER = ("crashed", "timed out", FAILED, "expected", WARNING, SKIPPED, PASS)


def page_of(report: Report) -> Page:
    """What a browser shows of a report."""
    about = [f"{report.given.path}, level {report.level}"]
    for host, facts in report.facts.items():
        devices = ", ".join(f"{each['type']} ({each['vendor']})" for each in facts.get("devices", ()))
        about.append(
            f"in {host}: {facts.get('ep_name', 'no execution provider')} on {devices or 'no device'}"
        )
    parts: list[Part] = [Text([report.headline()], "bad" if report.wrong else "good"), Text(about)]
    parts.append(_groups(report))
    if report.differences():
        parts.append(_differences(report))
    if report.one_sided():
        parts.append(_one_sided(report))
    parts.append(_entries(report))
    return Page(f"ephost check: {report.given.name}", parts)


def _groups(report: Report) -> Grid:
    columns = [*VERDICTS, "expected"]
    rows: list[Sequence[str | float | None]] = []
    marked = []
    for group, text in GROUPS.items():
        counts = report.counts("", group)
        if any(counts.values()):
            if any(outcome.group == group for outcome in report.wrong):
                marked.append(len(rows))
            rows.append((group, text, *(counts[name] or None for name in columns)))
    return Grid("Groups", ("group", "what it is about", *columns), rows, columns, marked)


def _differences(report: Report) -> Grid:
    rows = []
    for name, by_host in report.differences():
        verdicts = [by_host[host].status if host in by_host else "" for host in report.hosts]
        told = "; ".join(f"{host}: {o.message}" for host, o in by_host.items() if o.message)
        rows.append((name, *verdicts, told))
    return Grid("Where the hosts differ", ("check", *report.hosts, "what happened"), rows)


def _one_sided(report: Report) -> Grid:
    rows = [(host, ", ".join(names), reason) for host, names, reason in report.one_sided()]
    return Grid("Checked in one host alone", ("host", "checks", "why not in the other"), rows)


def _entries(report: Report) -> Entries:
    outcomes = sorted(report.outcomes, key=lambda outcome: _ORDER.index(_verdict(outcome)))
    checks = all_checks()
    filters = {"verdict": [_verdict(o) for o in outcomes], "group": [o.group for o in outcomes]}
    filters["level"] = [str(checks[o.check].level) for o in outcomes]
    if len(report.hosts) > 1:
        filters["host"] = [o.host for o in outcomes]
    rows = [(o.check, _verdict(o), o.host, o.message or checks[o.check].text) for o in outcomes]
    kinds = ["plain" if o.expected else _KINDS.get(o.status, "bad") for o in outcomes]
    return Entries("Checks", rows, filters, kinds, [_details(report, o) for o in outcomes])


def _verdict(outcome: Outcome) -> str:
    return "expected" if outcome.expected else outcome.status


def _details(report: Report, outcome: Outcome) -> list[tuple[str, str]]:
    made = all_checks()[outcome.check]
    found = [("The rule", f"{made.text} (level {made.level})")]
    if outcome.message:
        found.append(("What happened", outcome.message))
    if outcome.expected:
        found.append(("Why that is expected", outcome.expected))
    if len(outcome.notes) > 1:
        found.append(("Notes", "\n".join(outcome.notes)))
    if outcome.numbers:
        found.append(("Numbers", json.dumps(outcome.numbers, indent=1, ensure_ascii=False, default=str)))
    found.append(("Time", f"{outcome.seconds:.3f} s, seed {outcome.seed}"))
    if outcome.log:
        found.append(("What the process printed", outcome.log))
    found.append(("To repeat it", repeating(report.given, outcome)))
    return found
