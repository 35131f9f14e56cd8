"""Write the table of docs/rules.md from the rules in host/ephost/layers/rules.py.

python tools/rules.py [--check]
"""

from __future__ import annotations

import sys
from pathlib import Path

from layer_checks import load_rules

PAGE = Path(__file__).parents[1] / "docs" / "rules.md"
BEGIN, END = "<!-- rules: tools/rules.py -->\n", "<!-- end of rules -->\n"


def with_table(page: str) -> str:
    """The page with the table as it has to be."""
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"{PAGE} has no place for the table: {BEGIN.strip()} to {END.strip()}")
    rows = [f"| {rule.name} | {rule.severity} | {rule.text} |\n" for rule in load_rules().RULES.values()]
    return "".join(
        [before, BEGIN, "\n| rule | severity | the plugin |\n|---|---|---|\n", *rows, "\n", END, after]
    )


def main() -> int:
    """Write the page, or say whether it is as it has to be."""
    page = PAGE.read_text(encoding="utf-8")
    wanted = with_table(page)
    if "--check" in sys.argv[1:]:
        return int(page != wanted)
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
