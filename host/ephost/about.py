"""Functions of onnxruntime's module that say something of the process, or set something for all of it."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path

from ephost import environment
from ephost._bindings import lib
from ephost.arguments import integer, of_type
from ephost.device_memory import device_numbers
from ephost.devices import OrtArenaCfg, OrtMemoryInfo
from ephost.enums import ArenaExtendStrategy, OrtDeviceMemoryType
from ephost.environment import get_available_providers, get_ep_devices
from ephost.errors import InvalidArgument, NotImplemented

ONNXRUNTIME_VERSION = "1.32.0"  # the release whose Python API this package has
# What onnxruntime's packaging says of it, for programs that look.
version = ONNXRUNTIME_VERSION
package_name = "ephost"
cuda_version = ""  # plugins bring theirs


def get_version_string() -> str:
    """The version of onnxruntime whose API this is; ``ephost.__version__`` is the host's own."""
    return ONNXRUNTIME_VERSION


def get_build_info() -> str:
    """What this is, in one line. Begins as onnxruntime's does."""
    from ephost import __version__

    return (
        f"ORT Build Info: ephost {__version__}, host of plugin execution providers; API of onnxruntime "
        f"{ONNXRUNTIME_VERSION}"
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
        TypeError: it is no int.
        InvalidArgument: a negative level.
    """
    global _verbosity
    _verbosity = integer("a logger's verbosity", level, 0)


def enable_telemetry_events() -> None:
    """Nothing to do: the host never collects any."""


def disable_telemetry_events() -> None:
    """Nothing to do: the host never collects any."""


def create_and_register_allocator(mem_info: OrtMemoryInfo, arena_cfg: OrtArenaCfg | None) -> None:
    """Use an arena for a memory. The CPU's: how many bytes of freed memory the host keeps for later. A
    device's: the plugin makes a new allocator for the values that programs put there themselves.

    Args:
        mem_info: the CPU's memory, or one that a registered execution provider has.
        arena_cfg: for the CPU its ``max_mem``, 0 leaving the host's own limit; for a device all of it.

    Raises:
        NotImplemented: the memory of a device that no registered execution provider has.
        Fail: there are values in that memory, or sessions on that execution provider.
        EPFail and others: the plugin's error.
    """
    create_and_register_allocator_v2("", mem_info, {}, arena_cfg)


def create_and_register_allocator_v2(
    provider_type: str, mem_info: OrtMemoryInfo, options: Mapping[str, str], arena_cfg: OrtArenaCfg | None
) -> None:
    """As :func:`create_and_register_allocator`, for an execution provider's memory.

    Args:
        provider_type: the execution provider; "" for any.
        mem_info: the memory.
        options: given to the plugin with those of the arena.
        arena_cfg: as there.

    Raises:
        InvalidArgument: an arena that grows in no known way.
        As :func:`create_and_register_allocator`.
    """
    of_type("mem_info", mem_info, OrtMemoryInfo)
    strategy = -1 if arena_cfg is None else of_type("arena_cfg", arena_cfg, OrtArenaCfg).arena_extend_strategy
    if strategy not in (-1, *ArenaExtendStrategy):
        raise InvalidArgument(f"arena_extend_strategy {strategy} is none of {list(ArenaExtendStrategy)}")
    numbers = device_numbers(mem_info._pointer)
    if numbers[0] == 0:
        if arena_cfg is not None and arena_cfg.max_mem > 0:
            lib.ephost_set_cpu_cache_limit(arena_cfg.max_mem)
        return
    owner = environment.find_memory_owner(numbers)
    if owner is None or provider_type not in ("", owner.ep_name):
        who = f"the execution provider '{provider_type}'" if provider_type else "no execution provider"
        raise NotImplemented(f"{who} has {'no ' if provider_type else ''}memory of {mem_info!r}")
    given = {} if arena_cfg is None else vars(arena_cfg)
    arena = {
        "arena." + name.removeprefix("arena_"): str(number)
        for name, number in given.items()
        if number != (0 if name == "max_mem" else -1)
    }
    owner._replace_memory(numbers[1] == OrtDeviceMemoryType.HOST_ACCESSIBLE, {**arena, **options})


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

    Raises:
        TypeError: it is no int.
        InvalidArgument: it has more than 64 bits.
    """
    from ephost.reference.ops import random

    random.set_seed(integer("a seed", seed, -(2**63), 2**63 - 1))
