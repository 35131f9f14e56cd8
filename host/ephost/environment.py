"""The registry of this process: plugin libraries, hardware devices, EP devices, shared allocators."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from ephost._bindings import (
    NULL,
    api,
    check,
    ep_api,
    ffi,
    key_values,
    lib,
    new_key_values,
    text,
)
from ephost.arguments import characters, integer, of_type
from ephost.config_values import switched
from ephost.device_memory import SharedMemory, device_numbers, host_accessible_memory_of, memory_of
from ephost.devices import OrtMemoryInfo, OrtSyncStream
from ephost.enums import OrtDeviceMemoryType, OrtHardwareDeviceType
from ephost.errors import (
    EPFail,
    Fail,
    InvalidArgument,
    OnnxRuntimeException,
    fresh,
    naming,
)
from ephost.host_log import HostLog
from ephost.isolation.settings import Isolation, isolation_of
from ephost.library import Library, absolute, entry_point
from ephost.logs import as_severity
from ephost.providers import DEFAULT_PROVIDER
from ephost.schemas import offer_schemas
from ephost.suggestions import did_you_mean

if TYPE_CHECKING:
    from ephost.hardware import HardwareDescription
    from ephost.isolation.proxy import IsolatedLibrary
    from ephost.layers import Layer

MAX_EP_DEVICES = int(lib.EPHOST_MAX_EP_DEVICES)
VIRTUAL = ".virtual"  # end of the names of libraries that may offer devices of their own making
CPU_PLUGIN = "EPHOST_CPU_PLUGIN"  # in the environment; "0": the bundled CPU plugin is not used

_LOG = HostLog("ephost.environment")


offer_schemas()  # plugins may ask for them from now on


class OrtHardwareDevice:
    """A CPU, GPU or NPU of this machine, as plugins see it."""

    type: OrtHardwareDeviceType
    vendor: str
    vendor_id: int
    device_id: int
    metadata: dict[str, str]

    def __init__(self, pointer: Any) -> None:
        self._pointer = pointer
        self.vendor = text(api.HardwareDevice_Vendor(pointer))
        self.vendor_id = int(api.HardwareDevice_VendorId(pointer))
        self.device_id = int(api.HardwareDevice_DeviceId(pointer))
        self.type = OrtHardwareDeviceType(int(api.HardwareDevice_Type(pointer)))
        self.metadata = key_values(api.HardwareDevice_Metadata(pointer))

    def __repr__(self) -> str:
        return (
            f"OrtHardwareDevice(type={self.type.name}, vendor={self.vendor!r}, "
            f"vendor_id={self.vendor_id:#06x}, "
            f"device_id={self.device_id:#06x})"
        )


class _Description:
    """What an ``OrtEpDevice*`` says besides its execution provider's name."""

    __slots__ = ("hardware", "metadata", "options", "vendor")

    def __init__(self, pointer: Any) -> None:
        self.vendor = text(api.EpDevice_EpVendor(pointer))
        self.metadata = key_values(api.EpDevice_EpMetadata(pointer))
        self.options = key_values(api.EpDevice_EpOptions(pointer))
        self.hardware = OrtHardwareDevice(api.EpDevice_Device(pointer))


class OrtEpDevice:
    """A device that an execution provider of a registered library offers to run on."""

    ep_name: str

    def __init__(self, pointer: Any, registration: Registration) -> None:
        self._pointer = pointer
        self._registration = registration
        self._factory = lib.ephost_ep_device_factory(pointer)
        self.ep_name = text(api.EpDevice_EpName(pointer))
        self._described: _Description | None = None
        self._memories: dict[bool, SharedMemory] = {}  # by whether the CPU can reach it

    @property
    def ep_vendor(self) -> str:
        """Who makes the execution provider."""
        return self._description().vendor

    @property
    def ep_metadata(self) -> dict[str, str]:
        """What the execution provider says of itself on this device."""
        return self._description().metadata

    @property
    def ep_options(self) -> dict[str, str]:
        """The options that the execution provider needs on this device."""
        return self._description().options

    @property
    def device(self) -> OrtHardwareDevice:
        """The hardware."""
        return self._description().hardware

    def _description(self) -> _Description:
        """What else is known of it: read when first asked for, or when its library goes."""
        if self._described is None:
            with _lock:  # the library, whose it is, must not go meanwhile
                if self._described is None:
                    self._described = _Description(self._pointer)
        return self._described

    @property
    def registration_name(self) -> str:
        """The name under which its library was registered."""
        return self._registration.name

    @property
    def is_registered(self) -> bool:
        """False once its library is unregistered: it can't be used any more."""
        return self._registration.is_open

    def memory_info(self, memory_type: OrtDeviceMemoryType) -> OrtMemoryInfo | None:
        """The memory that the execution provider allocates for this device, or None when it names none.

        Raises:
            InvalidArgument: its library is gone.
        """
        self._registration.acquire()
        try:
            pointer = api.EpDevice_MemoryInfo(self._pointer, integer("memory_type", memory_type))
            return OrtMemoryInfo._copy_of(pointer) if pointer else None
        finally:
            self._registration.release()

    def create_sync_stream(self) -> OrtSyncStream:
        """A new queue of work on the device, for :func:`ephost.copy_tensors`.

        Raises:
            InvalidArgument: the device has no memory of its own, or its library is gone.
            NotImplemented: its execution provider makes no streams.
            EPFail and others: the plugin's error.
        """
        return self._stream({})

    def _stream(self, options: Mapping[str, str]) -> OrtSyncStream:
        """As :meth:`create_sync_stream`, with what the plugin is told of the stream."""
        self._registration.acquire()
        out, told = ffi.new("OrtSyncStream**"), NULL
        try:
            if options:
                told = ffi.gc(new_key_values(dict(options)), api.ReleaseKeyValuePairs)
            with naming(lambda: f"{self._label} cannot make a stream", lambda: self._label):
                check(api.CreateSyncStreamForEpDevice(self._pointer, told, out))
        except BaseException:
            self._registration.release()
            raise
        return OrtSyncStream._owning(out[0], self._registration, self._label)

    @property
    def _label(self) -> str:
        """What errors call the execution provider."""
        return f"the execution provider {self.ep_name} ({self.registration_name})"

    def _shared_memory(self, host_accessible: bool = False) -> SharedMemory | None:
        """What holds values in the device's own memory, or in that which the CPU can reach too; None when it
        has none. Made when first asked for.
        """
        with _lock:
            info = host_accessible_memory_of(self._pointer) if host_accessible else memory_of(self._pointer)
            if info and host_accessible not in self._memories:
                self._memories[host_accessible] = self._make_memory(info, {})
            return self._memories.get(host_accessible)

    def _make_memory(self, info: Any, options: Mapping[str, str]) -> SharedMemory:
        is_elsewhere = self._registration.library.is_elsewhere
        return SharedMemory(self._factory, info, self._label, options, is_elsewhere=is_elsewhere)

    def _replace_memory(self, host_accessible: bool, options: Mapping[str, str]) -> None:
        """Make the memory anew, by an allocator with these options. No value may be in it."""
        with _lock:
            before = self._shared_memory(host_accessible)
            assert before is not None
            if self._registration.is_used:
                raise Fail(f"{before.label} is in use: its allocator cannot be replaced now")
            self._memories[host_accessible] = self._make_memory(before.info, options)
            before.release()

    def __repr__(self) -> str:
        return (
            f"OrtEpDevice(ep_name={self.ep_name!r}, ep_vendor={self.ep_vendor!r}, "
            f"registration_name={self.registration_name!r}, device={self.device!r})"
        )

    def _repr_html_(self) -> str:
        from ephost.notebooks import device_html

        return device_html(self)


def _open_library(
    name: str,
    path: str,
    devices: list[Any],
    logger: Any,
    entry_points: tuple[Any, Any] | None,
    isolation: Isolation | None,
    layers: Sequence[Layer],
) -> Library | IsolatedLibrary:
    if isolation is not None:
        from ephost.isolation.proxy import IsolatedLibrary  # few programs want it

        return IsolatedLibrary(name, path, _severity, devices, isolation, layers, virtual=_virtual_allowed)
    if not layers:
        return Library(name, path, logger, entry_points)
    from ephost.layers import standing_for

    with standing_for(path, name, layers) as stand_in:
        return Library(name, path, logger, entry_points, stand_in)


def _layers(layers: Iterable[str | Layer] | None, name: str) -> Sequence[Layer]:
    if layers == () or (layers is None and not os.environ.get("EPHOST_LAYERS")):
        return ()
    from ephost.layers import apart, wanted  # few programs want it

    return apart(wanted(layers), name, {each.name: each.layers for each in _registrations.values()})


class Registration:
    """One registered library with its EP devices. Made whole or not at all."""

    def __init__(
        self,
        name: str,
        path: str,
        devices: list[Any],
        entry_points: tuple[Any, Any] | None = None,
        isolation: Isolation | None = None,
        layers: Iterable[str | Layer] | None = (),
    ) -> None:
        self.name = name
        self.path = path
        self.is_open = False
        self.ep_devices: list[OrtEpDevice] = []
        self._pointers: list[Any] = []
        self._ep_names: list[str] = []
        self._uses = 0  # EPs that its factories made; a session may be gone before its EPs are
        self.sessions: weakref.WeakSet[Any] = weakref.WeakSet()
        self.layers = _layers(layers, name)
        self.logger = lib.ephost_logger_new(name.encode(), _severity)
        try:
            self.library: Library | IsolatedLibrary = _open_library(
                name, path, devices, self.logger, entry_points, isolation, self.layers
            )
        except BaseException:
            lib.ephost_logger_free(self.logger)
            raise
        try:
            offered = ffi.new("OrtHardwareDevice*[]", devices)
            for factory in self.library.factories:
                self._add_devices(factory, offered, len(devices))
        except BaseException:
            self.close()
            raise
        self.is_open = True

    @property
    def ep_names(self) -> list[str]:
        """The names of its execution providers, with and without devices, one for each factory."""
        return list(self._ep_names)

    def factories_of(self, ep_name: str) -> list[Any]:
        """The ``OrtEpFactory*`` of its execution providers of a name, with and without devices."""
        pairs = zip(self._ep_names, self.library.factories, strict=True)
        return [factory for name, factory in pairs if name == ep_name]

    def _add_devices(self, factory: Any, offered: Any, count: int) -> None:
        offer = ffi.new("EphostOffer*")
        is_sound = lib.ephost_ask_devices(factory, offered, count, offer)
        # Whatever was made is ours to release, also when the call failed half-way.
        given = [device for device in offer.devices[0 : min(offer.number, MAX_EP_DEVICES)] if device]
        made = given if is_sound else list(dict.fromkeys(given))
        self._pointers.extend(made)
        if not is_sound:
            self._refuse(offer, len(given), len(made))
        ep_name = text(offer.ep_name)
        self._ep_names.append(ep_name)
        path = os.fsencode(self.path) if self.library.is_file else NULL
        for pointer in made:
            if status := lib.ephost_complete_ep_device(factory, pointer, path):
                with naming(lambda: f"the factory of EP '{ep_name}' of '{self.name}' ({self.path}) failed"):
                    check(status)
            self.ep_devices.append(OrtEpDevice(pointer, self))

    def _refuse(self, offer: Any, given: int, made: int) -> NoReturn:
        """Say what is wrong with what a factory offers."""
        ep_name, number, library = text(offer.ep_name), int(offer.number), f"'{self.name}' ({self.path})"
        is_named = ep_name and text(offer.vendor)
        where = f"GetSupportedDevices of EP '{ep_name}' of {library}"
        with naming(lambda: f"{where if is_named else f'a factory of {library}'} failed"):
            check(offer.status)
        if not ep_name:
            raise EPFail(f"a factory of {library} gives no EP name")
        if not is_named:
            raise EPFail(f"the factory of EP '{ep_name}' of {library} gives no vendor")
        if number > MAX_EP_DEVICES:
            raise EPFail(
                f"{where} says that it offers {number} devices where there was room for {MAX_EP_DEVICES}"
            )
        if given < number:
            raise EPFail(f"{where} gave NULL for {number - given} of its {number} devices")
        raise EPFail(f"{where} gave {number} devices, of which only {made} differ")

    def acquire(self) -> None:
        """Keep the library open until :meth:`release`; for each EP that one of its factories makes.

        Raises:
            InvalidArgument: it is not registered any more.
        """
        with _lock:
            if not self.is_open:
                names = ", ".join(dict.fromkeys(self._ep_names))
                raise InvalidArgument(f"the library '{self.name}' of {names} is not registered any more")
            self._uses += 1

    def release(self) -> None:
        """The end of an :meth:`acquire`."""
        with _lock:
            self._uses -= 1

    @property
    def is_used(self) -> bool:
        """Whether an EP of it lives."""
        return self._uses > 0

    def close(self) -> None:
        """Release the devices, then the factories, then the library."""
        self.is_open = False
        for memory in [m for device in self.ep_devices for m in device._memories.values()]:
            memory.release()
        given = [weakref.ref(device) for device in self.ep_devices]
        self.ep_devices.clear()
        for reference in given:
            if (device := reference()) is not None:
                device._description()  # somebody holds it, and may still ask
        for pointer in reversed(self._pointers):
            ep_api.ReleaseEpDevice(pointer)
        self._pointers.clear()
        self.library.close()
        lib.ephost_logger_free(self.logger)


_severity = 2
_lock = threading.RLock()
_registrations: dict[str, Registration] = {}
_default: Registration | None = None  # the bundled CPU plugin; not among the others, which come and go
_default_is_settled = False  # it was loaded, or cannot be
_hardware: list[Any] | None = None
_retired: list[Any] = []  # hardware devices that a registered library may still hold


def set_default_logger_severity(severity: int) -> None:
    """Which messages reach Python's logging: 0 verbose and up, 1 info, 2 warning, 3 error, 4 fatal.

    Raises:
        TypeError: it is no int.
        InvalidArgument: the severity is none of these.
    """
    global _severity
    _severity = as_severity(severity)
    lib.ephost_set_log_level(_severity)
    for registration in _registrations.values():
        lib.ephost_logger_set_level(registration.logger, _severity)


def default_logger_severity() -> int:
    """The severity that :func:`set_default_logger_severity` set."""
    return _severity


_global_threads: Any = None


def set_global_thread_pool_sizes(intra_op_num_threads: int = 0, inter_op_num_threads: int = 0) -> None:
    """Make the pool of threads that sessions share whose options say ``use_per_session_threads = False``.

    Args:
        intra_op_num_threads: how many threads; 0: one for each processor.
        inter_op_num_threads: accepted; nodes run one by one.

    Raises:
        InvalidArgument: a negative number.
        Fail: the pool exists already.
    """
    global _global_threads
    for count in (intra_op_num_threads, inter_op_num_threads):
        integer("the number of threads of a pool", count, 0)
    with _lock:
        if _global_threads is not None:
            raise Fail("Global thread pools have already been created, cannot replace them")
        _global_threads = lib.ephost_thread_pool_new(intra_op_num_threads or processor_count())


def global_threads() -> Any:
    """The ``ThreadPool*`` that sessions share; made now when :func:`set_global_thread_pool_sizes` was not
    called.
    """
    with _lock:
        if _global_threads is None:
            set_global_thread_pool_sizes()
        return _global_threads


def processor_count() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def _new_hardware(description: HardwareDescription) -> Any:
    from ephost.hardware import TYPES

    out = ffi.new("OrtHardwareDevice**")
    metadata = new_key_values(dict(description.metadata))
    try:
        check(
            ep_api.CreateHardwareDevice(
                TYPES[description.type],
                description.vendor_id,
                description.device_id,
                description.vendor.encode(),
                metadata,
                out,
            )
        )
    finally:
        api.ReleaseKeyValuePairs(metadata)
    return out[0]


def _hardware_devices() -> list[Any]:
    global _hardware
    if _hardware is None:
        from ephost import hardware  # with the first question: it takes a while to import

        descriptions = hardware.from_environment()
        if descriptions is None:
            descriptions = hardware.discover()
        _hardware = [_new_hardware(description) for description in descriptions]
    return _hardware


def get_hardware_devices() -> list[OrtHardwareDevice]:
    """The devices that plugins are offered: this machine's, or those that the user named.

    Raises:
        InvalidArgument: the environment variable EPHOST_HARDWARE_DEVICES is not valid.
    """
    with _lock:
        return [OrtHardwareDevice(pointer) for pointer in _hardware_devices()]


def set_hardware_devices(devices: Iterable[Mapping[str, Any] | HardwareDescription] | None) -> None:
    """Say what hardware plugins are offered from now on, in place of what discovery finds; None undoes that.

    Libraries that are registered already keep the devices that they chose.

    Args:
        devices: each a dict with ``type`` ("CPU", "GPU" or "NPU") and optionally ``vendor``, ``vendor_id``,
            ``device_id`` and ``metadata``; what is missing is taken from the real device of that type.

    Raises:
        InvalidArgument: naming the entry and the field that are wrong.
    """
    global _hardware
    from ephost import hardware

    descriptions = hardware.parse(devices) if devices is not None else None
    with _lock:
        if _hardware is not None:
            _retired.extend(_hardware)
        _hardware = None if descriptions is None else [_new_hardware(d) for d in descriptions]
        if not _registrations:
            _release_retired()


def _release_retired() -> None:
    for pointer in _retired:
        ep_api.ReleaseHardwareDevice(pointer)
    _retired.clear()


def register_execution_provider_library(
    registration_name: str,
    library_path: str | os.PathLike[str],
    *,
    isolated: bool | Mapping[str, Any] | None = None,
    layers: Iterable[str | Layer] | None = None,
) -> None:
    """Load a plugin library and list the devices that its execution providers offer.

    Args:
        registration_name: any name; the same library may be registered under several. While one that ends in
            ".virtual" is registered, plugins are told that they may offer devices of their own making
            (``allow_virtual_devices`` of the environment), as in onnxruntime.
        library_path: path of the shared library, relative to the working directory or absolute.
        isolated: whether it runs in a process of its own, where what ends it is a :class:`PluginFault` here;
            or a dict of settings for that (docs/isolation.md). None: what the environment variable
            EPHOST_ISOLATED says. A name of ephost's own.
        layers: what stands between the host and the plugin and sees every call of both: "trace",
            "trace=FILE", "validate", "validate=FILE", "validate=raise", an :class:`ephost.layers.Trace` or an
            :class:`ephost.layers.Validate`; None: what EPHOST_LAYERS says, separated by commas.

    Raises:
        InvalidArgument: a name or path that is empty or no text; a layer that there is not.
        NoSuchFile: there is no such file.
        Fail: the name is taken; the file is no shared library of this machine, needs a library that is
            missing, or lacks one of the two symbols.
        EPFail: the plugin broke a rule of the ABI; or the plugin's own error, with its code.
        PluginFault: an isolated one ended its process, or took too long.
        Whatever is raised, nothing is registered and the library is closed.
    """
    _check_name(registration_name)
    _register(registration_name, absolute(library_path), None, isolation_of(isolated), layers)


def register_execution_provider_factory(registration_name: str, create: Any, release: Any) -> None:
    """Take an execution provider that has no library of its own: it is linked into the program, or built in
    its tree.

    Args:
        registration_name: any name.
        create: ``CreateEpFactories`` of the execution provider: an address, a cffi or ctypes function, or the
            name of a symbol of a library that is in the process already.
        release: its ``ReleaseEpFactory``, likewise.

    Raises:
        TypeError, InvalidArgument: something that is no function, or a symbol that nobody exports.
        Fail: the name is taken.
        EPFail: the plugin broke a rule of the ABI; or the plugin's own error, with its code.
    """
    _check_name(registration_name)
    points = entry_point(create, "CreateEpFactories"), entry_point(release, "ReleaseEpFactory")
    _register(registration_name, "in this process", points)


def _check_name(name: Any) -> None:
    characters("the registration name", name)


def _register(
    name: str,
    path: str,
    entry_points: tuple[Any, Any] | None,
    isolation: Isolation | None = None,
    layers: Iterable[str | Layer] | None = (),
) -> None:
    with _lock:
        if name in _registrations or name == DEFAULT_PROVIDER:
            taken = _registrations.get(name)
            raise Fail(
                f"EP library is already registered under {name}"
                + (f" ({taken.path})" if taken else ": the name is the host's own")
            )
        _allow_virtual_devices(_wants_virtual(name) or any(map(_wants_virtual, _registrations)))
        try:
            _registrations[name] = Registration(
                name, path, _hardware_devices(), entry_points, isolation, layers
            )
        except BaseException:
            _allow_virtual_devices(any(map(_wants_virtual, _registrations)))
            raise


def _wants_virtual(name: str) -> bool:
    return name.endswith(VIRTUAL)


_virtual_for_all = False
_virtual_allowed = False


def allow_virtual_devices(allowed: bool) -> None:
    """Tell plugins that are registered from now on that they may offer devices of their own making, whatever
    libraries are called: in the process of an isolated one its host says so.
    """
    global _virtual_for_all
    _virtual_for_all = allowed


def _allow_virtual_devices(allowed: bool) -> None:
    """Set or clear what plugins look at before they offer devices that are not there."""
    global _virtual_allowed
    _virtual_allowed = allowed or _virtual_for_all
    check(lib.ephost_env_config_set(b"allow_virtual_devices", b"1" if _virtual_allowed else NULL))


def unregister_execution_provider_library(registration_name: str) -> None:
    """Release a library's devices and factories and close it.

    Raises:
        Fail: no library has that name, or a session still uses it (the message says which).
        PluginFault: an isolated one ended its process over it; it is unregistered in any case.
    """
    of_type("the registration_name", registration_name, str)
    with _lock:
        registration = _registrations.get(registration_name)
        if registration is None:
            known = ", ".join(sorted(_registrations)) or "none"
            raise Fail(
                f"Execution provider library: {registration_name} was not registered"
                f"{did_you_mean(registration_name, _registrations)}. Registered libraries: {known}"
            )
        if registration.is_used:
            users = list(registration.sessions)
            models = ", ".join(sorted({user.description for user in users}))
            what = f"{len(users)} session(s) ({models})" if users else "values or streams on its devices"
            raise Fail(f"the library '{registration_name}' is in use by {what}: delete them first")
        del _registrations[registration_name]
        registration.close()
        fault = registration.library.fault
        _allow_virtual_devices(any(map(_wants_virtual, _registrations)))
        if not _registrations:
            _release_retired()
    if fault is not None:
        raise fresh(fault)


def default_devices() -> tuple[OrtEpDevice, ...]:
    """The devices of the bundled CPU plugin, which every session has as its last execution provider.

    The library is loaded by the first call. Empty when it was not built, cannot be loaded (a warning says
    why), or the environment variable EPHOST_CPU_PLUGIN is "0": the reference fallback then does all the work.
    """
    global _default, _default_is_settled
    with _lock:
        if not _default_is_settled:
            is_used = switched(CPU_PLUGIN, True)
            _default_is_settled = True
            _default = _load_default() if is_used else None
        return () if _default is None else tuple(_default.ep_devices)


def default_registration() -> Registration | None:
    """The bundled CPU plugin's, where there is one; it is loaded now."""
    default_devices()
    return _default


def _load_default() -> Registration | None:
    from ephost.plugins import cpu

    try:
        return Registration(DEFAULT_PROVIDER, cpu.get_library_path(), _hardware_devices())
    except FileNotFoundError as error:
        _LOG.info("there is no CPU plugin: %s", error)
    except OnnxRuntimeException as error:
        _LOG.warning("the CPU plugin cannot be used; models run on the reference fallback: %s", error)
    return None


def get_ep_devices() -> list[OrtEpDevice]:
    """The devices of the bundled CPU plugin, as onnxruntime has its CPU first; then those that the registered
    libraries' execution providers offer, in order of registration.
    """
    with _lock:
        found = [device for registration in _registrations.values() for device in registration.ep_devices]
        return [*default_devices(), *found]


def find_memory(device: tuple[int, int, int, int]) -> tuple[SharedMemory, Registration] | None:
    """The memory of the first EP device that has it on this device, and the library that it belongs to.

    Args:
        device: type, memory type, vendor (0: any) and number, as ``OrtDevice`` counts them.

    Raises:
        EPFail and others: the plugin cannot offer it.
    """
    found = find_memory_owner(device)
    if found is None:
        return None
    memory = found._shared_memory(device[1] == OrtDeviceMemoryType.HOST_ACCESSIBLE)
    assert memory is not None
    return memory, found._registration


def find_memory_owner(device: tuple[int, int, int, int]) -> OrtEpDevice | None:
    """The EP device whose memory :func:`find_memory` finds."""
    for ep_device in get_ep_devices():
        memory = ep_device._shared_memory(device[1] == OrtDeviceMemoryType.HOST_ACCESSIBLE)
        if memory is not None and memory.is_on(device):
            return ep_device
    return None


def memory_devices() -> list[tuple[int, int, int, int]]:
    """The devices on which EP devices have memory of their own, as :func:`find_memory` takes them."""
    infos = [memory_of(ep_device._pointer) for ep_device in get_ep_devices()]
    return [device_numbers(info) for info in infos if info]


def registrations() -> Mapping[str, Registration]:
    """The registered libraries by name."""
    return MappingProxyType(_registrations)


def remember_session(session: Any, registration: Registration) -> None:
    """Put a session on the list of those that use a library, which another thread may be reading."""
    with _lock:
        registration.sessions.add(session)


def forget_session(session: Any) -> None:
    """Take a session that has ended off the lists of those that use a library."""
    with _lock:
        for registration in (*_registrations.values(), *([_default] if _default else ())):
            registration.sessions.discard(session)


def get_available_providers() -> list[str]:
    """Names of the execution providers that a session may be given: the registered ones, the host's own."""
    with _lock:
        found = [device for registration in _registrations.values() for device in registration.ep_devices]
    return list(dict.fromkeys([*(device.ep_name for device in found), DEFAULT_PROVIDER]))


def known_ep_names() -> set[str]:
    """Names of the execution providers of all libraries, with and without devices, and of the host's own."""
    with _lock:
        return {DEFAULT_PROVIDER, *(name for r in _registrations.values() for name in r.ep_names)}


def _close_all() -> None:
    """At exit: sessions first, then libraries in reverse order, while Python still stands."""
    with _lock:
        for registration in reversed([*([_default] if _default else ()), *_registrations.values()]):
            for session in list(registration.sessions):
                # One that a thread is still running stays, and its library with it: the process ends anyway.
                with suppress(Fail):
                    session.close()
            if not registration.is_used:
                registration.close()
        _registrations.clear()


atexit.register(_close_all)
