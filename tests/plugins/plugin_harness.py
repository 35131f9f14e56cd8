"""Runs plugins in real hosts, each time in a fresh process, and builds those that do not ship."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

ROOT = Path(__file__).resolve().parents[2]

Arrays = dict[str, np.ndarray]


@dataclass
class Case:
    """A model, the feeds of one or more calls, and what to set for the session."""

    model: onnx.ModelProto
    feeds: Sequence[Arrays]
    config: dict[str, str] = field(default_factory=dict)
    provider_options: dict[str, str] = field(default_factory=dict)
    basic_optimizations_off: bool = True  # what a test wrote is then what the plugin sees
    fallback: bool = False  # whether the host may go on without a plugin that fails


@dataclass
class Outcome:
    """What became of a case: the outputs of each call and the groups of (name, operator), or the error."""

    outputs: list[Arrays]
    groups: list[tuple[str, list[tuple[str, str]]]]
    error: str | None = None
    message: str = ""

    def operators(self, ep_name: str) -> list[list[str]]:
        """The operators of each group that an EP took, sorted."""
        return [sorted(op for _, op in nodes) for ep, nodes in self.groups if ep == ep_name]


@dataclass
class Runner:
    """One plugin in one host."""

    host: str
    library: Path
    ep_name: str
    folder: Path

    def run(
        self, cases: Sequence[Case], env: dict[str, str] | None = None
    ) -> tuple[list[Outcome], list[dict]]:
        """Runs all cases in one process; returns an outcome for each, and the devices that the EP offered."""
        folder = self.folder / f"run{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        for i, case in enumerate(cases):
            onnx.save(case.model, folder / f"{i}.onnx")
            for j, feeds in enumerate(case.feeds):
                np.savez(folder / f"{i}.{j}.npz", **feeds)
        described = [
            {
                "calls": len(case.feeds),
                "config": case.config,
                "provider_options": case.provider_options,
                "basic_optimizations_off": case.basic_optimizations_off,
                "fallback": int(case.fallback),
            }
            for case in cases
        ]
        (folder / "cases.json").write_text(json.dumps(described))
        script = Path(__file__).with_name("run_in_host.py")
        done = subprocess.run(
            [sys.executable, str(script), self.host, str(self.library), self.ep_name, str(folder)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**os.environ, "PYTHONPATH": python_path(), **(env or {})},
        )
        assert done.returncode == 0, (
            f"{self.host} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        )
        result = json.loads((folder / "result.json").read_text())
        outcomes = []
        for i, (case, entry) in enumerate(zip(cases, result["cases"], strict=True)):
            if "error" in entry:
                outcomes.append(Outcome([], [], entry["error"], entry["message"]))
                continue
            outputs = []
            for j in range(len(case.feeds)):
                with np.load(folder / f"{i}.{j}.out.npz") as arrays:
                    outputs.append(dict(arrays))
            groups = [(g["ep"], [(name, op) for name, op in g["nodes"]]) for g in entry["groups"]]
            outcomes.append(Outcome(outputs, groups))
        return outcomes, result["devices"]

    def run_one(self, case: Case) -> Outcome:
        """Runs one case that must not fail."""
        outcome = self.run([case])[0][0]
        assert outcome.error is None, f"{outcome.error}: {outcome.message}"
        return outcome


@dataclass
class Done:
    """What came of an action of trace_in_host.py, and what trace_plugin wrote down meanwhile."""

    lines: list[str]
    value: Any = None
    error: str = ""
    message: str = ""

    def only(self, *words: str) -> list[str]:
        """The lines that begin with one of these words."""
        return [line for line in self.lines if line.startswith(words)]


Files = Mapping[str, onnx.ModelProto | Arrays]


class Tracer:
    """Runs lists of actions on tests/plugins/trace_plugin in real hosts, each in a fresh process."""

    def __init__(self, library: Path, folder: Path) -> None:
        self.library, self.folder = library, folder

    def __call__(
        self, host: str, actions: Sequence[Any], mode: str = "", files: Files | None = None
    ) -> list[Done]:
        """Does the actions, each a name or (name, arguments), with what ``mode`` says in TRACE_PLUGIN.

        ``files`` are models (``NAME.onnx``) and arrays (``NAME.npz``) that the actions name.
        """
        folder = self.folder / f"trace{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        for name, content in (files or {}).items():
            if isinstance(content, onnx.ModelProto):
                onnx.save(content, folder / name)
            else:
                np.savez(folder / name, **content)
        named = [(action, {}) if isinstance(action, str) else action for action in actions]
        (folder / "actions.json").write_text(json.dumps(named))
        script = Path(__file__).with_name("trace_in_host.py")
        done = subprocess.run(
            [sys.executable, str(script), host, str(self.library), str(folder)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            cwd=folder,
            env={
                **os.environ,
                "PYTHONPATH": python_path(),
                "TRACE_PLUGIN": mode,
                "TRACE_PLUGIN_LINES": str(folder / "lines.txt"),
            },
        )
        assert done.returncode == 0, f"{host} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return [Done(**entry) for entry in json.loads((folder / "result.json").read_text())]


def python_path() -> str:
    """PYTHONPATH for a process of a host: the ephost of this process comes first, if there is one."""
    found = importlib.util.find_spec("ephost")
    package = [str(Path(found.origin).parents[1])] if found is not None and found.origin else []
    return os.pathsep.join([*package, os.environ.get("PYTHONPATH", "")])


def build_plugin(folder: Path, target: Path, *flags: str, include: Path = ROOT / "include") -> Path:
    """Compiles the plugin whose sources are in ``folder``, with the flags that the project builds with."""
    library = target / f"lib{folder.name}.so"
    sources = sorted(str(source) for source in folder.glob("*.c*"))
    command = [
        *(("c++", "-std=c++20") if sources[0].endswith(".cc") else ("cc", "-std=c11")),
        *("-O1", "-g", "-fPIC", "-shared", "-fvisibility=hidden"),
        *("-Wall", "-Wextra", "-Wconversion", "-Werror", f"-I{include}"),
        *(("-include", str(Path(__file__).with_name("windows_getenv.h"))) if sys.platform == "win32" else ()),
        *sources,
        *("-o", str(library), "-lm", *flags),
        *os.environ.get("EPHOST_TEST_CFLAGS", "").split(),  # .ci/sanitize's
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
    return library


def is_mapped(library: Path) -> bool:
    """Whether any process has the library: one that it was loaded in, or that such a process has made."""

    def has(process: Path) -> bool:
        try:
            return str(library) in (process / "maps").read_text()
        except OSError:
            return False

    return any(map(has, Path("/proc").glob("[0-9]*")))


def bad_modes() -> dict[str, str]:
    """The modes of tests/plugins/bad_plugin: what EPHOST_BAD may say, and what the plugin then does."""
    source = (ROOT / "tests" / "plugins" / "bad_plugin" / "bad_plugin.c").read_text()
    table = source[source.index("#define MODES") : source.index("#define NAME_OF")].replace("\\\n", " ")
    return {name: re.sub(r'"\s+"', "", what) for name, what in re.findall(r'MODE\((\w+),\s*"(.*?)"\)', table)}
