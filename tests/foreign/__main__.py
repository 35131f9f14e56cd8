"""Run a suite of somebody else's on both hosts: see README.md."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from tests.foreign.compare import compare, summary, write_report
from tests.foreign.running import HOSTS, Outcome, run_file
from tests.foreign.suites import Suite, load_differences, load_suites


def copy_of(suite: Suite, checkout: Path, folder: Path) -> None:
    """Copy what the suite needs of a checkout, for tests that write into their own folder."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in suite.folders:
        if (checkout / name).is_dir():
            shutil.copytree(checkout / name, folder / name, symlinks=True, dirs_exist_ok=True)
        elif (checkout / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(checkout / name, folder / name)


def run_suite(
    suite: Suite, checkout: Path, output: Path, python: str, only: Sequence[str] = ()
) -> dict[str, dict[str, Outcome]]:
    """The outcomes on each host. What passes there and not here is run once more, alone, on both."""
    outcomes: dict[str, dict[str, Outcome]] = {host: {} for host in HOSTS}
    owner: dict[str, str] = {}
    folders = {host: output / host for host in HOSTS}
    for folder in folders.values():
        copy_of(suite, checkout, folder)

    def run(host: str, file: str, tests: Sequence[str] | None) -> dict[str, Outcome]:
        arguments = [text.format(checkout=folders[host]) for text in suite.arguments]
        variables = {key: text.format(checkout=folders[host]) for key, text in suite.variables.items()}
        return run_file(
            host,
            folders[host] / file,
            python=python,
            directory=folders[host] / suite.working_directory,
            limit=suite.limit,
            variables=variables,
            arguments=arguments,
            only=tests,
        )

    files = [f for f in suite.files(checkout) if not only or any(fnmatchcase(f, p) for p in only)]
    for at, file in enumerate(files):
        for host in HOSTS:
            found = run(host, file, None)
            outcomes[host].update(found)
            owner.update(dict.fromkeys(found, file))
        print(f"[{at + 1}/{len(files)}] {file}: {_counts(owner, file, outcomes)}", flush=True)
    for test in compare(outcomes[HOSTS[0]], outcomes[HOSTS[1]], ()).worse:
        for host in HOSTS:
            if test != owner[test]:
                outcomes[host].update(run(host, owner[test], [test]))
    return outcomes


def _counts(owner: Mapping[str, str], file: str, outcomes: Mapping[str, Mapping[str, Outcome]]) -> str:
    tests = [test for test, of in owner.items() if of == file]
    passed = {host: sum(t in found and found[t].passed for t in tests) for host, found in outcomes.items()}
    return ", ".join(f"{host} passes {count}" for host, count in passed.items()) + f" of {len(tests)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    suites = load_suites()
    parser = argparse.ArgumentParser(prog="python -m tests.foreign", description=__doc__)
    parser.add_argument("suite", choices=sorted(suites))
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--python", default=sys.executable, help="the interpreter that both hosts run in")
    parser.add_argument("--only", action="append", default=[], help="a pattern of files; may be repeated")
    parser.add_argument("--output", type=Path, help="a folder for the report and the copies")
    given = parser.parse_args(arguments)
    suite, checkout = suites[given.suite], given.checkout.resolve()
    if not suite.files(checkout):
        print(f"{checkout} has no tests of {suite.name} ({', '.join(suite.tests)})", file=sys.stderr)
        return 2
    check = "import ephost, onnxruntime, pytest"
    if subprocess.run([given.python, "-c", check], check=False).returncode:
        print(f"{given.python} lacks one of what is needed ({check}; {suite.needs})", file=sys.stderr)
        return 2
    output = (given.output or Path(tempfile.mkdtemp(prefix="foreign-"))).resolve()
    output.mkdir(parents=True, exist_ok=True)
    there, here = run_suite(suite, checkout, output, given.python, given.only).values()
    found = compare(there, here, [d for d in load_differences() if d.suite == suite.name])
    write_report(suite, there, here, found, output)
    print("\n".join([*summary(found), f"written: {output / 'report.md'}"]))
    return 0 if found.as_expected else 1


if __name__ == "__main__":
    raise SystemExit(main())
