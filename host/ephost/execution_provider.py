"""One EP of a session: created by its factory, asked, and released."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ephost._bindings import NULL, api, check, ffi, guarded, lib, member, member_since, raise_thrown
from ephost.environment import OrtEpDevice, Registration
from ephost.errors import EPFail, Fail, naming
from ephost.library import check_version
from ephost.logs import listening

if TYPE_CHECKING:
    from ephost.model.graph import Node

_CONTEXT_DATA = "GetEpContextDataCallbackSupport"


class ExecutionProvider:
    """An ``OrtEp`` and what it was made from."""

    def __init__(
        self,
        devices: Sequence[OrtEpDevice],
        session_options: Any,
        options: Mapping[str, str],
        severity: int,
    ) -> None:
        """Create the EP for devices of one factory.

        Args:
            devices: all of one EP of one library.
            session_options: ``OrtSessionOptions*`` with the session's entries and the EP's options.
            options: the EP's options, as the user gave them.
            severity: of the logger that the EP gets.

        Raises:
            InvalidArgument: the devices' library is not registered any more.
            EPFail: the plugin failed, or gave an EP that lacks what every EP needs.
        """
        self.devices = list(devices)
        self.options = dict(options)
        self.name = devices[0].ep_name
        self.encoded_name = self.name.encode("utf-8", "surrogateescape")
        self.registration: Registration = devices[0]._registration
        self._factory = devices[0]._factory
        self.pointer: Any = NULL
        self._released = False
        self._took_context_config = False  # the callbacks for EPContext data, from the session's options
        self.registration.acquire()
        self._severity = severity
        self._logger = lib.ephost_logger_new(self.registration.name.encode(), severity)
        hardware = [api.EpDevice_Device(d._pointer) for d in devices]
        metadata = [api.EpDevice_EpMetadata(d._pointer) for d in devices]
        out = ffi.new("OrtEp**")
        try:
            taken = lib.ephost_context_configs_taken()
            with naming(lambda: f"{self.label} cannot be created", lambda: self.label):
                check(
                    guarded("OrtEpFactory_CreateEp")(
                        self._factory, hardware, metadata, len(hardware), session_options, self._logger, out
                    )
                )
            self._took_context_config = lib.ephost_context_configs_taken() > taken
            self.pointer = out[0]
            if not self.pointer:
                raise EPFail(
                    f"{self.label} cannot be created: its factory says that it succeeded, and gave NULL"
                )
            self._check()
        except BaseException:
            self.release()
            raise

    @property
    def shared_pool(self) -> Any:
        """The memory that an isolated EP shares with this process; None for any other."""
        return self.registration.library.pool_of(self.pointer)

    @property
    def remote_memory(self) -> Any:
        """The memory of an isolated EP's own device, in its worker; None for any other EP."""
        return self.registration.library.memory_of(self.pointer)

    @property
    def elsewhere(self) -> Any:
        """What an isolated EP is in its worker: ``compiles``, whether it has a Compile of its own, and
        ``kernels``, rows of what its registry has, or None where it has none. None for any other EP.
        """
        return self.registration.library.ep_of(self.pointer)

    def refused_elsewhere(self, nodes: Iterable[Node]) -> list[tuple[list[Node], str]]:
        """What an isolated EP claimed of these nodes last and was refused by its worker, with the reasons."""
        refusals = self.registration.library.refusals_of(self.pointer)
        if not refusals:
            return []
        by_index = {node.index: node for node in nodes}
        return [([by_index[index] for index in indices], reason) for indices, reason in refusals]

    @property
    def label(self) -> str:
        """What an error calls it: the EP and its library."""
        return f"the execution provider {self.name} ({self.registration.name}: {self.registration.path})"

    def _check(self) -> None:
        version, first = int(self.pointer.ort_version_supported), member_since("OrtEp", "GetCapability")
        check_version(self.label, version)
        if version < first:
            raise EPFail(
                f"{self.label} is of API version {version}, whose EPs can run nothing: GetCapability and "
                f"Compile came with {first}"
            )
        for name in ("GetName", "GetCapability"):
            if self.member(name) is None:
                raise EPFail(f"{self.label} has no {name}, which every EP needs")
        if self.member("Compile") is None and self.member("GetKernelRegistry") is None:
            raise EPFail(f"{self.label} has neither Compile nor GetKernelRegistry: it can run nothing")
        if self.member("Compile") is not None and self.member("ReleaseNodeComputeInfos") is None:
            raise EPFail(f"{self.label} has Compile, but no ReleaseNodeComputeInfos to release what it makes")

    def member(self, name: str) -> Any:
        """A function of the EP, or None when it has none or is older than it."""
        return member("OrtEp", self.pointer, name)

    def factory_member(self, name: str) -> Any:
        """A function of the factory, or None."""
        return member("OrtEpFactory", self._factory, name)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the EP that gives a status.

        Raises:
            The exception of the status, with the EP and the function named.
        """
        with naming(lambda: f"{self.label} failed in {name}", lambda: self.label):
            check(self.member(name)(self.pointer, *arguments))
            raise_thrown()  # by a function that it had the host call

    def calls_for_context_data(self) -> int:
        """Which callbacks for EPContext data it calls, as bits: 1 for reading, 2 for writing.

        It says so itself from version 31 on. Of an older one it is taken for granted when it has asked for
        them as it was created.

        Raises:
            Fail: it says something else. Or the plugin's error.
        """
        if int(self.pointer.ort_version_supported) < member_since("OrtEp", _CONTEXT_DATA):
            return 3 if self._took_context_config else 0
        if self.member(_CONTEXT_DATA) is None:
            return 0
        out = ffi.new("uint32_t*")
        self.call(_CONTEXT_DATA, out)
        if out[0] > 3:
            raise Fail(f"{self.label} gives unknown bits in {_CONTEXT_DATA}: {out[0]:#x}")
        return int(out[0])

    def ask(self, name: str, *arguments: Any) -> Any:
        """Call a function of the EP that gives a plain value.

        Raises:
            RuntimeException: it threw a C++ exception.
        """
        with naming(lambda: f"{self.label} failed in {name}", lambda: self.label):
            return self.member(name)(self.pointer, *arguments)

    def kernel_registry(self) -> Any:
        """The EP's ``OrtKernelRegistry*``; NULL for none. The EP owns it."""
        if self.member("GetKernelRegistry") is None:
            return NULL
        out = ffi.new("OrtKernelRegistry**")
        self.call("GetKernelRegistry", out)
        return out[0]

    @contextmanager
    def recorded_messages(self, messages: list[str]) -> Iterator[None]:
        """Adds what the EP logs meanwhile, from information up."""
        lib.ephost_logger_set_level(self._logger, min(self._severity, 1))
        try:
            with listening(self.registration.name, messages):
                yield
        finally:
            lib.ephost_logger_set_level(self._logger, self._severity)

    def runs_may_overlap(self) -> bool:
        """Whether runs of one session may call the EP at the same time."""
        if self.member("IsConcurrentRunSupported") is None:
            return True
        out = ffi.new("bool*", True)
        self.call("IsConcurrentRunSupported", out)
        return bool(out[0])

    def release(self) -> None:
        """Give the EP back to its factory; its library may be unregistered from then on."""
        if self._released:
            return
        self._released = True
        if self.pointer:
            guarded("OrtEpFactory_ReleaseEp")(self._factory, self.pointer)
            self.pointer = NULL
        if self._logger:
            lib.ephost_logger_free(self._logger)
            self._logger = NULL
        self.registration.release()

    def __repr__(self) -> str:
        return f"ExecutionProvider({self.name!r}, {len(self.devices)} device(s))"


def option_prefix(ep_name: str) -> str:
    """What stands before the EP's options among a session's entries."""
    return f"ep.{ep_name.lower()}."


def native_session_options(entries: Mapping[str, str]) -> Any:
    """A new ``OrtSessionOptions*`` with these config entries; the caller releases it."""
    out = ffi.new("OrtSessionOptions**")
    check(api.CreateSessionOptions(out))
    try:
        for key, value in entries.items():
            check(api.AddSessionConfigEntry(out[0], key.encode(), value.encode("utf-8", "surrogateescape")))
    except BaseException:
        api.ReleaseSessionOptions(out[0])
        raise
    return out[0]
