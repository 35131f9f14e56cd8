"""Whether what passes of the standard's backend tests here passes elsewhere.

python compare_suites.py HERE.json THERE.json...: as tests/host/backend_suite.py writes them; the tests of
THERE.json... are those of all of these files
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> int:
    """Print each test that passes here alone; 1 if there is one, or if hardly any was run there."""
    here, *parts = (json.loads(Path(path).read_text()) for path in sys.argv[1:])
    there: dict[str, dict[str, str]] = {group: {} for group in here}
    for part in parts:
        for group, found in part.items():
            there[group].update(found)
    for group, found in there.items():
        passed = sum(text == "passed" for text in found.values())
        print(f"{group}: {passed} of {len(found)} passed")
    worse = [
        (name, there[group].get(name, "not run"))
        for group, found in here.items()
        for name, text in found.items()
        if text == "passed" and there[group].get(name) != "passed"
    ]
    for name, text in worse:
        print(f"passes here, not there: {name}: {text}")
    return int(bool(worse) or sum(map(len, there.values())) <= 2000)


if __name__ == "__main__":
    sys.exit(main())
