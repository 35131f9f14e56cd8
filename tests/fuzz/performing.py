"""Takes the steps of a program of calls on ephost or on onnxruntime, and says what each gave."""

from __future__ import annotations

import re
import traceback
from typing import Any

import numpy as np

from tests.fuzz.call_models import MODELS
from tests.fuzz.programs import ModelRef, Program, Ref, Step

# What one step came to: what it did, and the rest as text.
GAVE, RAISED, LEFT_OUT, FAULT = "gave", "raised", "left out", "fault"
Outcome = tuple[str, str]

# What says of itself which host and machine it is, or when it was, or has whatever was in its memory.
OWN = frozenset(
    {
        *("get_available_providers", "get_all_providers", "get_version_string", "get_tuning_results"),
        *("end_profiling", "compile_to_bytes", "get_ep_devices", "get_provider_graph_assignment_info"),
        *("get_input_epdevices", "get_provider_options", "ortvalue_from_shape_and_type"),
    }
)
# What Python, numpy and cffi say of an argument that nobody looked at before them: not which it is.
UNTOLD = re.compile(
    "cdata|ctype|codec|unhashable|unsized|initializer for|interpreted as|not iterable|truth value|"
    "data type .* not under|data-type for|has no len|object has no attribute '[^n]|'<' not supported"
)
MISSING = object()  # in the place of what a step did not give


class NothingThereError(Exception):
    """A step needs what an earlier one did not give."""


def perform(
    module: Any, program: Program, errors: tuple[type[Exception], ...], untold: re.Pattern[str] | None = None
) -> list[Outcome]:
    """What each step gave.

    Args:
        module: of the host.
        program: whose steps are taken.
        errors: what a host may raise. Anything else is a fault, but for names that are not there.
        untold: what its errors may not say.
    """
    given: list[Any] = []
    outcomes: list[Outcome] = []
    for step in program.steps:
        value: Any = MISSING
        try:
            value = _take(module, step, given)
            outcomes.append((GAVE, "" if step.name in OWN else told(value)))
        except NothingThereError:
            outcomes.append((LEFT_OUT, ""))
        except errors as error:
            said = f"{type(error).__name__}: {error}"
            outcomes.append((FAULT if untold is not None and untold.search(said) else RAISED, said))
        except Exception as error:
            kind = f"{type(error).__name__}: {error}"
            missing = isinstance(error, AttributeError) and f"no attribute '{step.name}'" in kind
            where = traceback.extract_tb(error.__traceback__)[-1]
            outcomes.append((RAISED, kind) if missing else (FAULT, f"{kind} at {where}"))
        given.append(value)
    return outcomes


def _take(module: Any, step: Step, given: list[Any]) -> Any:
    on = module
    if isinstance(step.on, Ref):
        on = _filled_in(step.on, given)
    elif step.on:
        on = getattr(module, step.on)
    args = [_filled_in(each, given) for each in step.args]
    if step.does == "get":
        return getattr(on, step.name)
    if step.does == "set":
        setattr(on, step.name, *args)
        return None
    return getattr(on, step.name)(*args, **{k: _filled_in(v, given) for k, v in step.options})


def _filled_in(value: Any, given: list[Any]) -> Any:
    if isinstance(value, Ref):
        if given[value.step] is MISSING:
            raise NothingThereError
        return given[value.step]
    if isinstance(value, ModelRef):
        return MODELS[value.name].model
    if type(value) is list:
        return [_filled_in(each, given) for each in value]
    if type(value) is dict:
        return {name: _filled_in(each, given) for name, each in value.items()}
    # Some programs change what they were given.
    return value.copy(order="K") if isinstance(value, np.ndarray) and value.flags.writeable else value


def told(value: Any) -> str:
    """A value as text that two hosts can be compared by."""
    if isinstance(value, np.ndarray):
        numbers = value.astype(np.float64) if value.dtype.kind == "V" else value
        return f"array({value.dtype} {value.shape} {numbers.tolist()})"
    if isinstance(value, np.generic):
        return f"{value.dtype} {value}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}[{', '.join(map(told, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(sorted(f'{key!r}: {told(each)}' for key, each in value.items()))}}}"
    name = type(value).__name__
    if hasattr(type(value), "__members__"):
        return f"{name}.{value.name}"
    if isinstance(value, int | float | str | bytes | None):
        return repr(value)
    if name == "NodeArg":
        return f"NodeArg({value.name} {value.type} {value.shape})"
    if name == "ModelMetadata":
        about = value.custom_metadata_map, value.description, value.domain, value.graph_name, value.version
        return f"ModelMetadata{about}"
    if name == "OrtValue":
        return f"OrtValue({value.data_type()}{told(value.numpy()) if value.is_tensor() else ''})"
    return name
