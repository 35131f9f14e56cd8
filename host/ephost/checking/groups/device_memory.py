"""Memory of the device, copies from and to it, and queues of work, where the plugin has them."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np

from ephost.checking.registry import check
from ephost.checking.subject import Subject, reference
from ephost.checking.verdicts import Failure, Skip
from ephost.errors import Fail, InvalidArgument, NotImplemented

_OURS = ["ephost"]


def _device(subject: Subject) -> Any:
    """The device whose memory the plugin offers, as values name it."""
    import ephost

    for device in subject.devices:
        info = device.memory_info(ephost.OrtDeviceMemoryType.DEFAULT)
        if info is not None:
            made = ephost.OrtDevice(int(info.device_type), 0, int(info.device_vendor_id), int(info.device_id))
            if made.device_type() != 0:
                return made
    raise Skip("the plugin has no memory of a device of its own")


def _there(subject: Subject, array: np.ndarray[Any, Any]) -> Any:
    """A value on the device."""
    value = subject.host.OrtValue.ortvalue_from_numpy(array)
    return value._to(_device(subject))


def _round_trip(subject: Subject, array: np.ndarray[Any, Any], what: str) -> None:
    device = _device(subject)
    subject.stage(f"copying {what} to the device")
    value = subject.host.OrtValue.ortvalue_from_numpy(array)._to(device)
    subject.stage(f"copying {what} back")
    back = value.numpy()
    if back.dtype != array.dtype or back.shape != array.shape or back.tobytes() != array.tobytes():
        raise Failure(f"{what} comes back from the device as something else")


@check("device-memory.named", 3, needs="devices", hosts=_OURS)
def _named(subject: Subject) -> None:
    """Memory that a device offers has a name and an alignment that is a power of two."""
    import ephost

    found = False
    for device in subject.devices:
        for kind in (ephost.OrtDeviceMemoryType.DEFAULT, ephost.OrtDeviceMemoryType.HOST_ACCESSIBLE):
            info = device.memory_info(kind)
            if info is not None:
                found = True
                if not info.name:
                    raise Failure("a memory that it offers has no name")
    if not found:
        raise Skip("the plugin offers no memory")


@check("device-memory.many-blocks", 4, needs="devices", hosts=_OURS)
def _many_blocks(subject: Subject) -> None:
    """A thousand blocks are given out and taken back in another order."""
    values = [_there(subject, np.full(at % 50 + 1, at, np.float32)) for at in range(1000)]
    for at in range(0, 1000, 3):
        values[at] = None
    for at, value in enumerate(values):
        if value is not None and value.numpy()[0] != at:
            raise Failure(f"block {at} has changed")
    values.clear()
    gc.collect()


@check("device-memory.large", 5, needs="devices", hosts=_OURS)
def _large(subject: Subject) -> None:
    """A block of 64 MiB is given out."""
    _round_trip(subject, np.arange(16 << 20, dtype=np.float32), "64 MiB")


@check("device-memory.too-large", 5, needs="devices", hosts=_OURS)
def _too_large(subject: Subject) -> None:
    """A block of 2**60 bytes is refused in words."""
    device = _device(subject)
    import ephost

    subject.stage("asking for too much memory")
    try:
        ephost.OrtValue._allocate([1 << 58], 1, device)
    except Exception as error:
        if not str(error).strip():
            raise Failure("it refuses the block without a word") from None
        return
    raise Failure("it gives out a block of 2**60 bytes")


@check("device-memory.bound", 4, needs="model", hosts=_OURS)
def _bound(subject: Subject) -> None:
    """A run takes bound inputs from the device and leaves its output there."""
    device = _device(subject)
    feeds = subject.sample.feed(4)
    want = reference(subject.sample.build(4), feeds)
    with subject.opened() as session:
        binding = session.io_binding()
        for name, array in feeds.items():
            binding.bind_ortvalue_input(name, subject.host.OrtValue.ortvalue_from_numpy(array)._to(device))
        (output,) = session.get_outputs()
        binding._iobinding.bind_output(output.name, device)
        subject.stage("running on bound values")
        session.run_with_iobinding(binding)
        subject.require_equal([value.numpy() for value in binding.get_outputs()], want, "bound values")


@check("transfers.nothing", 4, needs="devices", hosts=_OURS)
def _nothing(subject: Subject) -> None:
    """A tensor without elements is copied."""
    _round_trip(subject, np.zeros((3, 0), np.float32), "a tensor without elements")


@check("transfers.sizes", 3, needs="devices", hosts=_OURS)
def _sizes(subject: Subject) -> None:
    """Tensors of 1 to 100,003 elements come back as they went."""
    for n in (1, 2, 3, 15, 16, 17, 255, 4096, 100_003):
        _round_trip(subject, subject.random.standard_normal(n).astype(np.float32), f"{n} elements")


@check("transfers.types", 3, needs="devices", hosts=_OURS)
def _types(subject: Subject) -> None:
    """Tensors of each element type come back as they went."""
    for name in (
        "float64",
        "float16",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
    ):
        _round_trip(subject, (np.arange(24) * 5).reshape(2, 3, 4).astype(name), f"a tensor of {name}")
    _round_trip(subject, np.arange(7) % 2 == 0, "a tensor of bool")


@check("transfers.bits", 4, needs="devices", hosts=_OURS)
def _bits(subject: Subject) -> None:
    """NaN with a payload, denormal numbers and negative zero come back bit by bit."""
    bits = np.array([0x7FC12345, 0xFFC00001, 1, 0x80000000, 0x7F800000, 0xFFFFFFFF], np.uint32)
    _round_trip(subject, bits.view(np.float32), "a tensor of odd numbers")


@check("transfers.overwriting", 4, needs="devices", hosts=_OURS)
def _overwriting(subject: Subject) -> None:
    """A value on the device can be written over, again and again."""
    value = _there(subject, np.zeros((5, 7), np.float32))
    for number in range(10):
        array = np.full((5, 7), number, np.float32)
        subject.stage("writing over a value on the device")
        value.update_inplace(array)
        if value.numpy().tobytes() != array.tobytes():
            raise Failure(f"after writing over it for time {number + 1} the value is something else")


@check("transfers.two-values", 3, needs="devices", hosts=_OURS)
def _two_values(subject: Subject) -> None:
    """Two values on the device do not share memory."""
    first, second = (_there(subject, np.full(9, number, np.float32)) for number in (1, 2))
    if first.numpy()[0] != 1 or second.numpy()[0] != 2:
        raise Failure("of two values on the device one has the other's content")


def _stream(subject: Subject) -> Any:
    try:
        return subject.devices[0].create_sync_stream()
    except (Fail, InvalidArgument, NotImplemented) as error:
        if isinstance(error, Fail) and "stream-aware" not in str(error):
            raise
        raise Skip(f"the plugin has no streams: {error}") from None


@check("streams.made", 3, needs="devices", hosts=_OURS)
def _made(subject: Subject) -> None:
    """A stream is made, waited for and released."""
    stream = _stream(subject)
    stream.get_handle()
    stream.synchronize()
    del stream
    gc.collect()


@check("streams.many", 4, needs="devices", hosts=_OURS)
def _many(subject: Subject) -> None:
    """Fifty streams at once are made and released in another order."""
    streams = [_stream(subject) for _ in range(50)]
    for stream in streams[::7]:
        stream.synchronize()
    while streams:
        streams.pop(len(streams) // 2)
        gc.collect(0)


@check("streams.waiting-twice", 4, needs="devices", hosts=_OURS)
def _waiting_twice(subject: Subject) -> None:
    """A stream without work can be waited for again and again."""
    stream = _stream(subject)
    for _ in range(10):
        stream.synchronize()


def _on_a_stream(subject: Subject, run: Callable[[Any, Any], list[Any]]) -> None:
    _stream(subject)
    want = reference(subject.sample.build(4), subject.sample.feed(4))
    with subject.opened() as session:
        for number in range(5):
            subject.stage("running on a stream")
            subject.require_equal(run(session, number), want, f"run {number + 1} on a stream")


@check("streams.runs", 3, needs="model", hosts=_OURS)
def _runs(subject: Subject) -> None:
    """Runs of a plugin with streams give numbers that are complete."""
    feeds = subject.sample.feed(4)
    _on_a_stream(subject, lambda session, number: list(session.run(None, feeds)))


@check("streams.own", 5, needs="model", hosts=_OURS)
def _own(subject: Subject) -> None:
    """A run on a stream of the application gives the right numbers."""
    stream, feeds = _stream(subject), subject.sample.feed(4)
    options = subject.host.RunOptions()
    if not hasattr(options, "sync_stream"):
        raise Skip("the host's run options take no stream")
    options.sync_stream = stream

    def run(session: Any, number: int) -> list[Any]:
        outputs = list(session.run(None, feeds, options))
        stream.synchronize()
        return outputs

    _on_a_stream(subject, run)
