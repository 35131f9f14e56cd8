"""Opening a session, and registering a library, in either host: warm process, default options."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import nxrt_ep_cpu
from side_by_side import (
    HOSTS,
    Hosts,
    Row,
    adds,
    arguments,
    copy_library,
    interleave,
    package_models,
    report,
    temporary_folder,
)


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__, rounds=15)
    with temporary_folder() as folder:
        import ephost.plugins.sample_kernels as sample_kernels

        nxrt = nxrt_ep_cpu.get_library_path()
        hosts = Hosts(folder, {"nxrt": nxrt, "sample_kernels": sample_kernels.get_library_path()})
        chain = adds(folder, "chain", nodes=1000)
        cases = [
            ("one node on nxrt", adds(folder, "one"), "nxrt", 10, 1.0),
            ("chain of 1,000 Adds on nxrt", chain, "nxrt", 1, 1.0),
            ("chain of 1,000 Adds on sample_kernels", chain, "sample_kernels", 1, None),
        ]
        for name, path in package_models("rapidocr_onnxruntime").items():
            cases.append((f"{name} on nxrt", path, "nxrt", 1, 1.0))
        rows = []
        for name, model, plugin, more, limit in cases:
            if options.only in name:
                timed = {host: _opening(hosts, host, model, plugin) for host in HOSTS}
                rows.append(Row(name, **interleave(timed, options.rounds * more), limit=limit))
        if options.only in "registering and unregistering nxrt":
            timed = {
                host: _registering(module, copy_library(nxrt, folder / f"again-{host}"))
                for host, module in hosts.modules.items()
            }
            rows.append(Row("registering and unregistering nxrt", **interleave(timed, options.rounds * 3)))
        return report(rows, options)


def _opening(hosts: Hosts, host: str, model: str, plugin: str) -> Callable[[], Any]:
    return lambda: hosts.open(host, model, plugin)


def _registering(module: Any, library: str) -> Callable[[], None]:
    def once() -> None:
        module.register_execution_provider_library("again", library)
        module.unregister_execution_provider_library("again")

    return once


if __name__ == "__main__":
    sys.exit(main())
