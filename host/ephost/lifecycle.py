"""How a session is opened, opened anew on other execution providers, and closed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from ephost import environment
from ephost.describing import Described
from ephost.errors import EPFail, Fail, OnnxRuntimeException, PluginFault, warn_of_fallback
from ephost.isolation.settings import ON_CRASH
from ephost.model.prepack import PrepackedWeightsContainer
from ephost.opening import DISABLE_FALLBACK, Opened, Opening
from ephost.options import SessionOptions
from ephost.providers import DEFAULT_PROVIDER
from ephost.selection import check_known

if TYPE_CHECKING:
    from ephost.profiling import Profile


class Lifecycle(Described):
    """What is open of a session: replaced as a whole, or not at all."""

    _from_model_package = False

    def __init__(
        self,
        source: Any,
        options: SessionOptions,
        *,
        disabled_optimizers: frozenset[str],
        container: PrepackedWeightsContainer | None,
        fallback: bool,
    ) -> None:
        """Nothing is open yet.

        Args:
            source: the model's path, its bytes, or a ``ModelProto``.
            options: of the session.
            disabled_optimizers: optimizers, by onnxruntime's names, that are not wanted.
            container: where kernels' packed weights are shared with other sessions.
            fallback: whether a run on which a plugin fails is repeated without plugins.
        """
        self._closed = True
        self._source = source
        self._options = options
        self._disabled = disabled_optimizers
        self._container = container
        self._fallback = fallback
        self._fallback_lock = threading.Lock()
        self._fell_back = False
        self._profile: Profile | None = None

    def _open(
        self, providers: Any, provider_options: Any, *, tolerant: bool = False, default_only: bool = False
    ) -> None:
        """Open the model; the session is as before when that fails."""
        opening = Opening(
            self._source,
            self._options,
            disabled_optimizers=self._disabled,
            container=self._container,
            tolerant=tolerant,
            default_only=default_only,
        )
        self._use(opening.open(providers, provider_options))

    def _reopen(self, providers: Any, provider_options: Any, *, default_only: bool = False) -> None:
        if self._closed:
            raise Fail("the session is closed")
        self._open(providers, provider_options, default_only=default_only)

    def _use(self, opened: Opened) -> None:
        self._opened = opened  # what was open before is freed with the last run that uses it
        self._run = opened.run
        self._profile = opened.profile or self._profile
        self._closed = False
        environment.forget_session(self)
        for assignment in opened.resources.assignments:
            environment.remember_session(self, assignment.ep.registration)

    def set_providers(
        self,
        providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Open the model again on other execution providers; runs under way end on the old ones.

        Raises:
            InvalidArgument: no registered library has an execution provider of one of the names.
            NotImplementedError: the session was made from a model package.
            What opening raises; the session is as before then.
        """
        self._refuse_for_packages("set_providers")
        check_known(providers, provider_options)
        self._reopen(providers, provider_options)

    def enable_fallback(self) -> None:
        """When an execution provider fails in a run with :class:`EPFail`, issue a
        :class:`ephost.FallbackWarning`, open the model without plugins, and run again. So it is from the
        start, once; a run on an IOBinding is never repeated.

        Raises:
            NotImplementedError: the session was made from a model package.
        """
        self._refuse_for_packages("enable_fallback")
        self._fallback = True

    def disable_fallback(self) -> None:
        """When an execution provider fails in a run, raise that."""
        self._fallback = False

    def _refuse_for_packages(self, name: str) -> None:
        if self._from_model_package:
            raise NotImplementedError(
                f"{name}() would open another model than the package's variant for the execution provider: "
                "ModelPackageComponentContext.create_session makes another session"
            )

    def _fall_back(self, failed: Callable[..., list[Any]], error: EPFail) -> bool:
        """Replace the plugins of the run that failed by the host's own, unless another thread has done it.

        Returns:
            Whether to run again: not when the error is to be raised, or the model does not open without them.
            Raised in here, it would be held by its own traceback, and the session's memory with it.
        """
        with self._fallback_lock:
            if self._fell_back and self._run is not failed:
                return True
            names = [a.ep.name for a in self._resources.assignments if a.ep.name != DEFAULT_PROVIDER]
            config = self._options._config
            strict = config.get(DISABLE_FALLBACK) == "1"
            if isinstance(error, PluginFault) and config.get(ON_CRASH) != "fallback":
                return False
            if not self._fallback or strict or not names or self._run is not failed:
                return False
            warn_of_fallback(
                f"{self.description} runs without {', '.join(names)} from here on (enable_fallback=0 would "
                f"raise this): {error}"
            )
            try:
                self._reopen(None, None, default_only=True)
            except OnnxRuntimeException as reason:
                error.add_note(f"It cannot be run without {', '.join(names)} either: {reason}")
                return False
            self._fell_back, self._fallback = True, False
            return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release what the session holds, now rather than with its last reference. No run may be under way.
        A profile that was not ended is written.

        Raises:
            Fail: a run is under way.
        """
        if self._closed:
            return
        if not self._opened.runner.close():
            raise Fail(f"the session of {self.description} is running: it cannot be closed")
        self._closed = True
        if self._profile is not None:
            self._profile.leave()  # values on devices may keep the resources
        self._opened.resources.close()
        environment.forget_session(self)
