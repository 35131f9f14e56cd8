"""Values of configuration entries, for keys whose values onnxruntime checks: what it refuses is refused here;
and those of environment variables that switch something.

Entries that take any text, or of which onnxruntime makes the best it can, are not listed, nor are those that
have a syntax of their own and that the host does not read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from math import inf, isfinite

from ephost.errors import InvalidArgument

_Check = tuple[Callable[[str], bool], str]  # whether a text is a value of the entry; what such values are
_INT32, _MOST = 2**31 - 1, 2**64 - 1


def _one_of(*values: str) -> _Check:
    told = [value or "empty" for value in values]
    return (lambda text: text in values), f"{', '.join(told[:-1])} or {told[-1]}"


def _whole(least: int, most: int = _MOST, multiple: int = 1) -> _Check:
    def holds(text: str) -> bool:
        digits = text.removeprefix("-")
        is_number = digits.isascii() and digits.isdecimal() and len(digits) <= 20
        return is_number and least <= int(text) <= most and int(text) % multiple == 0

    what = "a whole number" if multiple == 1 else f"a multiple of {multiple}"
    return holds, f"{what} from {least} {'on' if most == _MOST else f'to {most}'}"


def _real(most: float = inf) -> _Check:
    def holds(text: str) -> bool:
        try:
            return "_" not in text and isfinite(float(text)) and 0 <= float(text) <= most
        except ValueError:
            return False

    return holds, f"a number from 0 {'on' if most == inf else f'to {most:g}'}"


def _leading() -> _Check:
    """A number as C reads one: what follows it does not count."""

    def holds(text: str) -> bool:
        found = re.match(r"[ \t\n\v\f\r]*([+-]?[0-9]+)", text)
        return found is not None and -_INT32 - 1 <= int(found[1]) <= _INT32

    return holds, "an int of 32 bits"


def _or(other: str, check: _Check) -> _Check:
    return (lambda text: text == other or check[0](text)), f"{other or 'empty'}, or {check[1]}"


_SWITCH, _COUNT, _BYTES = _one_of("0", "1"), _whole(0, _INT32), _or("auto", _whole(0))
_MOE = "session.moe.offload."
_VALUES: dict[str, _Check] = {
    "ep.cuda.gqa_workspace_max_total_sequence_length": _COUNT,
    "ep.cuda.moe_packed_gpu_experts": _or("", _COUNT),
    "ephost.enable_fallback": _SWITCH,
    "ephost.offer_subgraphs": _SWITCH,
    "ephost.record_refusals": _SWITCH,
    "optimization.minimal_build_optimizations": _one_of("", "save", "apply"),
    "session.dynamic_block_base": _leading(),
    "session.enable_moe_expert_counting": _SWITCH,
    "session.enable_moe_expert_statistics": _SWITCH,
    "session.external_data_loader.chunk_bytes": _whole(4096, 1 << 26, 4096),
    "session.external_data_loader.min_size_bytes": _whole(0, 1 << 32),
    "session.external_data_loader.pinned_memory_bytes": _whole(1 << 20, 1 << 30, 4096),
    "session.external_data_loader.threads": _whole(0, 64),
    "session.function_expansion_byte_limit": _whole(1),
    "session.function_expansion_node_limit": _whole(1),
    "session.gqa_value_layout": _one_of("BNSH", "BNHS"),
    "session.graph_optimizations_loop_level": _leading(),
    "session.kernel_dispatch_policy": _one_of("", "auto", "latency", "memory", "safe"),
    f"{_MOE}allow_file_backing": _one_of("0", "1", "false", "true"),
    f"{_MOE}async_max_tokens": _COUNT,
    f"{_MOE}cpu_execution": _one_of("auto", "enabled", "disabled", "0", "1"),
    f"{_MOE}cpu_threads": _COUNT,
    f"{_MOE}device_expert_bytes": _BYTES,
    f"{_MOE}device_working_bytes": _whole(1),
    f"{_MOE}gpu_budget_bytes": _BYTES,
    f"{_MOE}gpu_device_mem_limit": _whole(0),
    f"{_MOE}host_expert_bytes": _BYTES,
    f"{_MOE}host_working_bytes": _whole(1),
    f"{_MOE}min_expert_weight": _real(1),
    f"{_MOE}mode": _one_of("disabled", "auto", "required", "0", "1"),
    f"{_MOE}pinned_bytes": _BYTES,
    f"{_MOE}prefill_wave_experts": _whole(1, _INT32),
    f"{_MOE}reserve_device_bytes": _BYTES,
    f"{_MOE}skip_tail_cold_only": _SWITCH,
    f"{_MOE}skip_zero_cold_doorbell": _SWITCH,
    f"{_MOE}tail_substitution_threshold": _real(),
    "session.qdq_matmulnbits_accuracy_level": _whole(0, 4),
    "session.qdq_matmulnbits_block_size": _whole(-(2**63), 2**63 - 1),
}
_AFFINITIES = "session.intra_op_thread_affinities"
_RUN_VALUES: dict[str, _Check] = {"gpu_graph_id": _or("", _whole(-(2**31), _INT32))}


def switched(variable: str, otherwise: bool) -> bool:
    """Whether a variable of the environment, which is 0 or 1, switches on.

    Args:
        variable: its name.
        otherwise: what holds where it is not set, or empty.

    Raises:
        InvalidArgument: it is something else.
    """
    value = os.environ.get(variable, "").strip()
    if value not in ("", "0", "1"):
        raise InvalidArgument(f"the environment variable {variable} is 0 or 1, not {value!r:.100}")
    return otherwise if not value else value == "1"


def check_values(entries: Mapping[str, str]) -> None:
    """Refuse an entry of a session whose value is none of its key's.

    Raises:
        InvalidArgument: the text names the entry, and says what its values are.
    """
    _check("session", entries, _VALUES)


def check_affinities(entries: Mapping[str, str], wanted: int, threads: int) -> None:
    """Refuse processors for the threads of a session that are none, or not for as many threads as it has.

    Args:
        entries: of the session.
        wanted: how many threads the user wants; 0: as many as there are processors, by whoever's count.
        threads: how many there are.

    Raises:
        InvalidArgument: the text names the entry, and says what its values are.
    """
    text = entries.get(_AFFINITIES)
    if text is None or (text and threads == 1):
        return
    lists = [part for part in text.split(";") if part]
    if not (text and all(map(_are_processors, lists))):
        raise InvalidArgument(
            f"the session entry {_AFFINITIES} is processors from 1 on for each thread but the first, such as "
            f"1,2;3-4, not {text!r:.100}"
        )
    if wanted and len(lists) != wanted - 1:
        raise InvalidArgument(
            f"the session entry {_AFFINITIES} is for {len(lists)} threads; it is wanted for {wanted - 1}: "
            f"each of intra_op_num_threads={wanted} but the first"
        )


def _are_processors(text: str) -> bool:
    interval = [part for part in text.split("-") if part] if "-" in text else []
    numbers = interval if len(interval) == 2 else [part for part in text.split(",") if part]
    if not all(map(_whole(1, _INT32)[0], numbers)):
        return False
    return numbers is not interval or int(numbers[0]) <= int(numbers[1])


def check_run_value(key: str, value: str) -> None:
    """The same of an entry of run options."""
    _check("run", {key: value}, _RUN_VALUES)


def _check(kind: str, entries: Mapping[str, str], table: Mapping[str, _Check]) -> None:
    for key in entries.keys() & table.keys():
        holds, what = table[key]
        if not holds(entries[key]):
            raise InvalidArgument(f"the {kind} entry {key} is {what}, not {entries[key]!r:.100}")
