"""One plugin library: open it, find its two symbols, own its factories, close it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ephost._bindings import NULL, address, api, check, ffi, guarded, lib, text
from ephost.arguments import file_path
from ephost.errors import EPFail, Fail, InvalidArgument, OnnxRuntimeException, PluginFault
from ephost.host_log import HostLog
from ephost.library_files import CREATE as _CREATE
from ephost.library_files import RELEASE as _RELEASE
from ephost.library_files import check_path, explain_open_error

_LOG = HostLog("ephost.library")
MAX_FACTORIES = int(lib.EPHOST_MAX_FACTORIES)
ASSUME = "EPHOST_ASSUME_API_VERSION"  # in the environment: serve plugins of this version, newer than is known
FIRST_VERSION = int(lib.EPHOST_FIRST_VERSION)  # of the ABI, with OrtEp and OrtEpFactory in it
_KNOWN = int(lib.ephost_api_version())
_MOST = _KNOWN + int(lib.ephost_versions_ahead())


def check_version(who: str, version: int) -> None:
    """Look at the ``ort_version_supported`` of a factory or an EP; one newer than the host gets a warning.

    Raises:
        EPFail: it is older than plugins are, so that nothing of the struct may be read.
    """
    if version < FIRST_VERSION:
        raise EPFail(
            f"{who} says that its ort_version_supported is {version}: plugins exist since {FIRST_VERSION}"
        )
    if version > _KNOWN:
        _LOG.warning("%s is of API version %d: ephost uses what version %d has of it", who, version, _KNOWN)


def assume_version() -> None:
    """Have plugins get the functions that there are for a version newer than the newest known one, where the
    environment asks for it.

    Raises:
        InvalidArgument: it asks for something else.
    """
    version = _KNOWN
    if wanted := os.environ.get(ASSUME, "").strip():
        version = int(wanted) if wanted.isascii() and wanted.isdecimal() else 0
        if not 1 <= version <= _MOST:
            raise InvalidArgument(f"{ASSUME} is an API version up to {_MOST}, not {wanted!r}")
    lib.ephost_assume_api_version(max(version, _KNOWN))
    lib.ephost_refused_api_version()  # forgets what was refused before


def refusal_note() -> str:
    """What to add to the error of a plugin that was denied the version that it asked for; "" otherwise."""
    refused = int(lib.ephost_refused_api_version())
    if not refused:
        return ""
    if refused > _MOST:
        return f" (it asked for API version {refused}; ephost serves versions 1 to {_KNOWN})"
    return (
        f" (it asked for API version {refused}; ephost serves versions 1 to {_KNOWN}. {ASSUME}={refused} in "
        f"the environment gives it the functions of version {_KNOWN}, and an error for what it calls beyond)"
    )


class Library:
    """An open plugin library and the factories that it made. A step that fails undoes the ones before it."""

    def __init__(
        self,
        name: str,
        path: str,
        logger: Any,
        entry_points: tuple[Any, Any] | None = None,
        stand_in: str | None = None,
    ) -> None:
        """Open the library and create its factories.

        Args:
            name: the registration name, handed to the plugin.
            path: absolute path of the shared library; with ``entry_points`` what messages call it.
            logger: ``OrtLogger*`` for the plugin's messages; must outlive the library.
            entry_points: the two functions of a plugin that has no file, each from :func:`entry_point`.
            stand_in: the library to open in its place, which opens it (:mod:`ephost.layers`).

        Raises:
            NoSuchFile, Fail: the library cannot be opened or lacks a symbol.
            EPFail: ``CreateEpFactories`` failed, or gave an impossible answer.
            InvalidArgument: :data:`ASSUME` in the environment is no version.
        """
        self.name = name
        self.path = path
        self.factories: list[Any] = []
        self.fault: PluginFault | None = None  # what isolated ones can have
        self._handle = NULL
        self.is_file = entry_points is None
        self.is_elsewhere = False  # in a process of its own
        self._entry_points = entry_points  # kept alive
        if entry_points is not None:
            self._release = ffi.cast("ReleaseEpApiFactoryFn", entry_points[1][0])
            try:
                self._create_factories(ffi.cast("CreateEpApiFactoriesFn", entry_points[0][0]), logger)
            except BaseException:
                self.close()
                raise
            return
        if not lib.ephost_library_is_sound(os.fsencode(path)):
            check_path(path)
        error = ffi.new("char[]", 4096)
        handle = lib.ephost_library_open(os.fsencode(stand_in or path), error, 4096)
        if not handle:
            raise Fail(explain_open_error(path, text(error)))
        self._handle = handle
        try:
            create = self._symbol(_CREATE, "CreateEpApiFactoriesFn")
            self._release = self._symbol(_RELEASE, "ReleaseEpApiFactoryFn")
            self._create_factories(create, logger)
        except BaseException:
            self.close()
            raise

    def _symbol(self, name: str, kind: str) -> Any:
        found = lib.ephost_library_symbol(self._handle, name.encode())
        if not found:
            raise Fail(
                f"the plugin library {self.path} has no symbol {name}: it is no plugin execution provider, "
                "or it does not export the symbol"
            )
        return ffi.cast(kind, found)

    def _create_factories(self, create: Any, logger: Any) -> None:
        assume_version()
        given = ffi.new("EphostFactories*")
        is_sound = lib.ephost_create_factories(create, self.name.encode(), logger, given)
        number = int(given.number)
        self.factories = list(given.made[0:number]) if is_sound else self._usable(given, number)

    def _usable(self, given: Any, number: int) -> list[Any]:
        """The factories of a library with which something is not as usual. Where nothing can be done with
        them, those that have to be released are the library's from then on.

        Raises:
            EPFail and others: what is wrong.
        """
        where = f"{_CREATE} of '{self.name}' ({self.path})"
        try:
            check(given.status)
        except OnnxRuntimeException as error:
            raise type(error)(f"{where} failed: {error}{refusal_note()}") from None
        if number > MAX_FACTORIES:
            raise EPFail(
                f"{where} says that it made {number} factories where there was room for {MAX_FACTORIES}"
            )
        factories = [factory for factory in given.made[0:number] if factory]
        self.factories = list({address(factory): factory for factory in factories}.values())  # released once
        if number == 0:
            raise EPFail(f"{where} made no factory")
        if len(factories) < number:
            raise EPFail(f"{where} gave NULL for {number - len(factories)} of its {number} factories")
        if len(self.factories) < number:
            raise EPFail(f"{where} gave {number} factories, of which only {len(self.factories)} differ")
        for factory in factories:
            check_version(f"a factory of '{self.name}' ({self.path})", int(factory.ort_version_supported))
            if lacking := text(lib.ephost_factory_lacks(factory)):
                raise EPFail(
                    f"a factory of '{self.name}' ({self.path}) lacks {lacking}, which every factory needs"
                )
        return factories

    @staticmethod
    def pool_of(_: Any) -> None:
        """The memory that an EP shares with another process: none."""

    @staticmethod
    def memory_of(_: Any) -> None:
        """The memory of an EP's device in another process: none."""

    @staticmethod
    def refusals_of(_: Any) -> Sequence[tuple[list[int], str]]:
        """What another process refused an EP: nothing."""
        return ()

    @staticmethod
    def ep_of(_: Any) -> None:
        """What an EP is in another process: it is in none."""

    @staticmethod
    def operators_of(_: Any) -> None:
        """The operators that a factory in another process brings: there is none."""

    def close(self) -> None:
        """Release the factories and close the library. What a factory then says is logged, not raised."""
        for factory in reversed(self.factories):
            status = guarded("ReleaseEpApiFactoryFn")(self._release, factory)
            if status:
                lib.ephost_log(
                    2, f"ReleaseEpFactory of '{self.name}': {text(api.GetErrorMessage(status))}".encode()
                )
                api.ReleaseStatus(status)
        self.factories.clear()
        if self._handle:
            lib.ephost_library_close(self._handle)
            self._handle = NULL


def entry_point(function: Any, name: str) -> tuple[int, Any]:
    """The address of a function that was given in one of several ways, and what must stay alive for it.

    Args:
        function: an address, a cffi or ctypes function pointer, or the name of a symbol in this process.
        name: which of the two it is, for messages.

    Raises:
        TypeError: none of these.
        InvalidArgument: NULL, or a symbol that no library of this process exports.
    """
    import ctypes  # only here: it adds to the time of importing the package

    if isinstance(function, str):
        try:
            function = getattr(ctypes.CDLL(None), function)
        except (AttributeError, OSError, TypeError):
            raise InvalidArgument(
                f"{name}: no library of this process exports the symbol {function!r}"
            ) from None
    if isinstance(function, ctypes._CFuncPtr):  # type: ignore[attr-defined]
        address = ctypes.cast(function, ctypes.c_void_p).value or 0
    elif isinstance(function, ctypes.c_void_p):
        address = function.value or 0
    elif isinstance(function, ffi.CData):
        address = int(ffi.cast("uintptr_t", function))
    elif isinstance(function, int) and not isinstance(function, bool):
        address = function
    else:
        raise TypeError(
            f"{name} is an address, a cffi or ctypes function, or a symbol's name, not {function!r}"
        )
    if address <= 0:
        raise InvalidArgument(f"{name} is NULL")
    return address, function


def absolute(path: str | os.PathLike[str]) -> str:
    """The path of a library as the host keeps it.

    Raises:
        InvalidArgument: it is empty.
    """
    given = file_path("the path of a library", path)
    if not given:
        raise InvalidArgument("the path of the plugin library is empty")
    if os.path.isabs(given) and os.path.normpath(given) == given:
        return given
    from pathlib import Path  # takes longer to import than the rest of the package

    return str(Path(given).absolute())
