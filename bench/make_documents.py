"""Makes the figures of README.md and docs/ from bench/results: tables between marks, and plots.

    python bench/make_documents.py           writes what has changed
    python bench/make_documents.py --check   only says what would change; 1 if anything would

A document says where a table goes by ``<!-- results: NAME -->`` and ``<!-- end -->``, in lines of their own,
or within a line for a figure in a sentence. ``documents/tables.py`` knows the names.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path

from documents.tables import TABLES, All
from harness.machine import ROOT
from harness.results import all_results

REGION = re.compile(r"<!-- results: ([\w-]+) -->(.*?)<!-- end -->", re.DOTALL)


def filled(text: str, found: All, where: str) -> str:
    """A document with its regions made anew.

    Raises:
        ValueError: it asks for something that nobody makes, or leaves a mark open.
    """
    if text.count("<!-- results:") != len(REGION.findall(text)) or text.count("<!-- end -->") != text.count(
        "<!-- results:"
    ):
        raise ValueError(f"{where}: a mark of results has no end, or an end no beginning")

    def make(region: re.Match[str]) -> str:
        name = region[1]
        if name not in TABLES:
            raise ValueError(f"{where}: there are no results called {name!r}; there are {', '.join(TABLES)}")
        made = TABLES[name](found)
        within = f"\n\n{made}\n\n" if made.startswith("|") or "\n" in made else made
        return f"<!-- results: {name} -->{within}<!-- end -->"

    return REGION.sub(make, text)


def documents(found: All) -> dict[Path, str]:
    """What README.md and the pages of docs/ are to say."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return {page: filled(page.read_text(), found, page.name) for page in pages}


def plots(found: All) -> dict[Path, str]:
    """The plots of docs/.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from documents.plots import draw

    made: dict[str, Callable[[All], str]] = draw()
    return {ROOT / "docs" / name: plot(found) for name, plot in made.items()}


def stale(made: dict[Path, str]) -> list[Path]:
    """Files that say something else."""
    return [path for path, text in made.items() if not path.exists() or path.read_text() != text]


def main() -> int:
    """Make them, or say what is stale."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if something is stale")
    options = parser.parse_args()
    found = all_results()
    made = documents(found) | plots(found)
    changed = stale(made)
    for path in changed:
        print(f"{path.relative_to(ROOT)} {'is stale' if options.check else 'is made anew'}")
        if not options.check:
            path.write_text(made[path])
    return int(options.check and bool(changed))


if __name__ == "__main__":
    sys.exit(main())
