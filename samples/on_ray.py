"""A model on Ray (extra: ephost[ray]): rows of a dataset through it, and a deployment that is asked.

Ray starts on this machine alone. On a cluster nothing changes but `ray.init("auto")`, and every node must see
the folder.
"""

import os
import tempfile
from pathlib import Path

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ephost.ray
import numpy as np
import ray
from onnx import parser
from ray import data, serve

MODEL = parser.parse_model(
    """<ir_version: 8, opset_import: ["": 17]>
    g (float[N, 4] x) => (float[N] mean) { mean = ReduceMean<keepdims = 0, axes = [1]>(x) }"""
)


def main(folder: Path) -> None:
    """Run a dataset through the model, and serve the model."""
    model = folder / "mean"  # laid out as `ephost serve` has it
    (model / "1").mkdir(parents=True)
    (model / "1" / "model.onnx").write_bytes(MODEL.SerializeToString())
    (model / "config.toml").write_text("[batching]\nmax_size = 8\n")

    rows = np.arange(4000, dtype=np.float32).reshape(1000, 4)
    table = data.from_items([{"row": at, "x": row} for at, row in enumerate(rows)])
    # Each actor opens one session; `libraries` would name plugins, and `devices` which of theirs.
    means = table.map_batches(
        ephost.ray.Predictor,
        fn_constructor_args=[str(model)],
        batch_format="numpy",
        batch_size=64,
        compute=data.ActorPoolStrategy(size=1),
    ).take_all()
    right = sum(abs(row["mean"] - rows[row["row"]].mean()) < 1e-3 for row in means)
    print(f"Ray Data:  {right} of {len(means)} rows are right")

    served = ephost.ray.deployment(
        str(model),
        name="mean",
        ray_actor_options={"num_cpus": 0.5},
        autoscaling_config={"min_replicas": 1, "max_replicas": 2},
    )
    serve.start(http_options={"host": "127.0.0.1", "port": 0})
    handle = serve.run(served, name="mean", route_prefix="/v2/models/mean")
    answer = handle.infer.remote({"x": rows[:2]}).result()
    print(f"Ray Serve: {answer['mean'].tolist()}")


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
    ray.shutdown()
