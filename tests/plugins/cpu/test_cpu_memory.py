"""What the plugin does so that a process is no larger than it must be."""

import subprocess
import sys

import pytest

# MB of the pages of a library's code that are in a process; its path first, if it is not loaded yet.
PAGES = """
import ctypes, re, sys
if len(sys.argv) > 1:
    ctypes.CDLL(sys.argv[1])
else:
    import ephost.plugins.cpu
    ephost.register_execution_provider_library("cpu", ephost.plugins.cpu.get_library_path())
path, pages, code = "", 0, False
for line in open("/proc/self/smaps"):
    if head := re.match(r"[0-9a-f]+-[0-9a-f]+ (\\S+) \\S+ \\S+ \\S+ *(.*)", line):
        code = "x" in head[1] and "libdnnl" in head[2]
        path = head[2] if code else path
    elif code and line.startswith("Rss:"):
        pages += int(line.split()[1])
print(path)
print(pages)
"""


def pages(*arguments: str) -> tuple[str, int]:
    """Where oneDNN's library is, and KB of its code in a process that has loaded it."""
    command = [sys.executable, "-c", PAGES, *arguments]
    path, found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")[:2]
    return path, int(found)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_code_that_only_constructors_ran_is_let_go_of() -> None:
    path, left = pages()
    if not path:
        pytest.skip("oneDNN is not a library of its own here")
    _, loaded = pages(path)
    assert left < loaded / 3, (left, loaded)
