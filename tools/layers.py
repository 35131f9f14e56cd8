"""Hold the compiled sources to the layers that docs/architecture.md names.

    python tools/layers.py [ROOT]

Prints each fault with its file and ends with status 1 if there is one: an include of a later layer, of a
sibling, or of another plugin; headers that include each other in a circle; two sources of one name in a
plugin; a source that is too long for one thing.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

MAX_LINES = 800

# What may include what, under plugins/: each layer those before it. Parts of one layer are siblings, which do
# not include each other. A plugin that is not here has one layer, and all have toolkit/ below them.
LAYERS: dict[str, list[tuple[str, ...]]] = {
    "cpu": [
        ("cpu/simd/",),
        ("cpu/runtime/",),
        ("cpu/operator.",),
        ("cpu/engines/",),
        ("cpu/operators/", "cpu/passes/"),
        ("cpu/program/",),
        ("cpu/plugin.cc",),
    ],
}
# What every plugin may include besides its own.
SHARED = ("toolkit", "common")

_SUFFIXES = {".c", ".cc", ".h", ".inc", ".cu", ".cuh"}
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def _sources(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.suffix in _SUFFIXES and path.is_file())


def _includes(plugins: Path) -> dict[str, list[str]]:
    """Of each source under plugins/, the sources there that it includes. Names are relative to plugins/."""
    found = {}
    for path in _sources(plugins):
        names = []
        for name in _INCLUDE.findall(path.read_text(encoding="utf-8")):
            for base in (plugins, path.parent):  # plugins in C write the names of files beside them
                if (base / name).is_file() and (base / name).resolve().is_relative_to(plugins.resolve()):
                    names.append((base / name).resolve().relative_to(plugins.resolve()).as_posix())
                    break
        found[path.relative_to(plugins).as_posix()] = names
    return found


def _place(name: str) -> tuple[int, str] | None:
    """The layer of a source and its part of it; None where its plugin has no layers."""
    for number, layer in enumerate(LAYERS.get(name.split("/")[0], [])):
        for part in layer:
            if name.startswith(part):
                return number, part
    return None


def upward(includes: dict[str, list[str]]) -> Iterator[str]:
    """Includes of a later layer, a sibling, or another plugin."""
    for source, targets in includes.items():
        plugin, mine = source.split("/")[0], _place(source)
        if plugin in LAYERS and mine is None:
            yield f"plugins/{source}: lies in no layer of tools/layers.py"
            continue
        for target in targets:
            other = target.split("/")[0]
            if other != plugin:
                if other not in SHARED or plugin in SHARED:
                    yield f"plugins/{source}: includes {target}, which is not below it"
                continue
            theirs = _place(target)
            if mine is None or theirs is None or mine == theirs:
                continue
            if theirs[0] > mine[0]:
                yield f"plugins/{source}: includes {target} of a later layer: {theirs[1]} is above {mine[1]}"
            elif theirs[0] == mine[0]:
                yield f"plugins/{source}: includes {target}, a sibling of its own layer"


def circles(includes: dict[str, list[str]]) -> Iterator[str]:
    """Headers that include each other, each circle once."""
    done: set[str] = set()
    for start in includes:
        if start in done:
            continue
        path = [start]
        rest = [iter(includes[start])]
        while path:
            following = next(rest[-1], None)
            if following is None:
                done.add(path.pop())
                rest.pop()
            elif following in path:
                yield "plugins/" + " -> ".join([*path[path.index(following) :], following]) + ": a circle"
            elif following not in done:
                path.append(following)
                rest.append(iter(includes.get(following, ())))


def same_names(plugins: Path) -> Iterator[str]:
    """Sources of one name in two folders of a plugin."""
    for plugin in sorted(path for path in plugins.iterdir() if path.is_dir()):
        named = defaultdict(list)
        for path in _sources(plugin):
            named[path.name].append(path.relative_to(plugins).as_posix())
        for paths in named.values():
            if len(paths) > 1:
                yield f"plugins/{paths[1]}: {paths[0]} has the same name"


def too_long(root: Path) -> Iterator[str]:
    """Sources of host/ and plugins/ with more than MAX_LINES lines."""
    for folder in ("host", "plugins"):
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix not in {*_SUFFIXES, ".py"} or "__pycache__" in name:
                continue
            lines = path.read_text(encoding="utf-8").count("\n")
            if lines > MAX_LINES:
                yield f"{name}: {lines} lines, where {MAX_LINES} are the most"


def faults(root: Path) -> list[str]:
    """All that is wrong under root."""
    includes = _includes(root / "plugins")
    return [*upward(includes), *circles(includes), *same_names(root / "plugins"), *too_long(root)]


def main() -> int:
    """Print what is wrong; the exit status."""
    found = faults(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    for fault in found:
        print(fault)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
