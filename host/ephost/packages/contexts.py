"""What programs that run packages use: the package, the options, and the selected variant of a component."""

from __future__ import annotations

import copy
import os
from typing import TYPE_CHECKING

from ephost.errors import EPFail, Fail
from ephost.options import SessionOptions
from ephost.packages import manifest
from ephost.packages.arguments import as_path, as_text
from ephost.packages.variants import PATH_OPTIONS, Candidate, Target, candidate_of, select, target_of
from ephost.providers import DEFAULT_PROVIDER

if TYPE_CHECKING:
    from ephost.session import InferenceSession


class ModelPackageOptions:
    """The execution provider that variants are looked for."""

    def __init__(self, sess_options: SessionOptions) -> None:
        """Take the first execution provider of a session's options: the devices and names that were added to
        them, what their policy or delegate chooses now, or else ``CPUExecutionProvider``. Nothing else of the
        options is kept.

        Raises:
            TypeError: they are no SessionOptions.
            Fail: the options' delegate failed.
        """
        self._target = target_of(_as_options(sess_options))


class ModelPackageContext:
    """A model package as it was when this was made. Models are read by the sessions."""

    def __init__(self, package_root: str | os.PathLike[str]) -> None:
        """Read the JSON files of a package, and check what they say to sessions.

        Args:
            package_root: the folder with ``manifest.json``.

        Raises:
            RuntimeError: there is none, or one of the files is not as it should be.
        """
        root = as_path("package_root", package_root)
        try:
            self._package = manifest.read(root)
            self._candidates = {
                component.name: {
                    variant.name: candidate_of(self._package, component.name, variant)
                    for variant in component.variants.values()
                }
                for component in self._package.components.values()
            }
        except (ValueError, OSError) as error:
            raise RuntimeError(f"the model package '{root}' cannot be opened: {error}") from error

    def get_schema_version(self) -> int:
        """The major version of the package's format."""
        return self._package.version[0]

    def get_component_count(self) -> int:
        """How many components the package has."""
        return len(self._candidates)

    def get_component_names(self) -> list[str]:
        """The names of the components, in the manifest's order."""
        return list(self._candidates)

    def get_variant_count(self, component_name: str) -> int:
        """How many variants a component has.

        Raises:
            RuntimeError: there is no such component.
        """
        return len(self._of(component_name))

    def get_variant_names(self, component_name: str) -> list[str]:
        """The names of a component's variants, in the package's order.

        Raises:
            RuntimeError: there is no such component.
        """
        return list(self._of(component_name))

    def get_variant_ep_name(self, component_name: str, variant_name: str) -> str | None:
        """The name of the execution provider that a variant is for; None: it names none.

        Raises:
            RuntimeError: there is no such component or variant.
        """
        found = self._of(component_name).get(as_text("variant_name", variant_name))
        if found is None:
            raise RuntimeError(f"the component '{component_name}' has no variant '{variant_name}'")
        return found.ep_name

    def resolve_string_ref(
        self, string_ref: str, base_dir: str | os.PathLike[str] | None = None, must_exist: bool = False
    ) -> str:
        """The path that a reference in the package means.

        Args:
            string_ref: ``sha256:<hash>``, ``sha256:<hash>/<path>``, or a path.
            base_dir: the folder that a path begins at; None or "": the package's.
            must_exist: whether nothing there is an error.

        Raises:
            RuntimeError: it leads out of the package or the shared asset; there is no such asset, or nothing
                is there.
        """
        reference = as_path("string_ref", string_ref)
        base = None if base_dir is None else as_path("base_dir", base_dir) or None
        try:
            return self._package.resolve(reference, base, must_exist=bool(must_exist))
        except (ValueError, OSError) as error:
            raise RuntimeError(f"'{reference}' in the model package cannot be resolved: {error}") from error

    def select_component(
        self, component_name: str, options: ModelPackageOptions
    ) -> ModelPackageComponentContext:
        """The variant of a component that fits the options; :mod:`ephost.packages.variants` says which.

        Raises:
            RuntimeError: there is no such component, or none of its variants fits.
            TypeError: the options are no ModelPackageOptions.
        """
        if not isinstance(options, ModelPackageOptions):
            raise TypeError(f"options are ModelPackageOptions, not {options!r}")
        candidates = self._of(component_name)
        selected = select(candidates.values(), options._target, component_name)
        return ModelPackageComponentContext._of(component_name, selected, options._target)

    def _of(self, component_name: str) -> dict[str, Candidate]:
        found = self._candidates.get(as_text("component_name", component_name))
        if found is None:
            offered = ", ".join(self._candidates) or "none"
            raise RuntimeError(f"the package has no component '{component_name}'; there are {offered}")
        return found


class ModelPackageComponentContext:
    """A component with the variant that was selected, as :meth:`ModelPackageContext.select_component` makes
    it.
    """

    _component: str
    _variant: Candidate
    _target: Target

    def __init__(self) -> None:
        raise TypeError("select_component of a ModelPackageContext makes a ModelPackageComponentContext")

    @classmethod
    def _of(cls, component_name: str, variant: Candidate, target: Target) -> ModelPackageComponentContext:
        made = cls.__new__(cls)
        made._component, made._variant, made._target = component_name, variant, target
        return made

    def get_selected_variant_name(self) -> str:
        """The variant's name."""
        return self._variant.name

    def get_selected_variant_folder_path(self) -> str:
        """The variant's folder; "" if it has none."""
        return self._variant.folder

    def create_session(self, sess_options: SessionOptions | None = None) -> InferenceSession:
        """Open the variant's model.

        Args:
            sess_options: None: new options, with the session and provider options of the package, on the
                execution provider that the variant was selected for. Otherwise these options hold, and of the
                package's only paths (``session.model_external_initializers_file_folder_path``,
                ``ep.context_file_path``, ``ep.context_source_model_path``) that they do not have themselves.
                If they name no execution provider, it is the one that the variant was selected for.

        Returns:
            A session, owned by the caller. Its ``set_providers`` and ``enable_fallback`` raise
            NotImplementedError: another session is made here.

        Raises:
            Fail: the variant has no model for sessions.
            EPFail: the options name other execution providers than the variant's.
            TypeError: they are no SessionOptions.
            What opening a model raises.
        """
        return self._create_session(sess_options)

    def _create_session(self, sess_options: SessionOptions | None = None) -> InferenceSession:
        from ephost.session import InferenceSession

        variant, target = self._variant, self._target
        if variant.model_file is None:
            raise Fail(
                f"the variant '{variant.name}' of the component '{self._component}' has no 'model_file' in "
                "executor_info['ort']"
            )
        if sess_options is None:
            options = SessionOptions()
            for key, value in variant.session_options.items():
                options.add_session_config_entry(key, value)
            _choose(options, target, variant)
        else:
            options = self._complete(_as_options(sess_options))
        made = InferenceSession(variant.model_file, options, enable_fallback=0, read_config_from_model=0)
        made._from_model_package = True
        return made

    def _complete(self, given: SessionOptions) -> SessionOptions:
        """A caller's options, with what they need of the package's."""
        options = copy.copy(given)
        for key in PATH_OPTIONS:
            if key in self._variant.session_options:
                options._config.setdefault(key, self._variant.session_options[key])
        names = [chosen.ep_name for chosen in given._providers]
        wanted = self._target.ep_name
        if not names and not given._host_only:
            _choose(options, self._target, None)
        elif wanted not in (*names, DEFAULT_PROVIDER):
            raise EPFail(
                f"the variant '{self._variant.name}' was selected for {wanted}, but the session's options "
                f"have {', '.join(names) or DEFAULT_PROVIDER}"
            )
        return options


def _choose(options: SessionOptions, target: Target, variant: Candidate | None) -> None:
    """Have a session run on the execution provider of a target, with the provider options of a variant."""
    given = {} if variant is None else dict(variant.provider_options)
    options._policy = None
    options._host_only = target.ep_name == DEFAULT_PROVIDER
    options._providers = []
    if target.devices and (given or not options._host_only):
        options.add_provider_for_devices(target.devices, given, error_on_failure=True)


def _as_options(options: object) -> SessionOptions:
    if not isinstance(options, SessionOptions):
        raise TypeError(f"the options of a session are SessionOptions, not {options!r}")
    return options
