"""Models of ``ephost serve``'s folders on a cluster of Ray: rows of Ray Data, and deployments of Ray Serve.

:class:`Predictor` runs a model on the batches of a ``ray.data.Dataset``; :func:`deployment` makes an
application of Ray Serve that answers the Open Inference Protocol. Where actors run, how many there are, and
how requests wait is Ray's business. Extra: ``ephost[ray]``; a Predictor itself needs no Ray.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ephost.ray.opened import labels
from ephost.ray.predictor import Predictor

if TYPE_CHECKING:
    from ephost.ray.served import deployment

__all__ = ["Predictor", "deployment", "labels"]


def __getattr__(name: str) -> Any:
    # What needs Ray and the model server's packages is imported when it is asked for.
    if name == "deployment":
        from ephost.ray.served import deployment

        return deployment
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
