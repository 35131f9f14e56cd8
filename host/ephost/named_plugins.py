"""Plugins as people name them: a library's path or a package that has one, and which devices to take."""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
import platform
from collections.abc import Mapping
from pathlib import Path

from ephost import plugins
from ephost.environment import OrtEpDevice, get_ep_devices
from ephost.errors import Fail, InvalidArgument
from ephost.options import SessionOptions
from ephost.suggestions import did_you_mean

_BUNDLED = "ephost.plugins."
_SUFFIXES = {".so", ".dll", ".dylib"}


def is_path(where: str) -> bool:
    """Whether a text means a file, and not a package."""
    return os.path.isfile(where) or os.sep in where or Path(where).suffix in _SUFFIXES


def library_path(where: str) -> str:
    """The path of a plugin library.

    Args:
        where: its path, or an installed Python package that has ``get_library_path()``, such as nxrt_ep_cpu
            or the bundled sample_kernels.

    Raises:
        InvalidArgument: it is neither, or the package has no library.
    """
    if is_path(where):
        return where
    module, without = where.replace("-", "_"), []
    for candidate in (_BUNDLED + module, module) if "." not in module else (module,):
        try:
            if importlib.util.find_spec(candidate) is None:
                continue
            get_path = getattr(importlib.import_module(candidate), "get_library_path", None)
            if get_path is not None:
                return str(get_path())
            without.append(candidate)
        except (ImportError, FileNotFoundError, ValueError) as error:
            raise InvalidArgument(f"the package {where!r} gives no library: {error}") from None
    if without:
        raise InvalidArgument(
            f"the package {without[-1]!r} has no get_library_path(): give its library's path"
        )
    raise InvalidArgument(
        f"{where!r} is neither a file nor an installed Python package with get_library_path()"
        f"{did_you_mean(where, _packages())}"
    )


def _packages() -> list[str]:
    """What may have been meant: the bundled plugins, and installed packages by their names."""
    bundled = [module.name for module in pkgutil.iter_modules(plugins.__path__) if module.ispkg]
    return [*bundled, *(module.name for module in pkgutil.iter_modules() if module.ispkg)]


def add_offered(
    options: SessionOptions,
    name: str,
    where: str,
    provider_options: Mapping[str, str],
    wanted: Mapping[str, str] | None = None,
) -> None:
    """Give a session every execution provider that a registered library offers, in order.

    Args:
        options: the session's.
        name: what the library is registered as.
        where: what it was named by, for messages.
        provider_options: for each of its execution providers.
        wanted: what a device must be to be taken, of the keys "type" (CPU, GPU, NPU), "vendor", "ep_name" and
            those of its metadata; None: anything.

    Raises:
        Fail: it offers no such device here.
    """
    offered = [device for device in get_ep_devices() if device.registration_name == name]
    chosen = [device for device in offered if _matches(device, wanted or {})]
    if not chosen:
        asked = f" of {dict(wanted)}" if wanted else ""
        there = ", ".join(map(_described, offered)) or "none: `ephost devices` shows what it was asked about"
        raise Fail(
            f"the library '{name}' ({where}) offers no device{asked} on {platform.node()}; it offers {there}"
        )
    for ep_name in dict.fromkeys(device.ep_name for device in chosen):
        devices = [device for device in chosen if device.ep_name == ep_name]
        options.add_provider_for_devices(devices, dict(provider_options))


def _matches(device: OrtEpDevice, wanted: Mapping[str, str]) -> bool:
    facts = {**device.ep_metadata, **device.device.metadata}
    facts |= {"type": device.device.type.name, "vendor": device.ep_vendor, "ep_name": device.ep_name}
    return all(facts.get(key) == value for key, value in wanted.items())


def _described(device: OrtEpDevice) -> str:
    return f"{device.ep_name} on a {device.device.type.name} of {device.device.vendor or 'nobody'}"
