"""What the plugin's structs say, looked at directly: factories, execution providers, kernels, layouts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from ephost._bindings import NULL, api, ffi, guarded, lib, member, text
from ephost.checking.models import F, make, node
from ephost.checking.registry import Check, add, check
from ephost.checking.subject import Subject, reference
from ephost.checking.verdicts import Failure, Skip
from ephost.library import FIRST_VERSION, MAX_FACTORIES, Library

_OURS = ["ephost"]
_LAYOUTS = (0, 1)  # channels first, channels last
_SENTINEL = 0x5A5A5A5A


@contextlib.contextmanager
def _library(subject: Subject) -> Iterator[Library]:
    """The library, open beside the host's registry."""
    logger = lib.ephost_logger_new(b"check", 2)
    subject.stage("opening the library")
    library = Library(subject.given.name, subject.path, logger)
    try:
        yield library
    finally:
        subject.stage("releasing the factories")
        library.close()
        lib.ephost_logger_free(logger)


@contextlib.contextmanager
def _provider(subject: Subject) -> Iterator[Any]:
    """An execution provider that belongs to no session."""
    from ephost.execution_provider import ExecutionProvider

    options = ffi.new("OrtSessionOptions**")
    api.CreateSessionOptions(options)
    prefix = f"ep.{subject.ep_name.lower()}."
    for key, value in subject.given.options.items():
        api.AddSessionConfigEntry(options[0], f"{prefix}{key}".encode(), value.encode())
    subject.stage("creating an execution provider")
    made = ExecutionProvider(subject.devices, options[0], dict(subject.given.options), 3)
    try:
        yield made
    finally:
        subject.stage("releasing the execution provider")
        made.release()
        api.ReleaseSessionOptions(options[0])


@check("registration.names-stay", 3, hosts=_OURS)
def _names_stay(subject: Subject) -> None:
    """The factory gives the same name, vendor and version each time that it is asked."""
    with _library(subject) as library:
        for factory in library.factories:
            for name in ("GetName", "GetVendor", "GetVersion"):
                function = member("OrtEpFactory", factory, name)
                if function is None:
                    continue
                first, second = text(function(factory)), text(function(factory))
                if first != second:
                    raise Failure(f"{name} gives {first!r}, and then {second!r}")


@check("registration.vendor-number", 6, hosts=_OURS)
def _vendor_number(subject: Subject) -> None:
    """The factory tells the number of its vendor."""
    with _library(subject) as library:
        for factory in library.factories:
            function = member("OrtEpFactory", factory, "GetVendorId")
            if function is None or not int(function(factory)):
                subject.warn("GetVendorId gives no number: an application cannot choose by vendor")


@check("registration.data-transfer", 5, hosts=_OURS)
def _data_transfer(subject: Subject) -> None:
    """The factory has a CreateDataTransfer, which onnxruntime up to 1.32 calls without a look."""
    with _library(subject) as library:
        for factory in library.factories:
            if member("OrtEpFactory", factory, "CreateDataTransfer") is None:
                subject.warn(
                    "CreateDataTransfer is NULL, as it may be where a device has no memory of its own: but "
                    "onnxruntime up to 1.32 calls it all the same, and its process ends. Let it give NULL"
                )


@check("registration.no-room", 5, hosts=_OURS)
def _no_room(subject: Subject) -> None:
    """Where the host has room for no factory, CreateEpFactories writes none and says so."""
    _create(subject, 0)


@check("registration.keeps-to-its-room", 5, hosts=_OURS)
def _keeps_to_its_room(subject: Subject) -> None:
    """CreateEpFactories writes as many factories as there is room for, and as it says."""
    _create(subject, 1)


def _entries(subject: Subject) -> tuple[Any, Any]:
    """The library's CreateEpFactories and ReleaseEpFactory, past all that registering does."""
    error = ffi.new("char[]", 4096)
    handle = lib.ephost_library_open(subject.path.encode(), error, 4096)
    if not handle:
        raise Failure(text(error))
    return (
        ffi.cast("CreateEpApiFactoriesFn", lib.ephost_library_symbol(handle, b"CreateEpFactories")),
        ffi.cast("ReleaseEpApiFactoryFn", lib.ephost_library_symbol(handle, b"ReleaseEpFactory")),
    )


def _release_all(subject: Subject, release: Any, factories: Any, count: int) -> None:
    for at in range(count):
        subject.stage("releasing a factory")
        status = guarded("ReleaseEpApiFactoryFn")(release, factories[at])
        if status:
            api.ReleaseStatus(status)


def _create(subject: Subject, room: int) -> None:
    create, release = _entries(subject)
    factories = ffi.new("OrtEpFactory*[]", MAX_FACTORIES + 1)
    sentinel = ffi.cast("OrtEpFactory*", _SENTINEL)
    for at in range(MAX_FACTORIES + 1):
        factories[at] = sentinel
    count, logger = ffi.new("size_t*"), lib.ephost_logger_new(b"check", 2)
    subject.stage(f"calling CreateEpFactories with room for {room}")
    status = guarded("CreateEpApiFactoriesFn")(
        create, b"check", lib.ephost_get_api_base(), logger, factories, room, count
    )
    written = [at for at in range(MAX_FACTORIES + 1) if factories[at] != sentinel]
    if any(at >= room for at in written):
        raise Failure(f"with room for {room} it writes to place {max(written)}")
    if status:
        api.ReleaseStatus(status)  # it may have more to give
        return
    if int(count[0]) > room:
        raise Failure(f"it says that it made {int(count[0])} factories where there was room for {room}")
    _release_all(subject, release, factories, int(count[0]))


@check("registration.two-sets-of-factories", 6, hosts=_OURS)
def _two_sets(subject: Subject) -> None:
    """Factories made twice from one open library are released in any order."""
    with _library(subject) as first, _library(subject) as second:
        if {int(ffi.cast("uintptr_t", f)) for f in first.factories} & {
            int(ffi.cast("uintptr_t", f)) for f in second.factories
        }:
            subject.warn(
                "CreateEpFactories gives the same factory again: released twice, it is gone once too often"
            )
            second.factories.clear()
        subject.stage("releasing the first set of factories")
        first.close()
        for factory in second.factories:
            if not text(guarded("OrtEpFactory_GetName")(factory)):
                raise Failure("after the first set was released the second one has lost its name")


@check("devices.asked-about-none", 4, hosts=_OURS)
def _asked_about_none(subject: Subject) -> None:
    """Asked about no hardware, with no room for devices, GetSupportedDevices writes none."""
    with _library(subject) as library:
        for factory in library.factories:
            room = ffi.new("OrtEpDevice*[]", 2)
            room[0] = room[1] = ffi.cast("OrtEpDevice*", _SENTINEL)
            count = ffi.new("size_t*")
            subject.stage("calling GetSupportedDevices with no room")
            status = guarded("OrtEpFactory_GetSupportedDevices")(factory, NULL, 0, room, 0, count)
            if status:
                api.ReleaseStatus(status)
            elif int(count[0]):
                raise Failure(f"it offers {int(count[0])} devices where there was room for none")
            if room[0] != ffi.cast("OrtEpDevice*", _SENTINEL):
                raise Failure("it writes a device where there was room for none")


@check("versions.known", 1, hosts=_OURS)
def _known(subject: Subject) -> None:
    """The factory's version of the ABI is one that plugins have."""
    newest = int(lib.ephost_api_version())
    with _library(subject) as library:
        for factory in library.factories:
            version = int(factory.ort_version_supported)
            subject.numbers["version"] = version
            if version > newest:
                subject.warn(f"its factory is of version {version}: ephost knows those up to {newest}")


@check("versions.ep-and-factory", 5, needs="devices", hosts=_OURS)
def _ep_and_factory(subject: Subject) -> None:
    """Factory and execution provider are of the same version of the ABI."""
    with _provider(subject) as made:
        factory, ep = int(made._factory.ort_version_supported), int(made.pointer.ort_version_supported)
        subject.numbers |= {"factory": factory, "ep": ep}
        if factory != ep:
            subject.warn(f"the factory is of version {factory}, its execution provider of version {ep}")


class _OlderHost:
    """A host that serves versions up to one, for CreateEpFactories."""

    def __init__(self, newest: int) -> None:
        self.asked: list[int] = []
        base = lib.ephost_get_api_base()

        def get_api(version: int) -> Any:
            self.asked.append(version)
            return base.GetApi(version) if version <= newest else NULL

        self._get = ffi.callback("const OrtApi*(uint32_t)", get_api)
        self._version = ffi.new("char[]", f"1.{newest}.0".encode())
        self._get_version = ffi.callback("const char*(void)", lambda: self._version)
        self.base = ffi.new("OrtApiBase*", {"GetApi": self._get, "GetVersionString": self._get_version})


def _older(newest: int) -> None:
    def refuses(subject: Subject) -> None:
        host = _OlderHost(newest)
        create, release = _entries(subject)
        factories, count = ffi.new("OrtEpFactory*[]", MAX_FACTORIES), ffi.new("size_t*")
        logger = lib.ephost_logger_new(b"check", 2)
        subject.stage(f"registering in a host of version {newest}")
        status = guarded("CreateEpApiFactoriesFn")(
            create, b"check", host.base, logger, factories, MAX_FACTORIES, count
        )
        subject.numbers["asked"] = host.asked
        if not status:
            if not any(version <= newest for version in host.asked):
                told = f"it was refused every version ({host.asked}), and gives no error"
                if int(count[0]):
                    raise Failure(f"{told}, but {int(count[0])} factories")
                subject.warn(
                    f"{told}: a host cannot tell why it made no factory. GetApi(1) can make a status"
                )
            _release_all(subject, release, factories, int(count[0]))
            return
        message = text(api.GetErrorMessage(status))
        if not message.strip():
            raise Failure("it refuses the host without a word")
        subject.numbers["message"] = message

    text_ = f"In a host that serves the ABI up to version {newest} it works, or refuses in words."
    add(Check(f"versions.host-of-{newest}", text_, 4 if newest > 21 else 6, refuses, hosts=("ephost",)))


for _newest in (1, 17, FIRST_VERSION - 1, *range(FIRST_VERSION, int(lib.ephost_api_version()) + 1)):
    _older(_newest)


@check("sessions.name-of-ep", 3, needs="devices", hosts=_OURS)
def _name_of_ep(subject: Subject) -> None:
    """The execution provider calls itself as its factory does."""
    with _provider(subject) as made:
        name = text(made.ask("GetName"))
        if name != subject.ep_name:
            raise Failure(f"the execution provider calls itself {name!r}, its factory {subject.ep_name!r}")


@check("sessions.ep-without-a-session", 5, needs="devices", hosts=_OURS)
def _ep_without_a_session(subject: Subject) -> None:
    """Execution providers are created and released without ever being asked, five at once."""
    with contextlib.ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(_provider(subject))


@check("sessions.released-twice-made", 4, needs="devices", hosts=_OURS)
def _created_again(subject: Subject) -> None:
    """After an execution provider was released its factory makes others."""
    for _ in range(5):
        with _provider(subject):
            pass


def _kernels(subject: Subject, made: Any) -> list[tuple[str, str, int, int, str]]:
    """Operator, domain, versions and provider of each kernel."""
    registry = made.kernel_registry()
    if not registry:
        raise Skip("the plugin has no kernel registry: it compiles")
    from ephost._bindings import ep_api

    found = []
    for at in range(int(lib.ephost_registry_size(registry))):
        definition = lib.ephost_entry_def(lib.ephost_registry_entry(registry, at))
        first, last = ffi.new("int*"), ffi.new("int*")
        ep_api.KernelDef_GetSinceVersion(definition, first, last)
        found.append(
            (
                text(ep_api.KernelDef_GetOperatorType(definition)),
                text(ep_api.KernelDef_GetDomain(definition)),
                int(first[0]),
                int(last[0]),
                text(ep_api.KernelDef_GetExecutionProvider(definition)),
            )
        )
    return found


@check("kernels.named", 3, needs="devices", hosts=_OURS)
def _kernels_named(subject: Subject) -> None:
    """Each kernel has an operator, and versions of which the first is not behind the last."""
    with _provider(subject) as made:
        for operator, domain, first, last, _ in _kernels(subject, made):
            if not operator:
                raise Failure(f"a kernel of the domain {domain!r} has no operator")
            if first < 1 or last < first:
                raise Failure(f"the kernel of {operator} is for versions {first} to {last}")


@check("kernels.own-provider", 4, needs="devices", hosts=_OURS)
def _kernels_own(subject: Subject) -> None:
    """Each kernel names the execution provider to which it belongs."""
    with _provider(subject) as made:
        for operator, _, _, _, provider in _kernels(subject, made):
            if provider and provider != subject.ep_name:
                raise Failure(f"the kernel of {operator} belongs to {provider!r}, not to {subject.ep_name!r}")


@check("kernels.same-registry", 4, needs="devices", hosts=_OURS)
def _same_registry(subject: Subject) -> None:
    """The registry of two execution providers has the same kernels."""
    with _provider(subject) as first, _provider(subject) as second:
        if sorted(_kernels(subject, first)) != sorted(_kernels(subject, second)):
            raise Failure("the registries of two execution providers differ")


@check("kernels.known-operators", 5, needs="devices", hosts=_OURS)
def _known_operators(subject: Subject) -> None:
    """Kernels of the standard's domain are for operators that it has, from a version that it has."""
    from onnx import defs

    since: dict[str, set[int]] = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "":
            since.setdefault(schema.name, set()).add(schema.since_version)
    with _provider(subject) as made:
        for operator, domain, first, _, _ in _kernels(subject, made):
            if domain in ("", "ai.onnx") and operator not in since:
                subject.warn(f"it has a kernel of {operator} in the standard's domain, which lacks it")
            elif domain in ("", "ai.onnx") and first not in since[operator]:
                subject.warn(
                    f"its kernel of {operator} begins with version {first}, in which nothing changed"
                )


@check("layout.known", 3, needs="devices", hosts=_OURS)
def _layout_known(subject: Subject) -> None:
    """The layout that it prefers is one that there is."""
    with _provider(subject) as made:
        if made.member("GetPreferredDataLayout") is None:
            raise Skip("the plugin says nothing of layouts")
        out = ffi.new("OrtEpDataLayout*", 0)
        made.call("GetPreferredDataLayout", out)
        if int(out[0]) not in _LAYOUTS:
            raise Failure(f"it prefers the layout {int(out[0])}, which there is not")


def _image(
    name: str, level: int, text_: str, nodes: list[Any], constants: dict[str, Any], channels: int = 4
) -> None:
    def right(subject: Subject) -> None:
        dims = (2, channels, 9, 7)
        x = np.random.default_rng(5).standard_normal(dims).astype(np.float32)
        model = make(nodes, {"x": (F, dims)}, {"y": (F, None)}, constants)
        for optimized in (False, True):
            session = subject.open(model, optimized=optimized)
            if not subject.claimed(session):
                raise Skip("the plugin takes nothing of it")
            subject.require_equal(subject.run(session, {"x": x}), reference(model, {"x": x}), "the images")

    add(Check(f"layout.{name}", text_, level, right, "devices"))


def _weights(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


_conv = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
_image(
    "conv",
    3,
    "Images through a convolution are right.",
    [node("Conv", "x w", "y", **_conv)],
    {"w": _weights(6, 4, 3, 3)},
)
_image("conv-of-groups", 4, "Images through a convolution of groups of odd sizes are right.",
       [node("Conv", "x w", "y", group=2, **_conv)], {"w": _weights(6, 2, 3, 3)})  # fmt: skip
_image("conv-of-each-channel", 4, "Images through a convolution of each channel are right.",
       [node("Conv", "x w", "y", group=4, **_conv)], {"w": _weights(4, 1, 3, 3)})  # fmt: skip
_image("conv-uneven", 4, "Images through a convolution with uneven pads, strides and dilations are right.",
       [node("Conv", "x w b", "y", kernel_shape=[3, 2], pads=[2, 0, 1, 3], strides=[2, 1], dilations=[1, 2])],
       {"w": _weights(5, 4, 3, 2), "b": _weights(5)})  # fmt: skip
_image("conv-of-one-channel", 4, "Images of three channels to one are right.",
       [node("Conv", "x w", "y", **_conv)], {"w": _weights(1, 3, 3, 3)}, 3)  # fmt: skip
_image("pools", 4, "Images through a convolution and pools are right.",
       [node("Conv", "x w", "c", **_conv), node("MaxPool", "c", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("GlobalAveragePool", "p", "y")], {"w": _weights(8, 4, 3, 3)})  # fmt: skip
_image("transposed", 4, "A transposition and a sum along an axis behind a convolution are right.",
       [node("Conv", "x w", "c", **_conv), node("Transpose", "c", "t", perm=[0, 2, 3, 1]),
        node("Softmax", "t", "y", axis=1)], {"w": _weights(6, 4, 3, 3)})  # fmt: skip
_image("residual", 4, "A convolution whose result is added to its input is right.",
       [node("Conv", "x w", "c", **_conv), node("Add", "c x", "a"), node("Relu", "a", "y")],
       {"w": _weights(4, 4, 3, 3)})  # fmt: skip
_image("flattened", 4, "A product of matrices behind a convolution is right.",
       [node("Conv", "x w", "c", **_conv), node("Flatten", "c", "f"), node("MatMul", "f m", "y")],
       {"w": _weights(2, 4, 3, 3), "m": _weights(126, 5)})  # fmt: skip
