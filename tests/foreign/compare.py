"""Compare the outcomes of a suite on both hosts, and write them down."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from tests.foreign.running import HOSTS, Outcome
from tests.foreign.suites import Difference, Suite


@dataclass
class Comparison:
    """Each test by what its outcomes on onnxruntime and ephost mean."""

    both: list[str] = field(default_factory=list)  # pass on both
    worse: list[str] = field(default_factory=list)  # pass on onnxruntime only, and nobody knows of it
    known: dict[str, str] = field(default_factory=dict)  # pass on onnxruntime only; the reason
    better: list[str] = field(default_factory=list)  # pass on ephost only
    neither: list[str] = field(default_factory=list)
    mended: list[str] = field(default_factory=list)  # patterns of known differences whose tests pass

    @property
    def as_expected(self) -> bool:
        """Whether there is nothing to do."""
        return not self.worse and not self.mended


def compare(
    there: Mapping[str, Outcome], here: Mapping[str, Outcome], known: Sequence[Difference]
) -> Comparison:
    """What two hosts' outcomes say. A test that one of them does not have did not pass in it."""
    found = Comparison()
    for test in sorted({*there, *here}):
        passes = tuple(test in outcomes and outcomes[test].passed for outcomes in (there, here))
        reason = next((d.reason for d in known if fnmatchcase(test, d.test)), None)
        match passes:
            case (True, True):
                found.both.append(test)
            case (False, True):
                found.better.append(test)
            case (False, False):
                found.neither.append(test)
            case _ if reason is None:
                found.worse.append(test)
            case _:
                found.known[test] = reason
    for difference in known:
        matching = [test for test in found.both if fnmatchcase(test, difference.test)]
        if matching and not any(fnmatchcase(test, difference.test) for test in found.known):
            found.mended.append(difference.test)
    return found


def write_report(
    suite: Suite, there: Mapping[str, Outcome], here: Mapping[str, Outcome], found: Comparison, folder: Path
) -> None:
    """Write report.json and report.md."""
    outcomes = {
        test: {h: asdict(o[test]) for h, o in zip(HOSTS, (there, here), strict=True) if test in o}
        for test in sorted({*there, *here})
    }
    (folder / "report.json").write_text(
        json.dumps({"suite": suite.name, "comparison": asdict(found), "tests": outcomes}, indent=1)
    )
    lines = [f"# {suite.name} on onnxruntime and on ephost", "", *summary(found), ""]
    for test in found.worse:
        outcome = here.get(test, Outcome("not found"))
        lines += [f"## {test}", "", f"{outcome.status}:", "", "```", outcome.text.strip(), "```", ""]
    if found.known:
        lines += ["## Known differences", ""]
        lines += [f"- `{test}`: {reason}" for test, reason in found.known.items()]
    (folder / "report.md").write_text("\n".join(lines) + "\n")


def summary(found: Comparison) -> list[str]:
    """The counts, a line each, with the names of what is to be done."""
    lines = [
        f"{len(found.both)} pass on both, {len(found.neither)} on neither, {len(found.better)} only here, "
        f"{len(found.known)} only there for known reasons, {len(found.worse)} only there"
    ]
    lines += [f"only there: {test}" for test in found.worse]
    lines += [f"listed as a known difference, and passes: {pattern}" for pattern in found.mended]
    return lines
