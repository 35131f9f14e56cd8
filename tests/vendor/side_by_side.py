"""Opens and runs sessions on several vendors' plugins from threads of one process, all at once.

usage: side_by_side.py MODEL SESSIONS [--in-turn] VENDOR...

Each opens at least so many, and goes on until the others have theirs.

Prints one line of JSON; by vendor: ``sessions`` that ran, ``claimed`` nodes of one of them, and ``distance``,
the largest difference from the host's own operators relative to the largest number. ``overlaps`` counts the
openings during which another thread's began. With ``--in-turn`` each waits for the one before it.
"""

import json
import sys
import threading
import time
from pathlib import Path

import ephost
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from vendors import VENDORS


def main(model: str, count: int, names: list[str]) -> None:
    in_turn = "--in-turn" in names
    names = [name for name in names if name != "--in-turn"]
    feeds = {}
    plain = ephost.InferenceSession(model)
    for value in plain.get_inputs():
        feeds[value.name] = np.random.default_rng(0).random(value.shape, dtype=np.float32)
    expected = plain.run(None, feeds)
    told = {"sessions": dict.fromkeys(names, 0), "claimed": {}, "distance": {}, "overlaps": 0}
    problems, spans = [], []
    gate = threading.Barrier(1 if in_turn else len(names))

    def work(name: str) -> None:
        vendor = VENDORS[name]
        try:
            gate.wait(60)
            ephost.register_execution_provider_library(vendor.registration, str(vendor.library))
            found = [d for d in ephost.get_ep_devices() if d.registration_name == vendor.registration]
            gate.wait(60)  # registering takes some plugins longer than others take for all of their sessions
            worst = 0.0
            rivals = [name] if in_turn else names
            while min(told["sessions"][rival] for rival in rivals) < count and not problems:
                options = ephost.SessionOptions()
                options.log_severity_level = 4
                options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
                options.add_provider_for_devices(found[:1], vendor.options)
                started = time.perf_counter()
                session = ephost.InferenceSession(model, options)
                spans.append((name, started, time.perf_counter()))
                groups = session.get_provider_graph_assignment_info()
                told["claimed"][name] = sum(
                    len(g.get_nodes()) for g in groups if g.ep_name == found[0].ep_name
                )
                for mine, theirs in zip(session.run(None, feeds), expected, strict=True):
                    worst = max(worst, float(np.abs(mine - theirs).max() / np.abs(theirs).max()))
                told["sessions"][name] += 1
            told["distance"][name] = worst
            session.close()
            ephost.unregister_execution_provider_library(vendor.registration)
        except BaseException as problem:  # for the main thread, which waits
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
        if in_turn:
            thread.join()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    told["overlaps"] = sum(
        any(other != name and start <= begun < end for other, begun, _ in spans) for name, start, end in spans
    )
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
