"""InferenceSession: a model, partitioned over execution providers, ready to run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ephost.describing import ModelMetadata, NodeArg, OrtEpAssignedNode, OrtEpAssignedSubgraph
from ephost.errors import warn_of_argument
from ephost.model.prepack import PrepackedWeightsContainer
from ephost.opening import CONTEXT_ENABLE, DISABLE_FALLBACK, effective_options
from ephost.options import SessionOptions
from ephost.running import Session
from ephost.suggestions import did_you_mean

if TYPE_CHECKING:
    import onnx

__all__ = ["InferenceSession", "ModelMetadata", "NodeArg", "OrtEpAssignedNode", "OrtEpAssignedSubgraph"]

ENABLE_FALLBACK = "ephost.enable_fallback"  # "0": a plugin's failure is raised; as the argument of the name

_KEYWORDS = {"disabled_optimizers", "enable_fallback", "read_config_from_model"}
_ARGUMENTS = ("sess_options", "providers", "provider_options", "prepacked_weights_container")


class InferenceSession(Session):
    """A model opened on execution providers; any number of threads may run it at once."""

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str] | onnx.ModelProto,
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        prepacked_weights_container: PrepackedWeightsContainer | None = None,
        **kwargs: Any,
    ) -> None:
        """Load a model, let execution providers claim what they can, and prepare to run it.

        Args:
            path_or_bytes: the model's path, its bytes, or a ``ModelProto``.
            sess_options: options; its ``add_provider_for_devices`` chooses the execution providers.
            providers: instead of that, names of execution providers of registered libraries, in order of
                priority, or (name, options) pairs. What none of them claims runs on the reference fallback.
            provider_options: options for ``providers``, one dict for each.
            prepacked_weights_container: where kernels' packed weights are shared with other sessions. In
                onnxruntime, only its C API has this.
            **kwargs: ``enable_fallback=0`` raises what a plugin reports when it is created, when it chooses
                nodes and in a run, all of which otherwise are a :class:`ephost.FallbackWarning` each, and the
                session goes on without the plugin. A session that is to have no fallback (by
                ``session.disable_cpu_ep_fallback``) or that writes a compiled model always raises.
                ``disabled_optimizers`` are optimizers, by onnxruntime's names, that are not wanted.
                ``read_config_from_model=1``, or the environment's ORT_LOAD_CONFIG_FROM_MODEL=1, takes the
                session's options from the model (:func:`ephost.options.options_of_model`). Others are
                warned about and ignored.

        Raises:
            NoSuchFile, InvalidProtobuf, InvalidArgument, InvalidGraph: the model is missing or not valid.
            EPFail: a plugin failed otherwise, or broke a rule of the ABI.
            Fail: nodes are left to the fallback although ``session.disable_cpu_ep_fallback`` is "1".
            NotImplemented: a node that neither a plugin nor the fallback can run, one among them that holds
                what a plugin compiled that the session does not have.
            ModelRequiresCompilation: the model was compiled for a device that this is not, or
                ``session.disable_model_compile`` is "1" and an EP wants to compile.
        """
        if unknown := sorted(set(kwargs) - _KEYWORDS):
            meant = did_you_mean(unknown[0], {*_KEYWORDS, *_ARGUMENTS})
            warn_of_argument(f"InferenceSession has no argument {unknown[0]!r}, which is ignored{meant}")
        options = effective_options(path_or_bytes, sess_options, kwargs.get("read_config_from_model"))
        config = options._config
        fallback = int(kwargs.get("enable_fallback", config.get(ENABLE_FALLBACK, 1))) == 1
        super().__init__(
            path_or_bytes,
            options,
            disabled_optimizers=frozenset(kwargs.get("disabled_optimizers") or ()),
            container=prepacked_weights_container,
            fallback=fallback,
        )
        # set_providers opens on all that it names, or not at all.
        strict = config.get(DISABLE_FALLBACK) == "1" or config.get(CONTEXT_ENABLE) == "1"
        self._open(providers, provider_options, tolerant=fallback and not strict)
