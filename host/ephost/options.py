"""SessionOptions and RunOptions, under onnxruntime's names."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ephost._bindings import NULL, api, check, ffi, lib, text
from ephost.arguments import (
    boolean,
    characters,
    file_path,
    integer,
    of_type,
    several,
    short,
)
from ephost.config_keys import warn_of_run_key
from ephost.config_values import check_run_value
from ephost.devices import OrtSyncStream
from ephost.enums import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    OrtExecutionProviderDevicePolicy,
)
from ephost.environment import (
    OrtEpDevice,
    get_available_providers,
    get_ep_devices,
    processor_count,
)
from ephost.errors import InvalidArgument, RuntimeException
from ephost.host_log import HostLog
from ephost.providers import DEFAULT_PROVIDER
from ephost.records import Record
from ephost.suggestions import did_you_mean

if TYPE_CHECKING:
    from ephost.context_data import OrtEpContextDataBuffer, Reader, Writer
    from ephost.messages import ModelProto
    from ephost.model.custom_ops import CustomOpLibrary
    from ephost.progress import ProgressFunction

_LOG = HostLog("ephost.options")


_LONGEST_KEY, _LONGEST_VALUE = 1024, 8192  # bytes, as in onnxruntime


def checked_entries(pairs: Mapping[str, Any] | None, what: str) -> dict[str, str]:
    """Entries of provider options, as onnxruntime takes them.

    Raises:
        TypeError: no mapping, or an entry as in :func:`_check_entry`.
        InvalidArgument: an entry as there.
    """
    entries = dict(of_type(what, {} if pairs is None else pairs, Mapping))  # type: ignore[type-abstract]
    for key, value in entries.items():
        _check_entry(key, value, what)
    return entries


def _check_entry(key: Any, value: Any, what: str) -> None:
    """Check an entry of session, run or provider options.

    Raises:
        TypeError: a key or value that is no str.
        InvalidArgument: one that is empty, too long or no text.
    """
    if not isinstance(key, str) or not isinstance(value, str):
        raise TypeError(f"{what}: keys and values are str, not {short(key)}: {short(value)}")
    entry = f"{what}: the entry {short(key)}: {short(value)}"
    if not key or "\0" in key or "\0" in value:
        raise InvalidArgument(f"{entry} has an empty key, or a NUL")
    try:
        sizes = len(key.encode()), len(value.encode())
    except UnicodeEncodeError:
        raise InvalidArgument(f"{entry} is nothing that UTF-8 has") from None
    if sizes[0] > _LONGEST_KEY:
        raise InvalidArgument(f"{what}: the key {short(key)} is longer than {_LONGEST_KEY} bytes")
    if sizes[1] > _LONGEST_VALUE:
        raise InvalidArgument(f"{what}: the value of {short(key)} is longer than {_LONGEST_VALUE} bytes")


def _as_integer(value: Any, least: int, most: int) -> int | None:
    """An integer between two bounds, Python's or numpy's; True is 1. None: it is something else."""
    taken = isinstance(value, (int, np.integer, np.bool_))
    return int(value) if taken and least <= int(value) <= most else None


def _as_text(what: str, value: Any) -> str:
    """A text, or bytes or a path that are one.

    Raises:
        TypeError: something else.
        InvalidArgument: it cannot be encoded.
    """
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise TypeError(f"{what} is a str, not {short(value)}")
    return file_path(what, value)


class _Option:
    """A field of SessionOptions: typed, with a default; setting another type is a TypeError. What passes for
    a type is what passes for it in onnxruntime, and the numbers of enumerators.
    """

    def __init__(self, kind: type, default: Any, doc: str) -> None:
        self._kind, self.default, self.__doc__ = kind, default, doc

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, options: SessionOptions | None, owner: type) -> Any:
        return self if options is None else options._fields.get(self._name, self.default)

    def __set__(self, options: SessionOptions, value: Any) -> None:
        kind, what = self._kind, f"SessionOptions.{self._name}"
        made: Any
        if kind is str:
            made = _as_text(what, value)
        elif kind is bool:
            made = boolean(what, value)
        elif kind is int:
            made = _as_integer(value, -(2**31), 2**31 - 1)
        else:
            numbers = {int(member): member for member in kind}  # type: ignore[attr-defined]
            made = numbers.get(int(value)) if isinstance(value, (int, np.integer)) else value
        if not isinstance(made, kind):
            wanted = "an int of 32 bits" if kind is int else f"a {kind.__name__}"
            raise TypeError(f"{what} is {wanted}, not {value!r}")
        options._fields[self._name] = made


class Chosen(Record, frozen=True):
    """Devices of one execution provider that a session is to use, and how."""

    devices: tuple[OrtEpDevice, ...]
    options: Mapping[str, str]
    error_on_failure: bool | None = None

    @property
    def ep_name(self) -> str:
        """The name of the execution provider."""
        return self.devices[0].ep_name


# Fields without an effect here: why, said once for each when a session is made with another value than the
# default.
_WITHOUT_EFFECT = {
    "enable_cpu_mem_arena": "the host's allocator caches blocks for the whole process",
    "enable_mem_pattern": "the plan of a session always lays out its memory",
    "enable_mem_reuse": "the plan of a session always reuses memory",
    "execution_mode": "the nodes of a run are executed one after the other",
    "execution_order": "nodes run in the model's order",
    "inter_op_num_threads": "the nodes of a run are executed one after the other",
    "log_verbosity_level": "verbose messages have one level",
    "use_deterministic_compute": "the host's own work is always deterministic; plugins are not told",
}
_said: set[str] = set()

PolicyDelegate = Callable[
    [Sequence[OrtEpDevice], Mapping[str, str], Mapping[str, str], int], Sequence[OrtEpDevice]
]


class SessionOptions:
    """How a session is made. A session copies what it needs: later changes do not reach it."""

    enable_cpu_mem_arena = _Option(bool, True, "Accepted; the host's allocator always keeps freed blocks.")
    enable_mem_pattern = _Option(bool, True, "Accepted; a session's memory is always planned.")
    enable_mem_reuse = _Option(bool, True, "Accepted; memory is always reused.")
    enable_profiling = _Option(bool, False, "Record the time of each step, for ``session.end_profiling``.")
    execution_mode = _Option(ExecutionMode, ExecutionMode.ORT_SEQUENTIAL, "Accepted; nodes run one by one.")
    execution_order = _Option(
        ExecutionOrder, ExecutionOrder.DEFAULT, "Accepted; nodes run in the model's order."
    )
    graph_optimization_level = _Option(
        GraphOptimizationLevel,
        GraphOptimizationLevel.ORT_ENABLE_ALL,
        "Below ORT_ENABLE_BASIC nothing is folded.",
    )
    inter_op_num_threads = _Option(int, 0, "Accepted; nodes run one by one.")
    intra_op_num_threads = _Option(int, 0, "Threads of the session's pool; 0: one for each processor.")
    log_severity_level = _Option(
        int, -1, "Severity from which the session's messages are logged; -1: the default."
    )
    log_verbosity_level = _Option(int, 0, "Accepted; verbose messages have one level.")
    logid = _Option(str, "", "The name of the session's logger.")
    optimized_model_filepath = _Option(
        str, "", "Where the folded model is written, before any plugin takes part."
    )
    profile_file_prefix = _Option(str, "onnxruntime_profile_", "What the profile's file name begins with.")
    use_deterministic_compute = _Option(bool, False, "Accepted; the host's own work is always deterministic.")
    use_per_session_threads = _Option(
        bool, True, "False: the pool of ``set_global_thread_pool_sizes`` is used."
    )

    __slots__ = (
        "__weakref__",
        "_cancelled",
        "_config",
        "_context_reader",
        "_context_writer",
        "_custom_op_libraries",
        "_external_files",
        "_fields",
        "_free_denotations",
        "_free_dimensions",
        "_host_only",
        "_initializers",
        "_must_replace",
        "_policy",
        "_progress",
        "_providers",
    )

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}
        self._config: dict[str, str] = {}
        self._custom_op_libraries: list[CustomOpLibrary] = []
        self._free_dimensions: dict[str, int] = {}
        self._free_denotations: dict[str, int] = {}
        self._providers: list[Chosen] = []
        self._host_only = False  # add_provider("CPUExecutionProvider") says so
        self._policy: OrtExecutionProviderDevicePolicy | PolicyDelegate | None = None
        self._initializers: dict[str, np.ndarray] = {}
        self._must_replace: set[str] = set()  # those that each session's model has to have
        self._external_files: dict[str, np.ndarray] = {}
        self._cancelled = False
        self._progress: ProgressFunction | None = None
        self._context_reader: Reader | None = None
        self._context_writer: Writer | None = None  # ModelCompiler's

    def __copy__(self) -> Self:
        """The same options; what is changed of the one from then on is not changed of the other."""
        made = type(self).__new__(type(self))
        fields = {name: getattr(self, name) for name in SessionOptions.__slots__ if name != "__weakref__"}
        for name, value in {**fields, **getattr(self, "__dict__", {})}.items():
            setattr(made, name, value.copy() if isinstance(value, (dict, list, set)) else value)
        return made

    # ---- options by key ----

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Set an option by its string key, such as ``session.disable_cpu_ep_fallback``; plugins see all of
        them.

        Raises:
            TypeError: a key or value that is no str.
            InvalidArgument: an empty key.
        """
        _check_entry(key, value, "add_session_config_entry")
        self._config[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """The value of an option.

        Raises:
            TypeError: the key is no str.
            RuntimeException: it was not set.
        """
        if of_type("the key of a session's option", key, str) not in self._config:
            raise RuntimeException(f"SessionOptions does not have configuration with key: {key}")
        return self._config[key]

    # ---- what the model is given ----

    def add_free_dimension_override_by_name(self, name: str, value: int) -> None:
        """Fix the dimensions of the model's inputs that bear this name.

        Raises:
            TypeError: a name that is no text.
            InvalidArgument: a value that no dimension has.
        """
        name = _as_text("the name of a dimension", name)
        self._free_dimensions[name] = _dimension(name, value)

    def add_free_dimension_override_by_denotation(self, denotation: str, value: int) -> None:
        """Fix the dimensions of the model's inputs that have this denotation.

        Raises:
            TypeError: a denotation that is no text.
            InvalidArgument: a value that no dimension has.
        """
        denotation = _as_text("the denotation of a dimension", denotation)
        self._free_denotations[denotation] = _dimension(denotation, value)

    def add_initializer(self, name: str, ort_value: Any) -> None:
        """Use a value in place of the model's initializer of that name; its memory is shared, not copied. A
        model without one goes without.

        Raises:
            TypeError: it is no tensor in an OrtValue.
            InvalidArgument: the name was given before.
        """
        self._replace([name], [ort_value])

    def add_external_initializers(self, names: Sequence[str], ort_values: Sequence[Any]) -> None:
        """Use values in place of the model's initializers, whose external data need not exist then.

        Raises:
            TypeError: a value that is no tensor in an OrtValue.
            InvalidArgument: more names than values or fewer, or a name given before.
            Where a session opens a model that has no such initializer, Fail.
        """
        given = several("the names of initializers", names)
        self._replace(given, several("the values of initializers", ort_values))
        self._must_replace.update(given)

    def _replace(self, names: Sequence[str], ort_values: Sequence[Any]) -> None:
        if len(names) != len(ort_values):
            raise InvalidArgument(
                f"there are {len(names)} names of initializers and {len(ort_values)} values"
            )
        arrays: dict[str, np.ndarray] = {}
        for name, value in zip(names, ort_values, strict=True):
            of_type("the name of an initializer", name, str)
            array = value.numpy() if getattr(value, "is_tensor", bool)() else None
            if not isinstance(array, np.ndarray):
                raise TypeError(
                    f"the initializer '{name}' is a tensor in an OrtValue, not {type(value).__name__}"
                )
            if name in self._initializers or name in arrays:
                raise InvalidArgument(f"the initializer '{name}' was given before")
            arrays[name] = array
        self._initializers.update(arrays)

    def add_external_initializers_from_files_in_memory(
        self, file_names: Sequence[str], buffers: Sequence[Any], lengths: Sequence[int]
    ) -> None:
        """Read the model's external data from buffers in place of files of those names.

        The buffers are not copied, and stay alive with the options and their sessions.

        Raises:
            TypeError: a name that is no str, a buffer that is none, a length that is no int.
            InvalidArgument: not as many of each, a name twice, or a length beyond its buffer.
        """
        file_names = several("the names of files", file_names)
        buffers, lengths = several("the buffers", buffers), several("their lengths", lengths)
        if not len(file_names) == len(buffers) == len(lengths):
            raise InvalidArgument(
                f"there are {len(file_names)} file names, {len(buffers)} buffers and {len(lengths)} lengths"
            )
        files = {}
        for name, buffer, length in zip(file_names, buffers, lengths, strict=True):
            of_type("the name of a file", name, str)
            try:
                data = np.frombuffer(buffer, dtype=np.uint8)
            except (TypeError, ValueError) as error:
                raise TypeError(f"the buffer for '{name}' has no bytes: {error}") from None
            if name in files:
                raise InvalidArgument(f"the file '{name}' is given twice")
            if not 0 <= integer(f"the length of '{name}'", length, -(2**63), 2**63 - 1) <= data.size:
                raise InvalidArgument(f"the buffer for '{name}' has {data.size} bytes, not {length}")
            files[name] = data[:length]
        self._external_files.update(files)

    def register_custom_ops_library(self, path: str | os.PathLike[str]) -> None:
        """Let sessions with these options know the operators of a library with a function RegisterCustomOps.

        What no execution provider claims of them is run by the library's own kernels. The library stays open
        as long as the options or a session with them.

        Raises:
            NoSuchFile, Fail: it cannot be opened, or has no such function.
            The library's own error.
        """
        from ephost.model.custom_ops import CustomOpLibrary

        self._custom_op_libraries.append(CustomOpLibrary(path))

    def set_ep_context_data_read_func(
        self, read_func: Callable[[str, OrtEpContextDataBuffer], Any], max_data_size: int
    ) -> None:
        """Have a function give the data of EPContext nodes that do not embed it, in place of files.

        Args:
            read_func: called with the name that a node has for its data and an
                :class:`ephost.OrtEpContextDataBuffer`, of which it calls ``allocate`` once and ``write`` as
                often as it likes. Threads may call it at once.
            max_data_size: the most bytes that it may allocate.

        Raises:
            TypeError: no function, or no number.
            RuntimeException: None, or a size of 0.
            Where a session opens such a model, Fail: its execution provider takes no data from a function.
        """
        from ephost.context_data import Reader

        self._context_reader = Reader(read_func, max_data_size)

    def clear_ep_context_data_read_func(self) -> None:
        """Have execution providers read their files again."""
        self._context_reader = None

    def set_progress_function(self, function: ProgressFunction | None) -> None:
        """Have a function told how far the opening of a session with these options is. A name of ephost's
        own.

        Without one, an opening that takes more than a second says so in the log, as INFO of
        ``ephost.session``.

        Args:
            function: called with an :class:`ephost.OpeningProgress` when a stage begins, and when another
                execution provider gets the model; in the thread that opens it. What it raises ends the
                opening. None: nobody is told.

        Raises:
            TypeError: it cannot be called.
        """
        if function is not None and not callable(function):
            raise TypeError(f"a progress function is a function or None, not {function!r}")
        self._progress = function

    def set_load_cancellation_flag(self, value: bool) -> None:
        """True, from any thread, stops the opening of sessions with these options before its next stage.

        Raises:
            TypeError: it is neither a bool nor a number.
        """
        self._cancelled = boolean("the load cancellation flag", value)

    # ---- who runs the model ----

    def add_provider_for_devices(
        self,
        ep_devices: Sequence[OrtEpDevice],
        provider_options: Mapping[str, str],
        *,
        error_on_failure: bool | None = None,
    ) -> None:
        """Give the session an execution provider, behind those given before.

        Args:
            ep_devices: from :func:`ephost.get_ep_devices`, all of the same EP of the same library.
            provider_options: the EP's own options; it sees them as ``ep.<name in lower case>.<key>``.
            error_on_failure: when the EP cannot be created, True: raise that in any case; False: log it and
                go on; None: what the session's ``enable_fallback`` says, but raise InvalidArgument, which an
                option that it does not take is.

        Raises:
            InvalidArgument: no device, devices of several EPs, or a device whose library is gone.
            TypeError: an option that is no str, or something in place of devices.
        """
        devices = several("ep_devices", ep_devices)
        if not devices:
            raise InvalidArgument("Must provide one or more OrtEpDevice instances.")
        for device in devices:
            if not isinstance(device, OrtEpDevice):
                raise TypeError(f"add_provider_for_devices takes OrtEpDevices, not {type(device).__name__}")
            if not device.is_registered:
                raise InvalidArgument(
                    f"the device of {device.ep_name} is of the library '{device.registration_name}', "
                    "which is not registered any more"
                )
        if len({(d.ep_name, int(_address(d._factory))) for d in devices}) > 1:
            names = ", ".join(dict.fromkeys(f"{d.ep_name} of '{d.registration_name}'" for d in devices))
            raise InvalidArgument(
                "All OrtEpDevice values in ep_devices must have the same execution provider; "
                f"these are of {names}."
            )
        options = checked_entries(provider_options, f"options of {devices[0].ep_name}")
        self._providers.append(Chosen(tuple(devices), options, error_on_failure))

    def add_provider(
        self, provider_name: str, provider_options: Mapping[str, str], *, error_on_failure: bool | None = None
    ) -> None:
        """Give the session all devices of an execution provider by its name, behind those given before.

        Args:
            provider_name: as in :func:`ephost.get_available_providers`.
            provider_options: the EP's own options.
            error_on_failure: as for ``add_provider_for_devices``; False also when there is no such EP.

        Raises:
            InvalidArgument: no registered library has such an EP.
            TypeError: an option that is no str.
        """
        options = checked_entries(
            provider_options, f"options of {of_type('the provider_name', provider_name, str)}"
        )
        if provider_name == DEFAULT_PROVIDER:
            self._host_only = True
            return
        devices = devices_of(provider_name)
        if devices:
            self._providers.append(Chosen(devices, options, error_on_failure))
            return
        complaint = (
            f"Unknown Provider Type: {provider_name}"
            f"{did_you_mean(provider_name, get_available_providers())}. "
            f"Available are {', '.join(get_available_providers())}: "
            "register its library first, and see get_ep_devices() for what it offers on this machine"
        )
        if error_on_failure is not False:
            raise InvalidArgument(complaint)
        _LOG.warning("%s", complaint)

    def set_provider_selection_policy(self, policy: OrtExecutionProviderDevicePolicy) -> None:
        """Have the session choose its device itself; :mod:`ephost.selection` has the table of what each
        policy takes.

        Raises:
            TypeError: it is no policy.
        """
        if not isinstance(policy, OrtExecutionProviderDevicePolicy):
            raise TypeError(f"a policy is an OrtExecutionProviderDevicePolicy, not {policy!r}")
        self._policy = policy

    def set_provider_selection_policy_delegate(self, delegate: PolicyDelegate) -> None:
        """Have a function choose the session's devices when it is made.

        Args:
            delegate: called with all EP devices, the model's metadata, the runtime's metadata, and how many
                devices it may return; returns a list of some of these devices, in order of priority.

        Raises:
            TypeError: it cannot be called.
        """
        if not callable(delegate):
            raise TypeError(f"a selection delegate is a function, not {delegate!r}")
        self._policy = delegate

    def has_providers(self) -> bool:
        """Whether execution providers, devices or a policy were given."""
        return bool(self._providers) or self._host_only or self._policy is not None

    def _explain(self) -> None:
        """Say, once for each field in a process, which of the fields that were set have no effect here."""
        for name, value in self._fields.items():
            reason = _WITHOUT_EFFECT.get(name)
            if reason and value != getattr(type(self), name).default and name not in _said:
                _said.add(name)
                _LOG.info("SessionOptions.%s = %s has no effect: %s", name, value, reason)


CONFIG_FROM_MODEL = "ORT_LOAD_CONFIG_FROM_MODEL"  # a variable of the environment
_CONFIG_KEY = "ort_config"  # in a model's metadata
_CONFIG_FIELDS: dict[str, Callable[[Any], Any]] = {
    "intra_op_num_threads": int,
    "inter_op_num_threads": int,
    "execution_mode": ExecutionMode,
    "graph_optimization_level": {level.value: level for level in GraphOptimizationLevel}.__getitem__,
    "enable_profiling": lambda value: bool(int(value)),
}


def options_of_model(proto: ModelProto, given: SessionOptions) -> SessionOptions:
    """Options of which those that a model brings are the model's: ``{"session_options": {...}}`` as JSON in
    its metadata under ``ort_config``, where onnxruntime looks for it.

    Args:
        proto: the model.
        given: the options for a model that brings none; unchanged.

    Raises:
        InvalidArgument: what the model brings is not as it should be.
    """
    text = next((entry.value for entry in proto.metadata_props if entry.key == _CONFIG_KEY), None)
    if text is None:
        return given
    made = copy.copy(given)
    try:
        import json

        wanted = json.loads(text)["session_options"]
        for name, value in wanted.items():
            if name in _CONFIG_FIELDS:
                setattr(made, name, _CONFIG_FIELDS[name](value))
            else:
                _LOG.warning("the model's configuration has the unknown session option '%s'", name)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidArgument(
            f"the model's own configuration ({_CONFIG_KEY} in its metadata) cannot be read: {error!r}"
        ) from error
    return made


def devices_of(ep_name: str) -> tuple[OrtEpDevice, ...]:
    """All devices of an execution provider. When a library is registered twice, those of the first
    registration.
    """
    found = [device for device in get_ep_devices() if device.ep_name == ep_name]
    return tuple(device for device in found if device._factory == found[0]._factory)


def _address(pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))


def _dimension(name: str, value: int) -> int:
    made = _as_integer(value, 0, 2**63 - 1)
    if made is None:
        raise InvalidArgument(f"the dimension '{name}' cannot be {value!r}")
    return made


class RunOptions:
    """How one run is made. Runs may share it; ``terminate = True`` from any thread stops those under way."""

    __slots__ = (
        "__weakref__",
        "_adapted",
        "_address",
        "_entries",
        "_followers",
        "_only_fetches",
        "_pointer",
        "_stream",
        "_terminate",
    )

    def __init__(self) -> None:
        out = ffi.new("OrtRunOptions**")
        check(api.CreateRunOptions(out))
        self._pointer = ffi.gc(out[0], api.ReleaseRunOptions)
        self._address = _address(out[0])
        self._only_fetches = False
        self._adapted: dict[str, Any] = {}  # the tensors of active adapters
        self._entries: dict[str, str] = {}
        self._followers: dict[int, RunOptions] = {}  # by their addresses: what `terminate` is set on, too
        self._stream: OrtSyncStream | None = None
        self._terminate = False

    def __copy__(self) -> RunOptions:
        """The same options, which are set and terminated by themselves."""
        made = RunOptions()
        made.only_execute_path_to_fetches = self._only_fetches
        made.log_severity_level = self.log_severity_level
        made.log_verbosity_level = self.log_verbosity_level
        made.logid = self.logid
        made.sync_stream = self._stream
        made.terminate = self._terminate
        made._adapted = self._adapted
        made._entries = self._entries.copy()
        for key, value in made._entries.items():
            check(api.AddRunConfigEntry(made._pointer, key.encode(), value.encode()))
        return made

    def _follower(self) -> RunOptions:
        """The same options for one run, which can be terminated alone. Setting ``terminate`` here sets it
        there, until :meth:`_release`.
        """
        made = copy.copy(self)
        self._followers[made._address] = made
        if self._terminate:  # read when whoever sets it sees the follower
            made.terminate = True
        return made

    def _release(self, follower: RunOptions) -> None:
        del self._followers[follower._address]

    @property
    def only_execute_path_to_fetches(self) -> bool:
        """Whether a run leaves out the steps that the outputs it was asked for do not need."""
        return self._only_fetches

    @only_execute_path_to_fetches.setter
    def only_execute_path_to_fetches(self, value: bool) -> None:
        self._only_fetches = boolean("RunOptions.only_execute_path_to_fetches", value)
        lib.ephost_run_options_only_fetches(self._pointer, self._only_fetches)

    @property
    def terminate(self) -> bool:
        """Set to stop the runs that use these options before their next node."""
        return self._terminate

    @terminate.setter
    def terminate(self, value: bool) -> None:
        self._terminate = boolean("RunOptions.terminate", value)
        check(
            (api.RunOptionsSetTerminate if self._terminate else api.RunOptionsUnsetTerminate)(self._pointer)
        )
        for follower in list(self._followers.values()):
            follower.terminate = value

    @property
    def sync_stream(self) -> OrtSyncStream | None:
        """The stream on which the execution provider of its device works in runs with these options, instead
        of on one of the run's own; None: there is none. A name of ephost's own, for
        ``RunOptionsSetSyncStream`` of the C API.

        What such a run leaves on the device is there when the stream was waited for; results on the CPU are
        there when the run ends. Runs that share a stream share its order.
        """
        return self._stream

    @sync_stream.setter
    def sync_stream(self, value: OrtSyncStream | None) -> None:
        if value is not None and not isinstance(value, OrtSyncStream):
            raise TypeError(f"sync_stream is an OrtSyncStream or None, not {type(value).__name__}")
        api.RunOptionsSetSyncStream(self._pointer, NULL if value is None else value._pointer)
        self._stream = value

    @property
    def logid(self) -> str:
        """A tag for the log messages of a run."""
        out = ffi.new("char**")
        check(api.RunOptionsGetRunTag(self._pointer, out))
        return text(out[0])

    @logid.setter
    def logid(self, value: str) -> None:
        tag = characters("RunOptions.logid", _as_text("RunOptions.logid", value))
        check(api.RunOptionsSetRunTag(self._pointer, tag))

    @property
    def log_severity_level(self) -> int:
        """Severity from which a run's messages are logged; plugins can ask for it."""
        out = ffi.new("int*")
        check(api.RunOptionsGetRunLogSeverityLevel(self._pointer, out))
        return int(out[0])

    @log_severity_level.setter
    def log_severity_level(self, value: int) -> None:
        severity = integer("log_severity_level", value, -1, 4)
        check(api.RunOptionsSetRunLogSeverityLevel(self._pointer, severity))

    @property
    def log_verbosity_level(self) -> int:
        """Verbosity of a run's messages; plugins can ask for it."""
        out = ffi.new("int*")
        check(api.RunOptionsGetRunLogVerbosityLevel(self._pointer, out))
        return int(out[0])

    @log_verbosity_level.setter
    def log_verbosity_level(self, value: int) -> None:
        check(api.RunOptionsSetRunLogVerbosityLevel(self._pointer, integer("log_verbosity_level", value)))

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Set an option of the run by its string key; plugins see it."""
        _check_entry(key, value, "add_run_config_entry")
        warn_of_run_key(key)
        check_run_value(key, value)
        check(api.AddRunConfigEntry(self._pointer, key.encode(), value.encode()))
        self._entries[key] = value

    def add_active_adapter(self, adapter: Any) -> None:
        """Have runs take the tensors of a ``LoraAdapter`` for the inputs of their names, whatever the caller
        feeds. Of several adapters with one name the first counts.

        Raises:
            TypeError: it is no LoraAdapter.
        """
        from ephost.adapters import LoraAdapter

        if not isinstance(adapter, LoraAdapter):
            raise TypeError(f"add_active_adapter takes a LoraAdapter, not {type(adapter).__name__}")
        self._adapted = {**adapter._parameters, **self._adapted}

    def _fed(self, feed: Any) -> Any:
        """What a run is fed: the caller's feed, with what the adapters have."""
        return {**feed, **self._adapted} if self._adapted else feed

    def get_run_config_entry(self, key: str) -> str:
        """The value of an option of the run.

        Raises:
            RuntimeException: it was not set.
        """
        found = api.GetRunConfigEntry(self._pointer, characters("the key", key))
        if not found:
            raise RuntimeException(f"RunOptions does not have configuration with key: {key}")
        return text(found)


def thread_count(options: SessionOptions) -> int:
    """Threads of a session's pool: the user's number, or that of the processors this process may use."""
    wanted: int = options.intra_op_num_threads
    return wanted if wanted > 0 else processor_count()


def as_run_options(options: Any) -> RunOptions:
    """The options of a run, if that is what they are.

    Raises:
        TypeError: they are not.
    """
    if not isinstance(options, RunOptions):
        raise TypeError(f"the options of a run are a RunOptions, not {options!r}")
    return options
