"""What a package's files say, read and checked: its manifest, components, variants and shared assets.

folder/manifest.json        names components, and shared assets that lie at unusual places
folder/NAME/component.json  a component that the manifest does not hold itself; another path is possible
folder/NAME/VARIANT/        a variant's files
folder/shared_assets/sha256-<hash>/  folders that variants share
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any

from ephost.packages import assets
from ephost.packages.assets import Asset
from ephost.packages.json_text import as_object, as_text, compact, parse, parse_object
from ephost.packages.paths import (
    Bounds,
    check_portable,
    check_reference,
    check_relative,
    is_asset,
    resolve,
    split_asset,
)

MANIFEST = "manifest.json"
COMPONENT = "component.json"
LAYOUTS = ("portable", "installed")
MAJOR_VERSION = 1  # of the format
NEW_VERSION = "1.0"  # what is written into packages that are made here
_MAX_BYTES = 64 << 20

_MANIFEST_TEXTS = ("package_name", "package_version", "description")
_MANIFEST_FIELDS = {
    *("schema_version", "layout", "components", "shared_assets", "additional_metadata"),
    *_MANIFEST_TEXTS,
}
_COMPONENT_FIELDS = {"component_name", "variants", "additional_metadata"}
_VARIANT_TEXTS = ("ep", "device", "compatibility_string")
_VARIANT_FIELDS = {"variant_directory", "executor_info", "additional_metadata", *_VARIANT_TEXTS}


class Variant:
    """One form of a component, for one execution provider."""

    __slots__ = ("directory", "document", "executors", "name")

    def __init__(
        self, name: str, document: dict[str, Any], directory: str | None, executors: dict[str, str]
    ) -> None:
        """What is known of a variant.

        Args:
            name: its name.
            document: its object in the component's.
            directory: its folder; None: it has none.
            executors: by the names of programs, what they need to know of the variant, as JSON texts; "" for
                a file that was not read.
        """
        self.name, self.document, self.directory, self.executors = name, document, directory, executors


class Component:
    """One of the models of a package, in several variants."""

    __slots__ = ("_read", "base", "document", "file", "folder", "name", "variants")

    def __init__(self, name: str, document: dict[str, Any], base: str) -> None:
        """What is known of a component; without variants yet.

        Args:
            name: its name in the manifest.
            document: its object.
            base: the folder that its variants' paths begin at.
        """
        self.name, self.document, self.base = name, document, base
        self.variants: dict[str, Variant] = {}
        self.file: str | None = None  # its own, where the manifest does not hold it
        self.folder: str | None = None  # where the manifest names that, and not the file
        self._read: str | None = None

    def set_file(self, file: str, folder: str | None, *, found: bool) -> None:
        """Say which file the component has, and whether it was read from there."""
        self.file, self.folder = file, folder
        self._read = compact(self.document) if found else None

    def is_changed(self) -> bool:
        """Whether the component is not what its file says."""
        return self._read != compact(self.document)


class Manifest:
    """A package: its manifest's object, and what was found where that leads."""

    def __init__(
        self,
        root: str | None = None,
        *,
        external: bool = False,
        strict: bool = True,
    ) -> None:
        """An empty package; :func:`read` makes others.

        Args:
            root: its folder, without links in the path.
            external: whether paths may leave the folder in the portable layout too.
            strict: whether unknown fields are errors.
        """
        self.root, self.external, self.strict = root, external, strict
        self.version = (0, 0)  # of a file that was read
        self.document: dict[str, Any] = {
            "schema_version": NEW_VERSION,
            "layout": LAYOUTS[0],
            "components": {},
        }
        self.components: dict[str, Component] = {}
        self.assets: dict[str, Asset] = {}

    @property
    def portable(self) -> bool:
        """Whether its layout is the portable one."""
        return bool(self.document.get("layout") != LAYOUTS[1])

    @property
    def bounds(self) -> Bounds:
        """How far its paths may lead."""
        return Bounds(self.root, self.portable, self.external)

    # ---- what is in it ----

    def component(self, name: str) -> Component:
        """The component of a name.

        Raises:
            FileNotFoundError: there is none.
        """
        found = self.components.get(name)
        if found is None:
            raise FileNotFoundError(f"the package has no component '{name}'{_offered(self.components)}")
        return found

    def variant(self, component_name: str, name: str) -> Variant:
        """The variant of a name in a component.

        Raises:
            FileNotFoundError: there is none, or no such component.
        """
        component = self.component(component_name)
        found = component.variants.get(name)
        if found is None:
            offered = _offered(component.variants)
            raise FileNotFoundError(f"the component '{component_name}' has no variant '{name}'{offered}")
        return found

    def asset(self, uri: str) -> Asset:
        """The shared asset of a URI.

        Raises:
            FileNotFoundError: there is none.
        """
        found = self.assets.get(uri)
        if found is None:
            raise FileNotFoundError(f"the package has no shared asset '{uri}'")
        return found

    def resolve(self, reference: str, base: str | None, *, must_exist: bool = False) -> str:
        """The path that a reference to a shared asset or a relative path means.

        Args:
            reference: ``sha256:<hash>``, ``sha256:<hash>/<path>``, or a path.
            base: the folder that a path begins at; None: the package's.
            must_exist: whether nothing there is an error.

        Raises:
            ValueError: it leads out of the package, or of the asset.
            FileNotFoundError: there is no such asset, or nothing is there.
        """
        found = split_asset(reference)
        if found is None:
            base = (self.root or "") if base is None else base
            return resolve(reference, base, self.bounds, must_exist=must_exist)
        uri, rest = found
        folder = os.path.realpath(self.asset(uri).path)
        inside = Bounds(folder, portable=True)
        return resolve(rest or ".", folder, inside, must_exist=must_exist)

    # ---- making its parts ----

    def parse_component(self, name: str, document: Any, base: str) -> Component:
        """A component of its object.

        Args:
            name: its name in the manifest.
            document: the object.
            base: the folder that its variants' paths begin at.

        Raises:
            ValueError: it is not as it should be.
            FileNotFoundError: a folder that it names is missing.
        """
        what = f"the component '{name}'"
        component = Component(name, as_object(document, what), base)
        self._check_fields(document, _COMPONENT_FIELDS, what)
        if "component_name" in document:
            as_text(document["component_name"], f"'component_name' of {what}")
        if "variants" not in document:
            raise ValueError(f"{what} has no 'variants'")
        for variant, body in as_object(document["variants"], f"'variants' of {what}").items():
            component.variants[variant] = self.parse_variant(component, variant, body)
        return component

    def parse_variant(self, component: Component, name: str, document: Any) -> Variant:
        """A variant of its object, for a component; it is not put in there.

        Raises:
            ValueError, FileNotFoundError: as :meth:`parse_component`.
        """
        what = f"the variant '{name}' of the component '{component.name}'"
        as_object(document, what)
        self._check_fields(document, _VARIANT_FIELDS, what)
        for field in _VARIANT_TEXTS:
            if field in document:
                as_text(document[field], f"'{field}' of {what}")
        executors = {}
        if "executor_info" in document:
            entries = as_object(document["executor_info"], f"'executor_info' of {what}")
            for key, value in entries.items():
                if not isinstance(value, (dict, str)):
                    raise ValueError(f"executor_info['{key}'] of {what} is neither a path nor a JSON object")
                executors[key] = compact(value) if isinstance(value, dict) else ""
        return Variant(name, document, self._directory(component, name, document, what), executors)

    def read_executors(self, component: Component) -> None:
        """Read the files of a component's executors.

        Raises:
            FileNotFoundError: one is missing, or the variant's folder is.
            ValueError: one is no JSON, or leads out of the package.
        """
        for variant in component.variants.values():
            for key, value in variant.document.get("executor_info", {}).items():
                if not isinstance(value, str):
                    continue
                what = f"executor_info['{key}'] of the variant '{variant.name}' of '{component.name}'"
                if variant.directory is None:
                    raise FileNotFoundError(
                        f"{what} is the file '{value}' in the variant's folder, which is missing"
                    )
                file = resolve(value, variant.directory, self.bounds, must_exist=True)
                text = _read(file)
                parse(text, f"'{file}', {what},")
                variant.executors[key] = text.decode("utf-8")

    def read_external(self, name: str, reference: str, *, must_exist: bool) -> Component:
        """A component in a file of its own, without the files of its executors.

        Args:
            name: its name in the manifest.
            reference: the path of the file, or of a folder with ``component.json``.
            must_exist: whether a missing file is an error; otherwise it is a component without variants.

        Raises:
            ValueError, FileNotFoundError: as :meth:`parse_component`; or the path leads out of the package.
            OSError: the file cannot be read.
        """
        path = resolve(reference, self.root or "", self.bounds, must_exist=must_exist)
        folder = path if os.path.isdir(path) else None
        file = os.path.join(path, COMPONENT) if folder else path
        found = os.path.lexists(file)
        if found:
            document = parse(_read(file), f"'{file}' of the component '{name}'")
        elif must_exist:
            raise FileNotFoundError(f"the component '{name}' has no file '{file}'")
        else:
            document = {"variants": {}}
        component = self.parse_component(name, document, folder or os.path.dirname(file))
        component.set_file(file, folder, found=found)
        return component

    def _directory(self, component: Component, name: str, document: dict[str, Any], what: str) -> str | None:
        if "variant_directory" not in document:
            found = resolve(name, component.base, self.bounds)
            return found if os.path.exists(found) else None
        reference = as_text(document["variant_directory"], f"'variant_directory' of {what}")
        return resolve(reference, component.base, self.bounds, must_exist=True)

    def _check_fields(self, document: dict[str, Any], known: Collection[str], what: str) -> None:
        unknown = [field for field in document if field not in known]
        if unknown and self.strict:
            raise ValueError(f"{what} has the unknown field '{unknown[0]}'")

    # ---- reading all of it ----

    def load(self) -> None:
        """Read the package's files, in place of what is there.

        Raises:
            OSError: the folder or the manifest cannot be read.
            ValueError, FileNotFoundError: as :meth:`parse_component`.
        """
        assert self.root is not None
        file = os.path.join(self.root, MANIFEST)
        try:
            text = _read(file)
        except OSError as error:
            raise OSError(f"the manifest '{file}' cannot be read: {error.strerror}") from error
        document = parse_object(text, f"the manifest '{file}'")
        self.document, self.components, self.assets = document, {}, {}
        self.version = _version(document)
        if "components" not in document:
            raise ValueError("the manifest has no 'components'")
        self._check_fields(document, _MANIFEST_FIELDS, "the manifest")
        components = as_object(document["components"], "'components' of the manifest")
        for name, value in components.items():
            if isinstance(value, str):
                component = self.read_external(name, value, must_exist=True)
            elif isinstance(value, dict):
                component = self.parse_component(name, value, self.root)
            else:
                raise ValueError(f"the component '{name}' is the path of a file or a JSON object")
            self.components[name] = component
        for field in _MANIFEST_TEXTS:
            if field in document:
                as_text(document[field], f"'{field}' of the manifest")
        check_layout(as_text(document.get("layout", LAYOUTS[0]), "'layout' of the manifest"))
        self._load_assets(as_object(document.get("shared_assets", {}), "'shared_assets' of the manifest"))
        for component in self.components.values():
            self.read_executors(component)

    def _load_assets(self, declared: dict[str, Any]) -> None:
        assert self.root is not None
        for uri, value in declared.items():
            if not is_asset(uri):
                raise ValueError(f"'{uri}' in 'shared_assets' of the manifest is no sha256:<64 digits>")
            reference = as_text(value, f"the path of the shared asset '{uri}'")
            check_reference(reference)
            path = os.path.join(self.root, reference)
            if self.portable:
                path = os.path.normpath(path)
                check_portable(path, self.root)
                if not self.external:
                    check_relative(reference)
            else:
                path = os.path.realpath(path)
            self.assets[uri] = Asset(uri, path)
        for asset in assets.find(self.root, portable=self.portable):
            self.assets.setdefault(asset.uri, asset)

    def check_portable(self) -> None:
        """Raise ValueError for what of the package is elsewhere though its layout is the portable one."""
        if not self.portable or self.root is None:
            return
        for component in self.components.values():
            if component.file is not None and not self.external:
                resolve(os.path.relpath(component.file, self.root), self.root, self.bounds)
        for asset in self.assets.values():
            if not asset.pending:
                check_portable(asset.path, self.root)

    # ---- what it says ----

    def info(self) -> dict[str, Any]:
        """All of it, as onnxruntime's ``get_info`` has it."""
        document = self.document
        return {
            "schema_version_major": self.version[0],
            "schema_version_minor": self.version[1],
            **{field: document.get(field) for field in _MANIFEST_TEXTS},
            "layout": document.get("layout", LAYOUTS[0]),
            "additional_metadata_json": _metadata(document),
            "components": [
                {
                    "name": component.name,
                    "additional_metadata_json": _metadata(component.document),
                    "variants": [
                        {
                            "name": variant.name,
                            "variant_directory": variant.directory,
                            **{field: variant.document.get(field) for field in _VARIANT_TEXTS},
                            "additional_metadata_json": _metadata(variant.document),
                            "executor_info": dict(variant.executors),
                        }
                        for variant in component.variants.values()
                    ],
                }
                for component in self.components.values()
            ],
            "shared_assets": [
                {"uri": asset.uri, "resolved_path": asset.source or asset.path}
                for asset in self.assets.values()
            ],
        }


def read(
    package_root: str, *, allow_external_paths: bool = False, strict_unknown_fields: bool = True
) -> Manifest:
    """The package in a folder.

    Raises:
        OSError: there is no such folder, or no manifest in it.
        ValueError: a file is not as it should be, or leads out of the package where it may not.
        FileNotFoundError: a file or folder that the package names is missing.
    """
    if not os.path.isdir(package_root):
        raise OSError(f"the package '{package_root}' is no folder")
    made = Manifest(
        os.path.realpath(package_root), external=allow_external_paths, strict=strict_unknown_fields
    )
    made.load()
    return made


def check_layout(layout: str) -> None:
    """Raise ValueError for a layout that is not known."""
    if layout not in LAYOUTS:
        raise ValueError(f"the layout of a package is 'portable' or 'installed', not '{layout}'")


def _version(document: dict[str, Any]) -> tuple[int, int]:
    if "schema_version" not in document:
        raise ValueError("the manifest has no 'schema_version'")
    value = document["schema_version"]
    major, minor = -1, 0
    if isinstance(value, int) and not isinstance(value, bool) and value < 2**63:
        major = value
    else:
        digits = value.split(".") if isinstance(value, str) else []
        whole = [int(part) for part in digits if part.isascii() and part.isdigit() and len(part) < 20]
        if not 1 <= len(digits) <= 2 or len(whole) < len(digits) or max(whole) >= 2**63:
            raise ValueError(f"'schema_version' of the manifest is no \"<major>.<minor>\": {value!r:.40}")
        major, minor = whole[0], whole[-1] if len(whole) > 1 else 0
    if major != MAJOR_VERSION:
        raise ValueError(f"the package has version {major} of the format; version {MAJOR_VERSION} is known")
    return major, minor


def _metadata(document: dict[str, Any]) -> str | None:
    return compact(document["additional_metadata"]) if "additional_metadata" in document else None


def _offered(names: Collection[str]) -> str:
    return f"; there are {', '.join(sorted(names))}" if names else ""


def _read(file: str) -> bytes:
    if not os.path.isfile(file) and os.path.exists(file):
        raise ValueError(f"'{file}' is no file")
    with open(file, "rb") as stream:
        text = stream.read(_MAX_BYTES + 1)
    if len(text) > _MAX_BYTES:
        raise ValueError(f"'{file}' has more than {_MAX_BYTES} bytes, which no text of a package has")
    return text
