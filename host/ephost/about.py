"""Functions of onnxruntime's module that say something of the process, or set something for all of it."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path

from ephost._bindings import lib
from ephost.devices import OrtArenaCfg, OrtMemoryInfo
from ephost.environment import DEFAULT_PROVIDER, get_available_providers, get_ep_devices
from ephost.errors import InvalidArgument, NotImplemented

ONNXRUNTIME_VERSION = "1.31.1"  # the release whose Python API this package has


def get_version_string() -> str:
    """The version of onnxruntime whose API this is; ``ephost.__version__`` is the host's own."""
    return ONNXRUNTIME_VERSION


def get_build_info() -> str:
    """What this is, in one line."""
    from ephost import __version__

    return (
        f"ephost {__version__}, host of plugin execution providers; API of onnxruntime {ONNXRUNTIME_VERSION}"
    )


def get_device() -> str:
    """The kind of device that the registered plugins can use: ``GPU``, ``NPU``, or ``CPU``."""
    kinds = {device.device.type.name for device in get_ep_devices()}
    return next((kind for kind in ("GPU", "NPU") if kind in kinds), "CPU")


def get_all_providers() -> list[str]:
    """As :func:`ephost.get_available_providers`: any plugin can be registered, so there is no list of all."""
    return get_available_providers()


def has_collective_ops() -> bool:
    """Never: there are no operators across processes."""
    return False


_verbosity = 0


def set_default_logger_verbosity(level: int) -> None:
    """Accepted: verbose messages have one level here.

    Raises:
        InvalidArgument: a negative level.
    """
    global _verbosity
    if level < 0:
        raise InvalidArgument(f"a logger's verbosity cannot be {level}")
    _verbosity = level


def enable_telemetry_events() -> None:
    """Nothing to do: the host never collects any."""


def disable_telemetry_events() -> None:
    """Nothing to do: the host never collects any."""


def create_and_register_allocator(mem_info: OrtMemoryInfo, arena_cfg: OrtArenaCfg | None) -> None:
    """Use an arena for the CPU's memory: how many bytes of freed memory the host keeps for later.

    Args:
        mem_info: the CPU's memory.
        arena_cfg: its ``max_mem``; 0 leaves the host's own limit.

    Raises:
        NotImplemented: the memory of another device.
    """
    create_and_register_allocator_v2(DEFAULT_PROVIDER, mem_info, {}, arena_cfg)


def create_and_register_allocator_v2(
    provider_type: str, mem_info: OrtMemoryInfo, options: Mapping[str, str], arena_cfg: OrtArenaCfg | None
) -> None:
    """As :func:`create_and_register_allocator`, for an execution provider's memory.

    Raises:
        NotImplemented: the memory of another device than the CPU.
    """
    if mem_info.device_type != 0:
        raise NotImplemented(f"a shared allocator for {mem_info!r} of {provider_type} is not implemented")
    if arena_cfg is not None and arena_cfg.max_mem > 0:
        lib.ephost_set_cpu_cache_limit(arena_cfg.max_mem)


def preload_dlls(
    cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: str | None = None
) -> None:
    """Nothing to do: the host itself uses none of these libraries, and each plugin loads what it needs."""


def print_debug_info() -> None:
    """Print what a report of a problem should hold: versions, plugins and devices."""
    from ephost import __version__

    print(f"ephost version: {__version__} (API of onnxruntime {ONNXRUNTIME_VERSION})")
    print(f"platform: {platform.platform()}, Python {sys.version.split()[0]}")
    print(f"package: {Path(__file__).parent}")
    for name in ("LD_LIBRARY_PATH", "EPHOST_HARDWARE_DEVICES"):
        print(f"{name}={os.environ.get(name, '(unset)')}")
    print("EP devices:")
    for device in get_ep_devices():
        print(f"  {device!r} {device.ep_metadata}")


def set_seed(seed: int) -> None:
    """Seed the random operators of the reference fallback that have no seed of their own.

    Plugins have generators of their own, which the ABI has no way to seed.
    """
    from ephost.reference.ops import random

    random.set_seed(seed)
