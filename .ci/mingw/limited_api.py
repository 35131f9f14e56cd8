"""The names in CPython's limited API, as its headers declare them, as a definition file for python3.dll.

python limited_api.py INCLUDE VERSION COMPILER > python3.def
"""

from __future__ import annotations

import re
import subprocess
import sys


def main() -> None:
    """Print the file."""
    include, version, compiler = sys.argv[1:]
    command = [compiler, "-E", "-P", "-x", "c", f"-I{include}", f"-DPy_LIMITED_API={version}", "-"]
    # Some functions have another name where sizes are Py_ssize_t.
    text = "".join(
        subprocess.run(
            command, input=f"{first}#include <Python.h>", check=True, capture_output=True, text=True
        ).stdout
        for first in ("", "#define PY_SSIZE_T_CLEAN\n")
    )
    text = re.sub(r"__attribute__\s*\(\((?!dllimport)[^()]*(?:\([^()]*\))?\)\)", "", text)
    # On Windows the headers say what a DLL has: functions, variables, and variables that point to functions.
    # Some are of the C library.
    imported = r"__attribute__\s*\(\(dllimport\)\)[^;()]*?"
    functions = set(re.findall(rf"{imported}\b(\w+)\s*\(\s*[^*\s]", text))
    data = set(re.findall(rf"{imported}\b(\w+)\s*;", text)) | set(
        re.findall(rf"{imported}\(\s*\*\s*(\w+)\s*\)", text)
    )
    print("LIBRARY python3.dll\nEXPORTS")
    for name in sorted(functions | data):
        if name.startswith(("Py", "_Py")):
            print(f"  {name} DATA" if name in data else f"  {name}")


if __name__ == "__main__":
    main()
