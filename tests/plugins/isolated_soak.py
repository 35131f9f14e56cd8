"""What many crashes and runs of an isolated plugin leave behind, counted in a process of its own.

``python isolated_soak.py LIBRARY CRASHES RUNS`` prints, as JSON, what there was before and after each:
resident memory, descriptors, threads, mappings and child processes of the host, resident memory of the
worker, and the host's live handles.
"""

import ctypes
import gc
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import ephost
import numpy as np
from ephost._bindings import lib
from plugin_models import model, node

ADD = model([node("Add", "x x2", "y")], {"x": [2, 3], "x2": [2, 3]}, ["y"]).SerializeToString()
X = np.ones((2, 3), np.float32)
FEED = {"x": X, "x2": X}
KINDS = ("segv", "abort", "exit", "kill")
WARM_UP = 12
C_LIBRARY = ctypes.CDLL(None)


def open_session() -> ephost.InferenceSession:
    """A session on the plugin alone."""
    options = ephost.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    devices = [device for device in ephost.get_ep_devices() if device.registration_name == "soak"]
    options.add_provider_for_devices(devices, {})
    return ephost.InferenceSession(ADD, options, enable_fallback=0)


def crash(number: int) -> None:
    """A session whose first run ends its worker."""
    os.environ["EPHOST_FAULT"] = f"{KINDS[number % len(KINDS)]}:Compute"
    try:
        open_session().run(None, FEED)
    except ephost.PluginFault:
        return
    finally:
        del os.environ["EPHOST_FAULT"]
    raise AssertionError("nothing happened")


def children() -> list[int]:
    """The processes that this one has started."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        found += [int(pid) for pid in (task / "children").read_text().split()]
    return found


def resident(pid: int | str) -> int:
    """The memory of a process that is its own, in KiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(
        int(line.split()[1]) for line in lines if line.startswith(("Private_Dirty:", "Private_Clean:"))
    )


def count() -> dict[str, int]:
    """What there is now."""
    gc.collect()
    lib.ephost_trim_cpu_cache()
    if hasattr(C_LIBRARY, "malloc_trim"):  # what it keeps of memory that was given back
        C_LIBRARY.malloc_trim(0)
    return {
        "memory": resident("self"),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "mappings": len(Path("/proc/self/maps").read_text().splitlines()),
        "children": len(children()),
        "handles": sum(int(lib.ephost_live_handles(kind)) for kind in range(19)),
        "workers": sum(map(resident, children())),
    }


def before_and_after(act: Callable[[int], None], times: int, warm_up: int) -> dict[str, dict[str, int]]:
    """The counts before and after doing it so many times, when it has been done a few times already."""
    for number in range(warm_up):
        act(number)
    before = count()
    for number in range(times):
        act(number)
    return {"before": before, "after": count()}


def main() -> None:
    """Count."""
    library, crashes, runs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    ephost.register_execution_provider_library("soak", library, isolated=True)
    session = open_session()  # it has the worker that registering made
    told = {"crashes": before_and_after(crash, crashes, WARM_UP)}
    told["runs"] = before_and_after(lambda _: session.run(None, FEED), runs, 2000)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
