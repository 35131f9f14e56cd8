"""Whether what passes of the standard's backend tests here passes elsewhere.

python compare_suites.py HERE.json THERE.json...: as tests/host/backend_suite.py writes them; the tests of
THERE.json... are those of all of these files
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path


def main() -> int:
    """Print each test that passes here alone; 1 if there is one, or if hardly any passes there."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("here", type=Path)
    parser.add_argument("there", type=Path, nargs="+")
    parser.add_argument("--least", type=int, default=2000, help="as many are to pass there")
    chosen = parser.parse_args()
    here = json.loads(chosen.here.read_text())
    there: dict[str, dict[str, str]] = {group: {} for group in here}
    for part in chosen.there:
        for group, found in json.loads(part.read_text()).items():
            there[group].update(found)
    passed = {group: sum(text == "passed" for text in found.values()) for group, found in there.items()}
    for group, found in there.items():
        print(f"{group}: {passed[group]} of {len(found)} passed")
    worse = [
        (name, there[group].get(name, "not run"))
        for group, found in here.items()
        for name, text in found.items()
        if text == "passed" and there[group].get(name) != "passed"
    ]
    for name, text in worse:
        print(f"passes here, not there: {name}: {text}")
    if sum(passed.values()) < chosen.least:
        print(f"only {sum(passed.values())} pass there, of at least {chosen.least}")
        return 1
    return int(bool(worse))


if __name__ == "__main__":
    sys.exit(main())
