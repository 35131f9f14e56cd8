"""How long each value is needed, and whose memory it gets until then."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence

from ephost.model.graph import Value, tensor_bytes
from ephost.model.planning.arena import Arena, round_up
from ephost.model.planning.homes import Homes, SlotStep
from ephost.records import Record

# A slot, its offset in the arena, its bytes.
Block = tuple[int, int, int]


class Sharing(Record, frozen=True):
    """What shares the arena."""

    blocks: Collection[Block]
    arena_bytes: int
    planned_bytes: int  # the sum of the blocks that were taken, which is what they would need without sharing


def share_memory(homes: Homes) -> Sharing:
    """Give values places in the arena; in each step, say what it releases and which memory it uses again."""
    values, interface = homes.values, homes.interface
    last_use = _last_uses(homes.steps, set(interface.outputs))
    kept = {*interface.inputs, *interface.outputs} | {
        i for i, (value, _) in enumerate(values) if value.initializer is not None
    }
    # What a caller may see or have given is not written over.
    lent = {*kept, *interface.device_inputs, *interface.device_outputs}
    arena = Arena()
    planned_bytes = 0
    blocks: dict[int, Block] = {}
    handed_on: set[int] = set()  # slots whose block is another one's from some step on
    sizes: dict[int, int | None] = {}  # of a type, by its id

    def bytes_of(index: int) -> int | None:
        kind = values[index][0].type
        if id(kind) not in sizes:
            sizes[id(kind)] = tensor_bytes(kind)
        return sizes[id(kind)]

    for at, step in enumerate(homes.steps):
        last_used = last_use.get(at, ())
        if step.runner is not None:
            if pairs := step.runner.reuses:
                step.reuses = _reused(step, pairs, last_used, lent, values)
            for position, index in enumerate(step.outputs):
                if index < 0 or index in kept or index in blocks or values[index][1]:
                    continue
                nbytes = bytes_of(index)
                source = step.reuses[position] if step.reuses else -1
                if source in blocks and nbytes == bytes_of(source):
                    blocks[index] = (index, *blocks[source][1:])
                    handed_on.add(source)
                elif nbytes is not None:
                    size = round_up(nbytes)
                    blocks[index] = (index, arena.take(size), size)
                    planned_bytes += size
        step.releases = [i for i in last_used if i not in kept]
        for index in step.releases:
            if index in blocks and index not in handed_on:
                arena.give(*blocks[index][1:])
    return Sharing(blocks.values(), arena.size, planned_bytes)


def _reused(
    step: SlotStep,
    pairs: Sequence[tuple[int, int]],
    last_used: Collection[int],
    lent: Container[int],
    values: Sequence[tuple[Value, int]],
) -> list[int]:
    """For each output of a kernel's step the slot of the input whose memory it may take over, or -1.

    Args:
        step: the step.
        pairs: of an input and an output, which the kernel's definition allows to share memory.
        last_used: slots that nobody needs after it.
        lent: slots whose memory is not the run's alone.
        values: of each slot the value, and where it is.
    """
    found = [-1] * len(step.outputs)
    for source, target in pairs:
        if source >= len(step.inputs) or target >= len(step.outputs):
            continue  # left out, as the last ones may be
        slot, output = step.inputs[source], step.outputs[target]
        if slot < 0 or output < 0 or found[target] >= 0 or slot in found or slot in lent:
            continue
        # It would be overwritten while the kernel still reads it as another input.
        if slot in last_used and step.inputs.count(slot) == 1 and values[slot][1] == values[output][1]:
            found[target] = slot
    return found


def _last_uses(steps: Sequence[SlotStep], outputs: set[int]) -> Mapping[int, list[int]]:
    """Step -> slots that nobody needs after it."""
    last: dict[int, int] = {}
    for at, step in enumerate(steps):
        for index in (*step.inputs, *step.outputs):
            if index >= 0:
                last[index] = at
    uses: dict[int, list[int]] = {}
    for index, at in last.items():
        if index not in outputs:
            uses.setdefault(at, []).append(index)
    return uses
