"""Triton's extensions that its own tools ask for: a model's configuration, and statistics of its requests.

Source: Triton's extensions "model_configuration" and "statistics" of the Open Inference Protocol v2. What
Triton has and this server has not is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ephost.serving.core import PLATFORM
from ephost.serving.metrics import Counts
from ephost.serving.repository import Version
from ephost.serving.signature import TensorSpec

# The types of Triton's model_config.proto: their texts in JSON, and their numbers.
_NAMES = (
    *("INVALID", "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64"),
    *("FP16", "FP32", "FP64", "STRING", "BF16"),
)
DATA_TYPES = {name: number for number, name in enumerate(_NAMES)}


def configured(version: Version, *, numbers: bool) -> dict[str, Any]:
    """A model's configuration as Triton writes it.

    Args:
        version: the model's.
        numbers: whether types are the numbers of gRPC's messages, else the texts of JSON.
    """
    batching = version.config.batching
    is_batched = batching.max_size > 1

    def described(spec: TensorSpec) -> dict[str, Any]:
        name = "STRING" if spec.datatype == "BYTES" else spec.datatype
        kind = DATA_TYPES[name] if numbers else f"TYPE_{name}"
        # The axis of batches is none of Triton's dims.
        return {"name": spec.name, "data_type": kind, "dims": list(spec.shape[is_batched:])}

    found: dict[str, Any] = {
        "name": version.model,
        "platform": PLATFORM,
        "backend": "ephost",
        "max_batch_size": batching.max_size if is_batched else 0,
        "input": [
            {**described(each), **({} if each.required else {"optional": True})}
            for each in version.signature.inputs.values()
        ],
        "output": [described(each) for each in version.signature.outputs.values()],
        "instance_group": [{"name": version.model, "count": version.config.instances}],
    }
    if is_batched:
        delay = round(batching.delay_milliseconds * 1000)
        found["dynamic_batching"] = {"max_queue_delay_microseconds": delay}
    return found


def statistics(counts: Mapping[tuple[str, str], Counts], versions: Iterable[Version]) -> list[dict[str, Any]]:
    """How many requests each version has answered since the server began, and what they waited for.

    Args:
        counts: by model and version.
        versions: those to tell of.
    """
    return [_statistics(counts.get((each.model, each.version), Counts()), each) for each in versions]


def _statistics(seen: Counts, version: Version) -> dict[str, Any]:

    def duration(count: float, seconds: float) -> dict[str, int]:
        return {"count": round(count), "ns": round(seconds * 1e9)}

    # Requests are decoded before they wait, and answers encoded behind a run: not a part of it, as in Triton.
    nothing = duration(seen.run, 0.0)
    return {
        "name": version.model,
        "version": version.version,
        "last_inference": round(seen.last * 1000),
        "inference_count": round(seen.rows),
        "execution_count": round(seen.runs),
        "inference_stats": {
            "success": duration(seen.succeeded, seen.succeeded_seconds),
            "fail": duration(seen.failed, seen.failed_seconds),
            "queue": duration(seen.run, seen.waited_seconds),
            "compute_input": nothing,
            "compute_infer": duration(seen.run, seen.run_seconds),
            "compute_output": nothing,
        },
    }
