"""ModelPackage: packages are made and changed in memory, and written as a whole."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import Any

from ephost.enums import ModelPackageWriteMode
from ephost.packages import assets, manifest
from ephost.packages.arguments import as_path, as_text
from ephost.packages.assets import Asset
from ephost.packages.json_text import compact, parse, parse_object, pretty
from ephost.packages.manifest import COMPONENT, MANIFEST, Component, Manifest, Variant, check_layout
from ephost.packages.paths import as_posix, check_relative, is_link, is_within, resolve

_SCOPES = ("manifest", "component", "variant")


class ModelPackage:
    """A model package, to be looked at, made or changed.

    Changes are in memory until :meth:`commit` writes them, but for what :meth:`remove_shared_asset` and
    :meth:`prune` delete. As a context manager it closes itself. JSON is given and taken as text.
    """

    def __init__(self) -> None:
        """A package without components, in the portable layout, that has no folder yet."""
        self._manifest: Manifest | None = Manifest()
        self._orphans: set[str] = set()  # folders that nothing in here names any more

    @classmethod
    def open(
        cls,
        package_root: str | os.PathLike[str],
        allow_external_paths: bool = False,
        follow_symlinks: bool = True,
        strict_unknown_fields: bool = True,
    ) -> ModelPackage:
        """The package in a folder.

        Args:
            package_root: the folder with ``manifest.json``.
            allow_external_paths: let components and variants lie outside of the folder in the portable
                layout too. Shared assets never do.
            follow_symlinks: without an effect, as in onnxruntime: a link is judged by where it leads.
            strict_unknown_fields: whether a field that the format does not have is an error; otherwise it is
                kept as it is.

        Raises:
            OSError: no such folder, or no manifest in it.
            ValueError: a file is not as it should be, or leads out of the package where it may not.
            FileNotFoundError: a file or folder that the package names is missing.
        """
        for name, value in (
            ("allow_external_paths", allow_external_paths),
            ("follow_symlinks", follow_symlinks),
            ("strict_unknown_fields", strict_unknown_fields),
        ):
            if not (value is None or isinstance(value, int)):
                raise TypeError(f"{name} is a bool, not {value!r}")
        made = cls.__new__(cls)
        made._manifest = manifest.read(
            as_path("package_root", package_root),
            allow_external_paths=bool(allow_external_paths),
            strict_unknown_fields=bool(strict_unknown_fields),
        )
        made._orphans = set()
        return made

    def __enter__(self) -> ModelPackage:
        self._opened()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of it. What was not committed is lost; all but this method raises ValueError from now on."""
        self._manifest = None

    # ---- what is in it ----

    def get_info(self) -> dict[str, Any]:
        """Metadata, components with their variants, and shared assets; the version of a package that has no
        folder yet is 0.0.
        """
        return self._opened().info()

    def get_component_json(self, component_name: str) -> str:
        """The object of a component.

        Raises:
            FileNotFoundError: there is none of that name.
        """
        return compact(self._opened().component(as_text("component_name", component_name)).document)

    def get_variant_json(self, component_name: str, variant_name: str) -> str:
        """The object of a variant.

        Raises:
            FileNotFoundError: there is none of that name, or no such component.
        """
        return compact(self._variant(component_name, variant_name)[1].document)

    def resolve_string_ref(
        self, string_ref: str, base_dir: str | os.PathLike[str] | None = None, must_exist: bool = False
    ) -> str:
        """The path that a reference in the package means.

        Args:
            string_ref: ``sha256:<hash>``, ``sha256:<hash>/<path>``, or a path.
            base_dir: the folder that a path begins at; None: the package's.
            must_exist: whether nothing there is an error.

        Raises:
            ValueError: it leads out of the package or the shared asset.
            FileNotFoundError: there is no such asset, or nothing is there.
        """
        base = None if base_dir is None else as_path("base_dir", base_dir)
        reference = as_path("string_ref", string_ref)
        return self._opened().resolve(reference, base, must_exist=bool(must_exist))

    def resolve_asset_uri(self, uri: str) -> str:
        """The folder of a shared asset; before it is committed, the one that it was added from.

        Raises:
            FileNotFoundError: the package has none of that URI.
        """
        found = self._opened().asset(as_text("uri", uri))
        return found.source or found.path

    @staticmethod
    def compute_directory_hash(source_dir: str | os.PathLike[str]) -> str:
        """The URI that a folder has as a shared asset: ``sha256:`` and 64 digits.

        Raises:
            FileNotFoundError: it is no folder.
            ValueError: there is something in it that is neither a file nor a folder; a link, for instance.
            OSError: it cannot be read.
        """
        return assets.directory_hash(as_path("source_dir", source_dir))

    # ---- the package itself ----

    def set_metadata(
        self, name: str | None = None, version: str | None = None, description: str | None = None
    ) -> None:
        """What the package says of itself; None leaves a text as it is, "" removes it."""
        document = self._opened().document
        given = {"package_name": name, "package_version": version, "description": description}
        texts = {field: as_text(field, value) for field, value in given.items() if value is not None}
        for field, text in texts.items():
            if text:
                document[field] = text
            else:
                document.pop(field, None)

    def set_layout(self, layout: str) -> None:
        """Whether all paths stay in the package (``portable``) or may lead anywhere (``installed``).

        Raises:
            ValueError: it is neither. :meth:`commit` says whether the package is so.
        """
        document = self._opened().document
        check_layout(as_text("layout", layout))
        document["layout"] = layout

    def set_additional_metadata_json(
        self,
        scope: str,
        component_name: str | None = None,
        variant_name: str | None = None,
        json: str | None = None,
    ) -> None:
        """Data of one's own, any JSON.

        Args:
            scope: "manifest", "component" or "variant".
            component_name: which one; not for the manifest.
            variant_name: which one; for a variant alone.
            json: the data; None removes what is there.

        Raises:
            ValueError: another scope, a name too many or too few, or no JSON.
            FileNotFoundError: there is no such component or variant.
        """
        opened = self._opened()
        given = [name is not None for name in (component_name, variant_name)]
        wanted = {"manifest": [False, False], "component": [True, False], "variant": [True, True]}
        if as_text("scope", scope) not in _SCOPES:
            raise ValueError(f"the scope of metadata is {', '.join(_SCOPES)}, not '{scope}'")
        if given != wanted[scope]:
            raise ValueError(f"metadata of the scope '{scope}' has another number of names than were given")
        if scope == "manifest":
            document = opened.document
        elif scope == "component":
            document = opened.component(as_text("component_name", component_name)).document
        else:
            document = self._variant(component_name, variant_name)[1].document
        if json is None:
            document.pop("additional_metadata", None)
        else:
            document["additional_metadata"] = parse(as_text("json", json), "additional metadata")

    # ---- components ----

    def set_component_inline(self, name: str, component_json: str) -> None:
        """Add a component, or replace it, that the manifest holds itself. The folder of a variant begins at
        the package's.

        Raises:
            ValueError: it is no object of a component.
            FileNotFoundError: a folder that it names is missing.
        """
        opened = self._opened()
        name = as_text("name", name)
        document = parse_object(as_text("component_json", component_json), f"the component '{name}'")
        component = opened.parse_component(name, document, opened.root or "")
        self._forget(name)
        opened.components[name] = component
        opened.document["components"][name] = document

    def set_component_external(self, name: str, path: str | os.PathLike[str]) -> None:
        """Add a component, or replace it, that has a file of its own.

        Args:
            name: its name.
            path: of the file, or of a folder with ``component.json``, in the package. A file that is not
                there yet is written by :meth:`commit`.

        Raises:
            RuntimeError: the package has no folder yet.
            ValueError: the path leads out of the package, or the file is no component's.
            FileNotFoundError: a folder or file that the file names is missing.
        """
        opened = self._opened()
        name, path = as_text("name", name), as_path("path", path)
        if opened.root is None:
            raise RuntimeError(f"the component '{name}' cannot have a file: the package has no folder yet")
        component = opened.read_external(name, path, must_exist=False)
        opened.read_executors(component)
        self._forget(name)
        opened.components[name] = component
        opened.document["components"][name] = path

    def remove_component(self, name: str) -> None:
        """Remove a component if it is there. Its folders stay until :meth:`prune`."""
        opened = self._opened()
        name = as_text("name", name)
        self._forget(name)
        opened.components.pop(name, None)
        opened.document["components"].pop(name, None)

    # ---- variants ----

    def set_variant(self, component_name: str, variant_name: str, variant_json: str) -> None:
        """Add a variant to a component, or replace it.

        Raises:
            ValueError: it is no object of a variant.
            FileNotFoundError: there is no such component, or a folder that it names is missing.
        """
        opened = self._opened()
        component = opened.component(as_text("component_name", component_name))
        name = as_text("variant_name", variant_name)
        document = parse_object(as_text("variant_json", variant_json), f"the variant '{name}'")
        made = opened.parse_variant(component, name, document)
        self._forget_variant(component, name)
        component.variants[name] = made
        component.document["variants"][name] = document

    def remove_variant(self, component_name: str, variant_name: str) -> None:
        """Remove a variant if it is there. Its folder stays until :meth:`prune`."""
        component = self._opened().components.get(as_text("component_name", component_name))
        name = as_text("variant_name", variant_name)
        if component is not None:
            self._forget_variant(component, name)
            component.variants.pop(name, None)
            component.document["variants"].pop(name, None)

    def set_variant_executor_info_inline(
        self, component_name: str, variant_name: str, namespace_key: str, info_json: str
    ) -> None:
        """What a program has to know of a variant; onnxruntime and ephost read that of the name "ort".

        Args:
            component_name: the component.
            variant_name: the variant.
            namespace_key: the program's name.
            info_json: an object. That of "ort" has ``model_file``, ``session_options`` and
                ``provider_options``.

        Raises:
            ValueError: it is no object.
            FileNotFoundError: there is no such component or variant.
        """
        variant = self._variant(component_name, variant_name)[1]
        key = as_text("namespace_key", namespace_key)
        info = parse_object(as_text("info_json", info_json), f"executor_info['{key}']")
        variant.document.setdefault("executor_info", {})[key] = info
        variant.executors[key] = compact(info)

    def set_variant_executor_info_external(
        self, component_name: str, variant_name: str, namespace_key: str, path: str | os.PathLike[str]
    ) -> None:
        """As :meth:`set_variant_executor_info_inline`, in a file in the variant's folder. The file is looked
        for when the package is opened.
        """
        variant = self._variant(component_name, variant_name)[1]
        key = as_text("namespace_key", namespace_key)
        variant.document.setdefault("executor_info", {})[key] = as_path("path", path)
        variant.executors[key] = ""

    def remove_variant_executor_info(
        self, component_name: str, variant_name: str, namespace_key: str
    ) -> None:
        """Remove what a program has to know of a variant, if it is there.

        Raises:
            FileNotFoundError: there is no such component or variant.
        """
        variant = self._variant(component_name, variant_name)[1]
        key = as_text("namespace_key", namespace_key)
        variant.executors.pop(key, None)
        entries = variant.document.get("executor_info", {})
        entries.pop(key, None)
        if not entries:
            variant.document.pop("executor_info", None)

    # ---- shared assets ----

    def add_shared_asset(
        self, source_dir: str | os.PathLike[str], expected_uri: str | None = None, copy_in: bool = True
    ) -> str:
        """Add a folder that variants may share.

        Args:
            source_dir: the folder, without links. It has to stay as it is until :meth:`commit`.
            expected_uri: what its URI has to be.
            copy_in: whether it is copied into the package; otherwise the package keeps its path, which only
                the layout ``installed`` can.

        Returns:
            Its URI, with which files name it.

        Raises:
            RuntimeError: it has another URI; or it is not to be copied, in the portable layout.
            FileNotFoundError: it is no folder.
            ValueError: it is a link, or there is something in it that is neither a file nor a folder.
            OSError: it cannot be read.
        """
        opened = self._opened()
        source = as_path("source_dir", source_dir)
        if not copy_in and opened.portable:
            raise RuntimeError(f"'{source}' has to be copied: in the portable layout no path leads elsewhere")
        assets.check_folder(source)
        if is_link(source):
            raise ValueError(f"the folder of a shared asset is not a link, as '{source}' is")
        uri = assets.directory_hash(source)
        if expected_uri is not None and uri != as_text("expected_uri", expected_uri):
            raise RuntimeError(f"'{source}' has the hash {uri}, not {expected_uri}")
        declared = opened.document.setdefault("shared_assets", {})
        if copy_in:
            declared.pop(uri, None)
            opened.assets[uri] = Asset(uri, os.path.abspath(source), source, pending=True)
        else:
            declared[uri] = source
            opened.assets[uri] = Asset(uri, os.path.normpath(os.path.join(opened.root or "", source)))
        return uri

    def remove_shared_asset(self, uri: str) -> None:
        """Remove a shared asset if it is there; its folder, if it lies in the package's ``shared_assets``, at
        once.

        Raises:
            OSError: the folder cannot be deleted.
        """
        opened = self._opened()
        uri = as_text("uri", uri)
        declared = opened.document.get("shared_assets")
        if declared is not None:
            declared.pop(uri, None)
            if not declared:
                del opened.document["shared_assets"]
        asset = opened.assets.pop(uri, None)
        if asset is None or asset.pending or opened.root is None:
            return
        folder = assets.canonical_path(opened.root, uri)
        if asset.path == folder and not is_link(folder) and not is_link(os.path.dirname(folder)):
            shutil.rmtree(folder)

    # ---- writing ----

    def commit(
        self,
        dest_root: str | os.PathLike[str] | None = None,
        mode: ModelPackageWriteMode = ModelPackageWriteMode.PRESERVE,
    ) -> None:
        """Write the package's JSON files and shared assets.

        Args:
            dest_root: an empty folder, or one that is made, which is the package's from then on. The folders
                of variants are not copied there. None: where it was opened from, or committed to.
            mode: PRESERVE: components keep their own files. DENSE: all of them move into the manifest.

        Raises:
            RuntimeError: the package has no folder; ``dest_root`` is not empty, or no folder; a shared
                asset has changed since it was added; DENSE, and there is an executor's info in a file.
            ValueError: something lies outside of the package, in the portable layout; there is a link.
            FileNotFoundError: a shared asset's folder is gone; or ``dest_root`` would lack the folder of a
                variant.
            OSError: it cannot be written. A folder that it was to be written to is as it was then.
        """
        opened = self._opened()
        if not isinstance(mode, ModelPackageWriteMode):
            raise TypeError(f"mode is a ModelPackageWriteMode, not {mode!r}")
        dense = mode == ModelPackageWriteMode.DENSE
        if dense:
            _check_dense(opened)
        if dest_root is not None:
            self._manifest = _write_elsewhere(opened, as_path("dest_root", dest_root), dense)
            self._orphans = set()
            return
        if opened.root is None:
            raise RuntimeError("the package has no folder: it is committed to a dest_root first")
        opened.check_portable()
        for asset in opened.assets.values():
            if asset.pending:
                assets.store(asset.source or asset.path, asset.uri, opened.root)
        for component in opened.components.values():
            if component.file is None:
                continue
            if dense:
                _move_in(opened, component)
            elif is_within(os.path.realpath(component.file), opened.root) or component.is_changed():
                _write(component.file, pretty(component.document))
        _write(os.path.join(opened.root, MANIFEST), pretty(opened.document))
        for uri, asset in opened.assets.items():
            if asset.pending:
                opened.assets[uri] = Asset(uri, assets.canonical_path(opened.root, uri))

    def prune(self) -> None:
        """Delete the folders of variants, and those with components' files, that were removed or replaced
        since the package was opened or committed elsewhere; with all that is in them. What lies outside of
        the package, what others use, and the package's own folder stay.

        Raises:
            OSError: a folder cannot be deleted.
        """
        opened = self._opened()
        root = opened.root
        if root is None:
            return
        variants = [v.directory for c in opened.components.values() for v in c.variants.values()]
        inviolable = [os.path.realpath(path) for path in variants if path]
        inviolable += [os.path.realpath(asset.path) for asset in opened.assets.values()]
        needed = [os.path.join(root, MANIFEST), *inviolable]
        needed += [c.file for c in opened.components.values() if c.file is not None]
        for folder in sorted(self._orphans, key=len, reverse=True):
            gone = not os.path.isdir(folder) or not is_within(folder, root) or folder == root
            kept = any(is_within(path, folder) for path in needed)
            kept = kept or any(is_within(folder, path) for path in inviolable)
            if not gone and not kept:
                shutil.rmtree(folder)
            if gone or not kept:
                self._orphans.discard(folder)

    # ---- helpers ----

    def _opened(self) -> Manifest:
        if self._manifest is None:
            raise ValueError("the model package is closed")
        return self._manifest

    def _variant(self, component_name: str | None, variant_name: str | None) -> tuple[Component, Variant]:
        opened = self._opened()
        names = as_text("component_name", component_name), as_text("variant_name", variant_name)
        return opened.component(names[0]), opened.variant(*names)

    def _forget(self, name: str) -> None:
        """Note which folders are a component's alone."""
        component = self._opened().components.get(name)
        if component is None:
            return
        if component.file is not None:
            self._orphans.add(os.path.realpath(component.base))
        for variant in component.variants:
            self._forget_variant(component, variant)

    def _forget_variant(self, component: Component, name: str) -> None:
        variant = component.variants.get(name)
        if variant is not None and variant.directory is not None:
            self._orphans.add(os.path.realpath(variant.directory))


def _check_dense(opened: Manifest) -> None:
    for component in opened.components.values():
        for variant in component.variants.values():
            for key, value in variant.document.get("executor_info", {}).items():
                if isinstance(value, str):
                    raise RuntimeError(
                        f"executor_info['{key}'] of the variant '{variant.name}' of the component "
                        f"'{component.name}' is the file '{value}', which a dense package has none of"
                    )


def _move_in(opened: Manifest, component: Component) -> None:
    """Move a component from its file into the manifest. Its variants' folders stay, so that those that begin
    at another folder now are named.
    """
    root = opened.root
    assert root is not None
    for variant in component.variants.values():
        if variant.directory is None:
            continue
        reference = variant.document.get("variant_directory", variant.name)
        if os.path.realpath(os.path.join(root, reference)) != os.path.realpath(variant.directory):
            inside = is_within(variant.directory, root)
            path = os.path.relpath(variant.directory, root) if inside else variant.directory
            variant.document["variant_directory"] = as_posix(path)
    component.base, component.file, component.folder = root, None, None
    opened.document["components"][component.name] = component.document


def _write_elsewhere(opened: Manifest, dest: str, dense: bool) -> Manifest:
    """Write a package into an empty folder, and read it from there."""
    if not dest:
        raise OSError("the path of dest_root is empty")
    if os.path.exists(dest) and not os.path.isdir(dest):
        raise RuntimeError(f"dest_root '{dest}' is no folder")
    if os.path.isdir(dest) and os.listdir(dest):
        raise RuntimeError(f"dest_root '{dest}' is not empty")
    made = _make_folders(dest)
    root = os.path.realpath(dest)
    try:
        for asset in opened.assets.values():
            assets.store(asset.source or asset.path, asset.uri, root)
        document = dict(opened.document)
        document.pop("shared_assets", None)
        document["components"] = dict(document["components"])
        for component in opened.components.values():
            if dense:
                document["components"][component.name] = component.document
            elif component.file is not None:
                reference = document["components"][component.name]
                check_relative(reference)  # in the other layout too: nothing is written elsewhere
                file = reference if component.folder is None else os.path.join(reference, COMPONENT)
                target = resolve(file, root, Manifest(root).bounds)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                _write(target, pretty(component.document))
        _write(os.path.join(root, MANIFEST), pretty(document))
        return manifest.read(root, allow_external_paths=opened.external, strict_unknown_fields=opened.strict)
    except BaseException:
        for name in os.listdir(root):
            path = os.path.join(root, name)
            if os.path.isdir(path) and not is_link(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)
        with suppress(OSError):
            for folder in made:
                os.rmdir(folder)
        raise


def _make_folders(path: str) -> list[str]:
    """Make a folder and what is missing above it.

    Returns:
        The folders that were made, deepest first.
    """
    missing = []
    upto = os.path.abspath(path)
    while not os.path.isdir(upto):
        missing.append(upto)
        upto = os.path.dirname(upto)
    os.makedirs(path, exist_ok=True)
    return missing


def _write(file: str, text: str) -> None:
    """Write a file, all of it or nothing; a link is replaced, not followed."""
    folder = os.path.dirname(file)
    os.makedirs(folder, exist_ok=True)
    staged = os.path.join(folder, f".{os.urandom(8).hex()}.tmp")
    handle = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(text.encode())
        os.replace(staged, file)
    except BaseException as error:
        os.unlink(staged)
        if isinstance(error, OSError) and error.filename is None:
            raise type(error)(error.errno, error.strerror, file) from None
        raise
