"""Which variant of a component a session gets, and what the package says about its session.

A variant fits when its ``ep`` is the name of the first execution provider that the session's options ask for,
and its ``device``, if it names one, the type of one of that provider's devices. Of those that fit, the one
counts whose ``compatibility_string`` the plugin likes best: what it calls optimal, then what it would compile
again, then the rest; what it calls unsupported, or fails to say anything about, never. Otherwise the order in
the package counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ephost.compatibility import get_model_compatibility_for_ep_devices
from ephost.enums import OrtCompiledModelCompatibility as Compatibility
from ephost.environment import OrtEpDevice
from ephost.errors import OnnxRuntimeException
from ephost.host_log import HostLog
from ephost.options import SessionOptions, devices_of
from ephost.packages.json_text import as_object, as_text, parse_object
from ephost.packages.manifest import Manifest, Variant
from ephost.providers import DEFAULT_PROVIDER
from ephost.records import Record
from ephost.selection import choose

_LOG = HostLog("ephost.packages")

EXECUTOR = "ort"  # under this name a variant says what a session has to know
# Session options whose values are references, as the model's is.
PATH_OPTIONS = (
    "session.model_external_initializers_file_folder_path",
    "ep.context_file_path",
    "ep.context_source_model_path",
)
# Those with which a package would have a session write files elsewhere.
FORBIDDEN_OPTIONS = (
    "session.optimized_model_filepath",
    "session.enable_profiling",
    "session.debug_layout_transformation",
    "session.collect_node_memory_stats_to_file",
)

_RANKS = {
    Compatibility.EP_SUPPORTED_OPTIMAL: 2,
    Compatibility.EP_SUPPORTED_PREFER_RECOMPILATION: 1,
    Compatibility.EP_NOT_APPLICABLE: 0,
}


class Target(Record, frozen=True):
    """The execution provider that a variant is looked for."""

    ep_name: str
    devices: tuple[OrtEpDevice, ...]  # empty where the host's own provider has no plugin


class Candidate(Record, frozen=True):
    """A variant as a session sees it."""

    name: str
    folder: str  # "": it has none
    ep_name: str | None
    device: str | None
    compatibility: str | None
    model_file: str | None
    session_options: Mapping[str, str]
    provider_options: Mapping[str, str]


def target_of(options: SessionOptions) -> Target:
    """The first execution provider that options ask for; the host's own where they ask for none.

    Raises:
        Fail: the options' delegate failed.
    """
    chosen = choose(options, None, None, dict)
    if not chosen:
        return Target(DEFAULT_PROVIDER, devices_of(DEFAULT_PROVIDER))
    names = list(dict.fromkeys(item.ep_name for item in chosen))
    if len(names) > 1:
        _LOG.info("variants are looked for %s; %s do not count", names[0], ", ".join(names[1:]))
    return Target(chosen[0].ep_name, tuple(chosen[0].devices))


def candidate_of(package: Manifest, component_name: str, variant: Variant) -> Candidate:
    """A variant with its references resolved.

    Raises:
        ValueError: what it says to sessions is not as it should be, or leads out of the package.
        FileNotFoundError: it names a shared asset that the package does not have.
    """
    what = f"the variant '{variant.name}' of the component '{component_name}'"
    text = variant.executors.get(EXECUTOR)
    info = {} if text is None else parse_object(text, f"executor_info['{EXECUTOR}'] of {what}")

    def resolved(field: str, reference: str) -> str:
        try:
            return package.resolve(reference, variant.directory)
        except ValueError as error:
            raise ValueError(f"'{field}' of {what}: {error}") from None
        except FileNotFoundError as error:
            raise FileNotFoundError(f"'{field}' of {what}: {error}") from None

    model_file = None
    if "model_file" in info:
        model_file = resolved("model_file", as_text(info["model_file"], f"'model_file' of {what}"))
    session_options = _texts(info, "session_options", what)
    for key in FORBIDDEN_OPTIONS:
        if key in session_options:
            raise ValueError(f"a package cannot set the session option '{key}', as {what} does")
    for key in PATH_OPTIONS:
        if session_options.get(key):
            session_options[key] = resolved(key, session_options[key])
    return Candidate(
        variant.name,
        variant.directory or "",
        variant.document.get("ep"),
        variant.document.get("device"),
        variant.document.get("compatibility_string"),
        model_file,
        session_options,
        _texts(info, "provider_options", what),
    )


def _texts(info: Mapping[str, Any], field: str, what: str) -> dict[str, str]:
    found = as_object(info.get(field, {}), f"'{field}' of {what}")
    for key, value in found.items():
        if "\0" in key or "\0" in as_text(value, f"'{key}' in '{field}' of {what}"):
            raise ValueError(f"'{field}' of {what} has a NUL in its entry {key!r}")
    return dict(found)


def select(candidates: Iterable[Candidate], target: Target, component_name: str) -> Candidate:
    """The variant that a session on an execution provider gets.

    Raises:
        RuntimeError: none fits.
    """
    fitting: list[tuple[int, Candidate]] = []
    refused = []
    for candidate in candidates:
        reason = _refusal(candidate, target)
        rank = 0
        if reason is None and candidate.compatibility and target.devices:
            rank, reason = _ask(target, candidate.compatibility)
        if reason is None:
            fitting.append((rank, candidate))
        else:
            refused.append(f"'{candidate.name}': {reason}")
    if not fitting:
        reasons = "; ".join(refused) or "it has none"
        raise RuntimeError(
            f"no variant of the component '{component_name}' suits {target.ep_name}: {reasons}"
        )
    best = max(fitting, key=lambda found: found[0])[1]  # the first of several
    _LOG.info("of the component '%s' the variant '%s' is selected", component_name, best.name)
    return best


def _ask(target: Target, compatibility: str) -> tuple[int, str | None]:
    """How well a variant fits, as its plugin says, and why it does not."""
    try:
        answer = get_model_compatibility_for_ep_devices(target.devices, compatibility)
    except OnnxRuntimeException as error:
        _LOG.warning("%s does not say whether '%s' fits: %s", target.ep_name, compatibility, error)
        return 0, f"its plugin fails to say whether '{compatibility}' fits: {error}"
    if answer not in _RANKS:
        return 0, f"its plugin does not support '{compatibility}'"
    return _RANKS[answer], None


def _refusal(candidate: Candidate, target: Target) -> str | None:
    """Why a variant does not fit; None: it does."""
    if candidate.ep_name != target.ep_name:
        return f"it is for {candidate.ep_name}" if candidate.ep_name else "it is for no execution provider"
    types = {device.device.type.name.lower() for device in target.devices} or {"cpu"}
    if candidate.device and candidate.device.lower() not in types:
        return f"it is for a device of the type {candidate.device}, not {', '.join(sorted(types))}"
    return None
