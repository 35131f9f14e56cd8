"""Whether libraries that were built for Windows import no more than they may, and export what they have to.

python imports.py FOLDER NUMBER: of a build, which makes so many
"""

from __future__ import annotations

import sys
from pathlib import Path

from ephost.windows_library import read_windows_library

_WINDOWS = {"kernel32.dll", "msvcrt.dll", "advapi32.dll", "ntdll.dll"}
_PLUGIN = {"CreateEpFactories", "ReleaseEpFactory"}
_MODULE = {"PyInit__native", "PyInit__call"}


def main() -> int:
    """Print a line for each library; 1 if something is wrong."""
    wrong = 0
    found = [*Path(sys.argv[1]).rglob("*.pyd"), *Path(sys.argv[1]).rglob("*.dll")]
    for path in found:
        library = read_windows_library(path)
        if library is None:
            print(f"{path.name}: no library of Windows")
            wrong += 1
            continue
        is_module = path.suffix == ".pyd"
        allowed = _WINDOWS | ({"python3.dll"} if is_module else set())
        problems = [f"imports {name}" for name in library.imports if name.lower() not in allowed]
        if is_module and "python3.dll" not in library.imports:
            problems.append("does not import python3.dll")
        if set(library.exports) != (_MODULE if is_module else _PLUGIN):
            problems.append(f"exports {', '.join(library.exports) or 'nothing'}")
        imported = ", ".join(f"{name} ({count})" for name, count in library.imports.items())
        print(f"{path.name}: imports {imported}" + "".join(f"; WRONG: it {what}" for what in problems))
        wrong += len(problems)
    if len(found) != int(sys.argv[2]):
        print(f"{len(found)} libraries were built, not {sys.argv[2]}")
        wrong += 1
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
