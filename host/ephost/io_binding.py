"""IO binding: inputs and outputs fixed to memory of the caller's choice, ahead of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ephost.devices import OrtDevice
from ephost.errors import InvalidArgument
from ephost.options import RunOptions, as_run_options
from ephost.value_vectors import OrtValueVector
from ephost.values import OrtValue, memory_on, over_memory, writable

if TYPE_CHECKING:
    from ephost.opening import Opened

# What an output is bound to: a value to write to, or a device on which the run allocates it.
Target = OrtValue | OrtDevice


class BoundSession(Protocol):
    """What a binding needs of its session."""

    _opened: Opened

    def _made(self, name: str, value: int) -> OrtValue:
        """The output of a run at an address as a value."""


class SessionIOBinding:
    """What is bound to the inputs and outputs of a session, under the name of onnxruntime's native class."""

    def __init__(self, session: BoundSession) -> None:
        self._session = session
        self._inputs: dict[str, Any] = {}  # name -> array or OrtValue
        self._outputs: dict[str, Target] = {}
        self._results: list[OrtValue] = []
        self._bound: Any = None  # what runs take; None: something was bound anew
        self._written: list[OrtValue] = []  # the outputs that are bound to values

    def bind_input(
        self, name: str, value: Any, element_type: Any = None, shape: Any = None, pointer: int = 0
    ) -> None:
        """Bind an input to an array, or (``value`` is a device) to memory at an address.

        Raises:
            InvalidArgument: the model has no such input.
            NotImplemented: a device that no registered execution provider has memory on.
        """
        self._session._opened.interface.check_input_name(name)
        if isinstance(value, OrtDevice):
            value = over_memory(pointer, element_type, shape, value)
        self._bound = None
        self._inputs[name] = value

    def bind_ortvalue_input(self, name: str, value: OrtValue) -> None:
        """Bind an input to a value.

        Raises:
            InvalidArgument: the model has no such input.
            TypeError: it is no OrtValue.
        """
        self._session._opened.interface.check_input_name(name)
        self._bound = None
        self._inputs[name] = _ort_value(value)

    def bind_output(
        self,
        name: str,
        device: OrtDevice,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        pointer: int | None = None,
    ) -> None:
        """Ask for an output, in memory of a device that the run allocates or at an address.

        Raises:
            InvalidArgument: the model has no such output.
            NotImplemented: a device that no registered execution provider has memory on.
        """
        self._session._opened.interface.check_output_name(name)
        target: Target = device
        if pointer is not None:
            target = over_memory(pointer, element_type, shape or (), device)
        elif not device._is_cpu():
            memory_on(device)
        self._bound = None
        self._outputs[name] = target

    def bind_ortvalue_output(self, name: str, value: OrtValue) -> None:
        """Have an output written into a value's memory.

        Raises:
            InvalidArgument: the model has no such output, or the value is over an array that is read-only.
            TypeError: it is no OrtValue.
        """
        self._session._opened.interface.check_output_name(name)
        target = writable(_ort_value(value))
        self._bound = None
        self._outputs[name] = target

    def synchronize_inputs(self) -> None:
        """Wait until what was queued on the devices of the session's execution providers is done.

        Raises:
            EPFail and others: the plugin's error.
        """
        for assignment in self._session._opened.resources.assignments:
            if assignment.ep.member("Sync") is not None:
                assignment.ep.call("Sync")

    def synchronize_outputs(self) -> None:
        """The same as :meth:`synchronize_inputs`."""
        self.synchronize_inputs()

    def get_outputs(self) -> OrtValueVector:
        """The outputs of the last run, in the order in which they were bound. Before the first, the values
        that they are bound to, where all are bound to some.
        """
        return OrtValueVector(self._there())

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Copies of what :meth:`get_outputs` gives, as arrays."""
        return [_copied(value.numpy()) for value in self._there()]

    def _there(self) -> list[OrtValue]:
        bound = [value for value in self._outputs.values() if isinstance(value, OrtValue)]
        return self._results or (bound if len(bound) == len(self._outputs) else [])

    def clear_binding_inputs(self) -> None:
        """Forget what is bound to the inputs."""
        self._bound = None
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forget what is bound to the outputs, and the last run's results."""
        self._bound = None
        self._outputs.clear()
        self._results = []

    def _run(self, run_options: RunOptions | None) -> None:
        runner = self._session._opened.runner
        bound = self._bound
        options = None if run_options is None else as_run_options(run_options)
        adapted = options is not None and options._adapted
        if bound is None or adapted or not runner.made(bound):
            if not self._outputs:
                raise InvalidArgument("At least one output should be requested: bind_output was not called.")
            feed = {**self._inputs, **adapted} if adapted else self._inputs
            bound = runner.bind(feed, targets_of(self._outputs))
            self._bound = None if adapted else bound
            self._written = [value for value in self._outputs.values() if isinstance(value, OrtValue)]
        made = runner.run_bound(bound, None if options is None else options._address)
        if made is None:  # all were written where they are bound
            self._results = self._written
        elif made:  # nothing: an EP repeated what it recorded, on the same memory
            self._results = into_bound(self._session, self._outputs, made)


class IOBinding:
    """Inputs and outputs of a session bound to memory; used by ``session.run_with_iobinding``.

    Arrays that are bound stay alive, and are not copied when they are contiguous. An output that is bound to
    memory is written in place.
    """

    def __init__(self, session: BoundSession) -> None:
        self._session = session
        self._iobinding = SessionIOBinding(session)

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Bind an input to an array.

        Raises:
            InvalidArgument: the model has no such input.
        """
        self._iobinding.bind_input(name, arr_on_cpu)

    def bind_input(
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: Any,
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:
        """Bind an input to memory at an address, which must stay there until the run is over.

        Args:
            name: the input.
            device_type: where the memory is: ``cpu``, ``cuda``, ``gpu``...
            device_id: which device of that type.
            element_type: a numpy dtype or an ``onnx.TensorProto.DataType``.
            shape: the dimensions.
            buffer_ptr: the address.

        Raises:
            InvalidArgument: an unknown input, or an impossible type, shape or address.
            NotImplemented: a device that no registered execution provider has memory on.
        """
        self._iobinding.bind_input(
            name, OrtDevice.make(device_type, device_id), element_type, shape, buffer_ptr
        )

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an input to a value."""
        self._iobinding.bind_ortvalue_input(name, ortvalue)

    def synchronize_inputs(self) -> None:
        """Wait until the inputs are where they are needed."""
        self._iobinding.synchronize_inputs()

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Ask for an output; with ``buffer_ptr`` it is written to that address.

        Raises:
            ValueError: an address without a type or shape.
            InvalidArgument: an unknown output, or an impossible type, shape or address.
            NotImplemented: a device that no registered execution provider has memory on.
        """
        if buffer_ptr is not None and (element_type is None or shape is None):
            raise ValueError(
                "`element_type` and `shape` are to be provided if pre-allocated memory is provided"
            )
        self._iobinding.bind_output(
            name, OrtDevice.make(device_type, device_id), element_type, shape, buffer_ptr
        )

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Have an output written into a value's memory."""
        self._iobinding.bind_ortvalue_output(name, ortvalue)

    def synchronize_outputs(self) -> None:
        """Wait until the outputs are there."""
        self._iobinding.synchronize_outputs()

    def get_outputs(self) -> list[OrtValue]:
        """The outputs of the last run, in the order in which they were bound; those bound to memory share
        it.
        """
        return list(self._iobinding.get_outputs())

    def get_outputs_as_ortvaluevector(self) -> OrtValueVector:
        """The outputs of the last run."""
        return self._iobinding.get_outputs()

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Copies of the outputs of the last run, as arrays."""
        return self._iobinding.copy_outputs_to_cpu()

    def clear_binding_inputs(self) -> None:
        """Forget what is bound to the inputs."""
        self._iobinding.clear_binding_inputs()

    def clear_binding_outputs(self) -> None:
        """Forget what is bound to the outputs."""
        self._iobinding.clear_binding_outputs()


def targets_of(outputs: Mapping[str, Target]) -> list[tuple[str, Any]]:
    """What the call module takes for outputs: names with values, None for the CPU, True for a device."""
    return [
        (name, target if isinstance(target, OrtValue) else None if target._is_cpu() else True)
        for name, target in outputs.items()
    ]


def into_bound(session: BoundSession, outputs: Mapping[str, Target], made: Sequence[int]) -> list[OrtValue]:
    """The outputs of a run: what was bound, or what was made where nothing was.

    Args:
        session: whose run it was.
        outputs: by name a value, or the device where the output is wanted.
        made: for each the address of a native value, which is taken over; 0 where the run wrote what is
            bound.

    Raises:
        InvalidArgument: an output that the run could not write in place does not fit what is bound to it.
    """
    values = [
        session._made(name, value) if value else None for name, value in zip(outputs, made, strict=True)
    ]
    results = []
    for (name, target), value in zip(outputs.items(), values, strict=True):
        if value is None:
            assert isinstance(target, OrtValue)
            results.append(target)
        elif isinstance(target, OrtValue):
            # The run could not write there itself: the output is an input, a constant, or no tensor.
            try:
                target.update_inplace(value)
            except InvalidArgument as error:
                message = f"the output '{name}' does not fit what is bound to it: {error}"
                raise InvalidArgument(message) from None
            results.append(target)
        else:
            results.append(value._moved(target))
    return results


def _ort_value(value: Any) -> OrtValue:
    if not isinstance(value, OrtValue):
        raise TypeError(f"an OrtValue is bound, not {type(value).__name__}")
    return value


def _copied(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy()
    return [_copied(item) for item in value] if isinstance(value, list) else value
