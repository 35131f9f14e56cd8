"""Who runs a session's model: explicit devices, names, a policy, a delegate, or the process's default.

All of them answer one question, :func:`choose`: which devices of which execution providers, in order of
priority. Whatever nobody of them claims is for the bundled CPU plugin, and then the reference fallback.

The policies take one device of one plugin. Candidates are ranked: the kind of device as in the table, then a
discrete GPU before one that shares the CPU's memory, then a plugin by the device's own vendor before others',
then the order of registration.

| policy | takes the first of | otherwise |
|---|---|---|
| DEFAULT, PREFER_CPU | CPU | nothing |
| PREFER_GPU | GPU, CPU | nothing |
| PREFER_NPU | NPU, CPU | nothing |
| MAX_PERFORMANCE | GPU, CPU | nothing |
| MAX_EFFICIENCY | NPU, CPU | nothing |
| MIN_OVERALL_POWER | NPU, CPU | nothing |

With nothing taken, the model runs on the bundled CPU plugin. The choice and its reason are logged. An
execution provider that a policy or a delegate chose and that cannot be created is an error, as in
onnxruntime.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ephost.arguments import of_type
from ephost.enums import OrtExecutionProviderDevicePolicy as Policy
from ephost.environment import OrtEpDevice, get_available_providers, get_ep_devices
from ephost.errors import Fail, InvalidArgument, warn_of_argument
from ephost.host_log import HostLog
from ephost.options import Chosen, SessionOptions, checked_entries, devices_of
from ephost.providers import DEFAULT_PROVIDER
from ephost.records import Record
from ephost.suggestions import closest, did_you_mean

_LOG = HostLog("ephost.selection")
MAX_DELEGATE_DEVICES = 8
ProviderEntry = str | tuple[str, Mapping[str, Any]]

# What a policy looks for, best first.
POLICIES: Mapping[Policy, tuple[str, ...]] = {
    Policy.DEFAULT: ("CPU",),
    Policy.PREFER_CPU: ("CPU",),
    Policy.PREFER_GPU: ("GPU", "CPU"),
    Policy.PREFER_NPU: ("NPU", "CPU"),
    Policy.MAX_PERFORMANCE: ("GPU", "CPU"),
    Policy.MAX_EFFICIENCY: ("NPU", "CPU"),
    Policy.MIN_OVERALL_POWER: ("NPU", "CPU"),
}


class Candidate(Record, frozen=True):
    """What a policy knows of an EP device."""

    ep_name: str
    ep_vendor: str
    device_type: str  # CPU, GPU or NPU
    device_vendor: str = ""
    discrete: bool = False


def describe(device: OrtEpDevice) -> Candidate:
    """The candidate that an EP device is."""
    hardware = device.device
    return Candidate(
        device.ep_name,
        device.ep_vendor,
        hardware.type.name,
        hardware.vendor,
        hardware.metadata.get("Discrete", hardware.metadata.get("discrete")) == "1",
    )


def apply_policy(policy: Policy, candidates: Sequence[Candidate]) -> tuple[int | None, str]:
    """The candidate that a policy takes (its index), or None; and the reason."""
    wanted = POLICIES[policy]
    for kind in wanted:
        of_kind = [at for at, candidate in enumerate(candidates) if candidate.device_type == kind]
        if not of_kind:
            continue
        best = min(of_kind, key=lambda at: _rank(candidates[at]))
        taken = candidates[best]
        why = [f"{policy.name} looks for {', then '.join(wanted)}"]
        why += [f"there is no {missing}" for missing in wanted[: wanted.index(kind)]]
        if len(of_kind) > 1:
            why.append(f"the best of {len(of_kind)} {kind} devices")
        return best, f"{taken.ep_name} on the {taken.device_vendor} {kind}: " + "; ".join(why)
    offered = ", ".join(f"{c.ep_name} ({c.device_type})" for c in candidates) or "none"
    return (
        None,
        f"no plugin: {policy.name} looks for {', then '.join(wanted)}; the devices offered are {offered}",
    )


def _rank(candidate: Candidate) -> tuple[bool, bool]:
    vendor = candidate.device_vendor.lower()
    own = bool(vendor) and vendor in candidate.ep_vendor.lower()
    return not candidate.discrete, not own


def apply_delegate(
    delegate: Callable[..., Any], devices: Sequence[OrtEpDevice], model_metadata: Mapping[str, str]
) -> list[OrtEpDevice]:
    """What a user's function chooses.

    Raises:
        Fail: it raised, chose nothing or too much, or gave something that is no list of these devices.
    """
    try:
        answer = delegate(list(devices), dict(model_metadata), {}, MAX_DELEGATE_DEVICES)
    except Exception as error:
        raise Fail(f"EP selection delegate failed: {type(error).__name__}: {error}") from error
    if not isinstance(answer, (list, tuple)) or not all(isinstance(item, OrtEpDevice) for item in answer):
        raise Fail(f"EP selection delegate failed: it gave no list of OrtEpDevices but {answer!r}")
    if not answer:
        raise Fail("EP selection delegate did not select anything.")
    if len(answer) > MAX_DELEGATE_DEVICES:
        raise Fail(
            f"EP selection delegate failed: selected too many EP devices ({len(answer)}). "
            f"The limit is {MAX_DELEGATE_DEVICES} EP devices."
        )
    if any(item not in devices for item in answer) or len({id(item) for item in answer}) < len(answer):
        raise Fail("EP selection delegate failed: it gave a device twice, or one that it was not offered")
    return list(answer)


def normalize(
    providers: Sequence[ProviderEntry] | None, provider_options: Sequence[Mapping[str, Any]] | None
) -> list[tuple[str, dict[str, str]]]:
    """``providers`` and ``provider_options`` as (name, options) pairs, without repetitions.

    Raises:
        ValueError: they are no sequences, do not fit each other, or have entries of other kinds.
    """
    if providers is None:
        return []
    if isinstance(providers, str) or not isinstance(providers, Sequence):
        raise ValueError("'providers' should be a sequence.")
    if provider_options is not None and not isinstance(provider_options, Sequence):
        raise ValueError("'provider_options' should be a sequence.")
    if provider_options:
        if len(providers) != len(provider_options):
            raise ValueError(
                "'providers' and 'provider_options' should be the same length if both are given."
            )
        if not all(isinstance(provider, str) for provider in providers):
            raise ValueError(
                "Only string values for 'providers' are supported if 'provider_options' is given."
            )
        if not all(isinstance(options, Mapping) for options in provider_options):
            raise ValueError("'provider_options' values must be dicts.")
        providers = [(str(name), options) for name, options in zip(providers, provider_options, strict=True)]
    found: dict[str, dict[str, str]] = {}
    for provider in providers:
        entry = (provider, {}) if isinstance(provider, str) else provider
        if not (isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], str)):
            raise ValueError("'providers' values must be either strings or (string, dict) tuples.")
        name, options = entry
        if not isinstance(options, Mapping):
            raise ValueError("'providers' values must be either strings or (string, dict) tuples.")
        if name in found:
            warn_of_argument(f"Duplicate provider '{name}' encountered, ignoring.")
            continue
        texts = {str(key): str(value) for key, value in options.items()}
        found[name] = checked_entries(texts, f"the options of {name}")
    return list(found.items())


def check_and_normalize_provider_args(
    providers: Sequence[ProviderEntry] | None,
    provider_options: Sequence[Mapping[str, Any]] | None,
    available_provider_names: Sequence[str],
) -> tuple[list[str], list[dict[str, str]]]:
    """Names and options of ``providers``, with a warning for each name that is not available.

    Raises:
        ValueError: as :func:`normalize`.
    """
    pairs = normalize(providers, provider_options)
    for name, _ in pairs:
        if name not in available_provider_names:
            _warn_unavailable(name, available_provider_names)
    return [name for name, _ in pairs], [options for _, options in pairs]


def _warn_unavailable(name: str, available: Sequence[str]) -> None:
    warn_of_argument(
        f"Specified provider '{name}' is not in available provider names"
        f"{_instead(name, available)}. Available providers: '{', '.join(available)}'"
    )


_ENDING = "ExecutionProvider"  # which says nothing of what somebody meant


def _instead(name: str, available: Sequence[str]) -> str:
    """What to do where a provider is not there: a name that is like it, or where providers come from."""
    if not name.endswith(_ENDING):
        return did_you_mean(name, available)
    stem = closest(name.removesuffix(_ENDING), [known.removesuffix(_ENDING) for known in available])
    if stem is None:
        return ": the plugin that offers it is to be registered (register_execution_provider_library)"
    return did_you_mean(name, [known for known in available if known.removesuffix(_ENDING) == stem])


def named(
    providers: Sequence[ProviderEntry] | None, provider_options: Sequence[Mapping[str, Any]] | None
) -> list[Chosen]:
    """The devices of execution providers by name; a name that is not available is warned about and left out.

    Raises:
        ValueError: as :func:`normalize`.
    """
    chosen = []
    for name, options in normalize(providers, provider_options):
        devices = devices_of(name)
        if devices:
            chosen.append(Chosen(devices, options))
        elif name != DEFAULT_PROVIDER:
            _warn_unavailable(name, get_available_providers())
    return chosen


def check_known(
    providers: Sequence[ProviderEntry] | None, provider_options: Sequence[Mapping[str, Any]] | None
) -> None:
    """Raise InvalidArgument for a name that is not available; ValueError as :func:`normalize`."""
    available = get_available_providers()
    for name, _ in normalize(providers, provider_options):
        if name not in available:
            raise InvalidArgument(
                f"Unknown Provider Type: {name}{_instead(name, available)}. Available are "
                f"{', '.join(available)}"
            )


_defaults: list[ProviderEntry] = []


def set_default_providers(providers: Sequence[ProviderEntry] | None) -> None:
    """Which execution providers sessions of this process get when they name none themselves.

    Args:
        providers: names, or (name, options) pairs, in order of priority; looked up when a session is made.
            None or empty: the bundled CPU plugin alone, which is how a process starts.

    Raises:
        ValueError: entries of other kinds.
    """
    normalize(providers, None)
    _defaults[:] = list(providers or ())


def is_available(ep_name: str) -> bool:
    """Whether a session can be given the execution provider of that name now."""
    return ep_name in get_available_providers()


def choose(
    options: SessionOptions,
    providers: Sequence[ProviderEntry] | None,
    provider_options: Sequence[Mapping[str, Any]] | None,
    model_metadata: Callable[[], Mapping[str, str]],
) -> list[Chosen]:
    """Who gets the model, in order of priority.

    What a session is given by itself goes before what its options say, and that before the process's default;
    devices that were added to the options go before their policy.

    Raises:
        ValueError: ``providers`` or ``provider_options`` are not as they should be.
        Fail: the options' delegate failed.
    """
    if providers is not None and (not isinstance(providers, Sequence) or providers):
        if options.has_providers():
            warn_of_argument(
                "execution providers are given both in the session options and as 'providers': the latter "
                "are used"
            )
        return named(providers, provider_options)
    if options._providers or options._host_only:
        return list(options._providers)
    policy = options._policy
    if policy is None:
        return named(_defaults, None)
    devices = get_ep_devices()
    if isinstance(policy, Policy):
        # The bundled plugin takes what is left in any case: a policy chooses who comes before it.
        devices = [device for device in devices if device.registration_name != DEFAULT_PROVIDER]
        index, reason = apply_policy(policy, [describe(device) for device in devices])
        _LOG.info("the session runs on %s", reason)
        return [] if index is None else [Chosen((devices[index],), {}, error_on_failure=True)]
    grouped: dict[Any, list[OrtEpDevice]] = {}
    for device in apply_delegate(policy, devices, model_metadata()):
        grouped.setdefault((device.ep_name, device._factory), []).append(device)
    _LOG.info("the session runs on %s, as the selection delegate says", [name for name, _ in grouped])
    return [Chosen(tuple(members), {}, error_on_failure=True) for members in grouped.values()]


def provider_options(ep_name: str, **options: str | int | float | os.PathLike[str]) -> dict[str, str]:
    """Options for an execution provider as the strings that it takes, its keys checked where they can be.

    Args:
        ep_name: an execution provider of a registered library.
        **options: its options; True is "1", False "0", a path its text.

    Raises:
        InvalidArgument: no registered library has such an execution provider; or the plugin publishes option
            keys (``OrtEpDevice.ep_options``) and one of these is not among them.
        TypeError: a value of another kind.
    """
    devices = devices_of(of_type("the ep_name", ep_name, str))
    if not devices:
        raise InvalidArgument(
            f"no registered library has an execution provider {ep_name}"
            f"{did_you_mean(ep_name, get_available_providers())}"
        )
    published = {key for device in devices for key in device.ep_options}
    if published and (unknown := sorted(set(options) - published)):
        keys = ", ".join(sorted(published))
        raise InvalidArgument(
            f"{ep_name} has no option {unknown[0]}{did_you_mean(unknown[0], published)}; it publishes {keys}"
        )
    return {key: _option_text(key, value) for key, value in options.items()}


def _option_text(key: str, value: object) -> str:
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise TypeError(f"the option {key} is a str, a number, a bool or a path, not {value!r}")
