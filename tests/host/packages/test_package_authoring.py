"""ModelPackage: what is set, what is refused, and what is written, in both hosts."""

from __future__ import annotations

import json
import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import ephost
import pytest
from package_folders import CPU, outcome, tree, variant, write_json, write_manifest, write_source

PRESERVED = {"schema_version": "1.0", "layout": "portable", "components": {}}


def read(path: str) -> Any:
    return json.loads(Path(path).read_text(encoding="utf-8"))


def test_a_new_package_is_empty_and_portable(host: Any) -> None:
    package = host.ModelPackage()
    assert package.get_info() == {
        "schema_version_major": 0,
        "schema_version_minor": 0,
        "package_name": None,
        "package_version": None,
        "description": None,
        "layout": "portable",
        "additional_metadata_json": None,
        "components": [],
        "shared_assets": [],
    }
    with pytest.raises(RuntimeError, match="dest_root"):
        package.commit()
    package.commit("made/here")
    assert Path("made/here/manifest.json").read_bytes() == (
        b'{\n  "schema_version": "1.0",\n  "layout": "portable",\n  "components": {}\n}\n'
    )
    assert package.get_info()["schema_version_major"] == 1
    package.set_metadata("name")
    package.commit()  # the folder is its own now
    assert read("made/here/manifest.json") == {**PRESERVED, "package_name": "name"}


def test_metadata_is_set_field_by_field(host: Any) -> None:
    package = host.ModelPackage()
    package.set_metadata("n", "1", "d")
    package.set_metadata(version="2")
    package.set_metadata("")
    package.set_metadata()
    info = package.get_info()
    assert [info[key] for key in ("package_name", "package_version", "description")] == [None, "2", "d"]
    package.set_metadata(name="again")
    package.commit("made")
    assert list(read("made/manifest.json"))[3:] == ["package_version", "description", "package_name"]
    for wrong in (1, ["n"]):
        with pytest.raises(TypeError):
            package.set_metadata(wrong)


def test_the_layout_is_one_of_two(host: Any) -> None:
    package = host.ModelPackage()
    package.set_layout("installed")
    assert package.get_info()["layout"] == "installed"
    for wrong in ("", "PORTABLE", "x"):
        with pytest.raises(ValueError, match="installed"):
            package.set_layout(wrong)
    with pytest.raises(TypeError):
        package.set_layout(None)


def test_additional_metadata_is_any_json(host: Any) -> None:
    package = host.ModelPackage()
    package.set_component_inline("c", '{"variants": {"v": {}}}')
    package.set_additional_metadata_json("manifest", json="[1,  2.50]")
    package.set_additional_metadata_json("component", "c", json='{"a": null}')
    package.set_additional_metadata_json("variant", "c", "v", "null")
    info = package.get_info()
    component = info["components"][0]
    assert info["additional_metadata_json"] == "[1,2.5]"
    assert component["additional_metadata_json"] == '{"a":null}'
    assert component["variants"][0]["additional_metadata_json"] == "null"
    for scope in (["manifest"], ["component", "c"], ["variant", "c", "v"]):
        package.set_additional_metadata_json(*scope)
    assert package.get_component_json("c") == '{"variants":{"v":{}}}'
    wrong = [["x"], ["manifest", "c"], ["component"], ["component", "c", "v"], ["variant", "c"], ["variant"]]
    for scope in wrong:
        with pytest.raises(ValueError):
            package.set_additional_metadata_json(*scope, json="1")
    for text in ("", "{", "{}x"):
        with pytest.raises(ValueError):
            package.set_additional_metadata_json("manifest", json=text)
    for scope in (["component", "d"], ["variant", "d", "v"], ["variant", "c", "w"]):
        with pytest.raises(FileNotFoundError, match=r"'d'|'w'"):
            package.set_additional_metadata_json(*scope, json="1")


def test_components_and_variants_are_set_and_removed(host: Any) -> None:
    package = host.ModelPackage()
    with pytest.raises(FileNotFoundError, match="'c'"):
        package.set_variant("c", "v", "{}")
    package.set_component_inline("c", '{"variants": {}, "component_name": "other"}')
    package.set_component_inline("d", '{"variants": {"x": {}}}')
    package.set_variant("c", "v", '{"ep": "E", "device": "gpu"}')
    package.set_variant("c", "w", "{}")
    package.set_variant("c", "v", '{"ep": "F"}')
    assert package.get_component_json("c") == '{"variants":{"v":{"ep":"F"},"w":{}},"component_name":"other"}'
    assert package.get_variant_json("c", "v") == '{"ep":"F"}'
    package.set_component_inline("c", '{"variants": {}}')
    assert [component["name"] for component in package.get_info()["components"]] == ["c", "d"]
    package.remove_component("c")
    package.remove_component("nobody")
    package.remove_variant("d", "x")
    package.remove_variant("d", "nobody")
    package.remove_variant("nobody", "x")
    assert [component["name"] for component in package.get_info()["components"]] == ["d"]
    assert package.get_component_json("d") == '{"variants":{}}'
    for names in (["nobody"], ["d", "nobody"], ["nobody", "x"]):
        with pytest.raises(FileNotFoundError, match="nobody"):
            package.get_component_json(*names) if len(names) == 1 else package.get_variant_json(*names)


def test_what_executors_know_is_set_and_removed(host: Any) -> None:
    package = host.ModelPackage()
    package.set_component_inline("c", '{"variants": {"v": {"ep": "E"}}}')
    package.set_variant_executor_info_inline("c", "v", "ort", '{"model_file": "m.onnx"}')
    package.set_variant_executor_info_external("c", "v", "other", "other.json")
    assert package.get_info()["components"][0]["variants"][0]["executor_info"] == {
        "ort": '{"model_file":"m.onnx"}',
        "other": "",
    }
    with pytest.raises(RuntimeError, match="other"):
        package.commit("dense", host.ModelPackageWriteMode.DENSE)
    package.remove_variant_executor_info("c", "v", "nobody")
    package.remove_variant_executor_info("c", "v", "other")
    package.remove_variant_executor_info("c", "v", "ort")
    assert package.get_variant_json("c", "v") == '{"ep":"E"}'
    for text in ("[]", "1", "{", '"x"'):
        with pytest.raises(ValueError, match="executor_info"):
            package.set_variant_executor_info_inline("c", "v", "ort", text)
    for call, rest in (
        (package.set_variant_executor_info_inline, ["k", "{}"]),
        (package.set_variant_executor_info_external, ["k", "x"]),
        (package.remove_variant_executor_info, ["k"]),
    ):
        for names in (["c", "nobody"], ["nobody", "v"]):
            with pytest.raises(FileNotFoundError, match="nobody"):
                call(*names, *rest)


BAD_COMPONENTS = [
    *("", "{", "[]", "null", "{}", '{"variants": []}', '{"variants": null}', '{"variants": {"v": "path"}}'),
    *('{"variants": {}, "x": 1}', '{"variants": {}, "component_name": 1}', '{"variants": {"v": {"x": 1}}}'),
    *(f'{{"variants": {{"v": {{"{key}": 1}}}}}}' for key in ("ep", "device", "compatibility_string")),
    '{"variants": {"v": {"ep": null}}}',
    '{"variants": {"v": {"executor_info": 1}}}',
    '{"variants": {"v": {"executor_info": {"ort": 1}}}}',
    *(f'{{"variants": {{"v": {{"variant_directory": "{path}"}}}}}}' for path in ("", "../x", "/tmp", "a/..")),
    '{"variants": {"v": {"variant_directory": 1}}}',
    *(f'{{"variants": {{"{name}": {{}}}}}}' for name in ("", "..", "/etc", "a/../b")),
]


@pytest.mark.parametrize("text", BAD_COMPONENTS)
def test_a_component_that_is_none_changes_nothing(host: Any, text: str) -> None:
    write_manifest(Path("package"), {"c": {"variants": {}}})
    package = host.ModelPackage.open("package")
    before = package.get_info()
    with pytest.raises(ValueError):
        package.set_component_inline("c", text)
    with pytest.raises(ValueError):
        package.set_component_inline("d", text)
    assert package.get_info() == before
    write_json(Path("package/c.json"), text)
    with pytest.raises(ValueError):
        package.set_component_external("c", "c.json")
    assert package.get_info() == before
    write_manifest(Path("package"), {"c": "c.json"})
    with pytest.raises(ValueError):
        host.ModelPackage.open("package")
    with pytest.raises(RuntimeError, match="package"):
        host.ModelPackageContext("package")


GOOD_MANIFESTS = {
    '{"schema_version": "1.5", "components": {}}': (1, 5),
    '{"schema_version": 1, "components": {}}': (1, 0),
    '{"schema_version": "1", "components": {}}': (1, 0),
    '{"schema_version": "01.9223372036854775807", "components": {}}': (1, 2**63 - 1),
    '\ufeff{"schema_version": "2.0", "schema_version": "1.0", "components": {}}': (1, 0),
}
BAD_MANIFESTS = [
    *("", "{", "[]", "{}", "null", '{"schema_version": "1.0"}', '{"components": {}}'),
    *(
        f'{{"schema_version": "{version}", "components": {{}}}}'
        for version in (
            *(
                "2.0",
                "0.9",
                "1.0.0",
                "1.x",
                "x",
                " 1.0",
                "1.",
                ".1",
                "-1.0",
                "+1.0",
                "1.9223372036854775808",
                "",
                "²",
            ),
            "9" * 5000,
        )
    ),
    *(
        f'{{"schema_version": {version}, "components": {{}}}}'
        for version in ("null", "true", "1.0", "2", "[]")
    ),
    '{"schema_version": "1.0", "components": []}',
    *(
        f'{{"schema_version": "1.0", "components": {{"c": {value}}}}}'
        for value in (*("1", "null", "[]", '""', '"../x"', '"/etc"', '"."', '"manifest.json"'),)
    ),
    *(
        f'{{"schema_version": "1.0", "components": {{}}, {field}}}'
        for field in (
            *('"x": 1', '"layout": "x"', '"layout": 1', '"package_name": 1', '"package_version": null'),
            *('"description": []', '"shared_assets": []', '"shared_assets": {"x": "y"}'),
            *(
                f'"shared_assets": {{"sha256:{digits}": {path}}}'
                for digits, path in (
                    ("A" * 64, '"x"'),
                    ("a" * 64, "1"),
                    ("a" * 63, '"x"'),
                )
            ),
        )
    ),
    pytest.param(
        '{"schema_version": "1.0", "components": {}, "x": ' + "[" * 500 + "]" * 500 + "}", id="nested"
    ),
]


@pytest.mark.parametrize("text", GOOD_MANIFESTS)
def test_a_manifest_is_read(host: Any, text: str) -> None:
    write_json(Path("package/manifest.json"), text)
    info = host.ModelPackage.open("package").get_info()
    assert (info["schema_version_major"], info["schema_version_minor"]) == GOOD_MANIFESTS[text]
    assert host.ModelPackageContext("package").get_schema_version() == 1


@pytest.mark.parametrize("text", BAD_MANIFESTS)
def test_a_manifest_that_is_none_is_an_error(host: Any, text: str) -> None:
    write_json(Path("package/manifest.json"), text)
    with pytest.raises((ValueError, FileNotFoundError)):
        host.ModelPackage.open("package")
    with pytest.raises(RuntimeError, match="package"):
        host.ModelPackageContext("package")


def test_a_package_that_is_missing_is_an_error(host: Any) -> None:
    Path("empty").mkdir()
    Path("file").write_text("")
    for root in ("missing", "empty", "file", ""):
        with pytest.raises(OSError):
            host.ModelPackage.open(root)
        with pytest.raises(RuntimeError, match=f"'{root}'"):
            host.ModelPackageContext(root)
    for root in (None, 1):
        with pytest.raises(TypeError):
            host.ModelPackage.open(root)
        with pytest.raises(TypeError):
            host.ModelPackageContext(root)


def test_unknown_fields_are_kept_where_they_are_allowed(host: Any) -> None:
    fields = {"components": {"c": {"variants": {"v": {"x": 1}}, "y": 2}}, "z": 3}
    write_manifest(Path("package"), **fields)
    with pytest.raises(ValueError, match=r"'z'|'y'|'x'"):
        host.ModelPackage.open("package")
    package = host.ModelPackage.open("package", strict_unknown_fields=False)
    package.set_variant("c", "w", '{"new": 4}')
    package.commit()
    assert read("package/manifest.json")["components"]["c"] == {
        "variants": {"v": {"x": 1}, "w": {"new": 4}},
        "y": 2,
    }
    assert read("package/manifest.json")["z"] == 3


def test_a_closed_package_is_of_no_use(host: Any) -> None:
    write_manifest(Path("package"))
    with host.ModelPackage.open("package") as package:
        assert package.get_info()["layout"] == "portable"
    package.close()
    for call in (package.get_info, package.commit, package.prune, package.__enter__):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_components_with_files_of_their_own(host: Any) -> None:
    write_manifest(Path("package"), {"c": "c", "d": "sub/d.json"})
    write_json(
        Path("package/c/component.json"), '{"variants":  {"v": {}, "w": {"variant_directory": "other"}}}'
    )
    write_json(Path("package/sub/d.json"), {"variants": {"x": {"executor_info": {"ort": "e/ort.json"}}}})
    for folder in ("c/v", "c/other", "sub/x"):
        Path("package", folder).mkdir()
    write_json(Path("package/sub/x/e/ort.json"), '{ "model_file":"m" }')
    package = host.ModelPackage.open("package")
    c, d = package.get_info()["components"]
    root = Path("package").resolve()
    assert [v["variant_directory"] for v in c["variants"]] == [str(root / "c/v"), str(root / "c/other")]
    assert d["variants"][0]["variant_directory"] == str(root / "sub/x")
    assert d["variants"][0]["executor_info"] == {"ort": '{ "model_file":"m" }'}
    package.set_component_external("e", "new/e.json")
    package.set_variant("e", "v", '{"ep": "E"}')
    package.set_additional_metadata_json("component", "c", json="1")
    package.commit()
    assert read("package/manifest.json")["components"] == {"c": "c", "d": "sub/d.json", "e": "new/e.json"}
    assert read("package/new/e.json") == {"variants": {"v": {"ep": "E"}}}
    assert read("package/c/component.json")["additional_metadata"] == 1
    for path in ("", "../x", "/x"):
        with pytest.raises(ValueError):
            package.set_component_external("f", path)
    with pytest.raises(RuntimeError):
        host.ModelPackage().set_component_external("f", "x")


@pytest.mark.parametrize("path", ["missing.json", "folder"])
def test_a_component_whose_file_is_missing_is_an_error(host: Any, path: str) -> None:
    Path("package/folder").mkdir(parents=True)
    write_manifest(Path("package"), {"c": path})
    with pytest.raises(FileNotFoundError, match=r"json"):
        host.ModelPackage.open("package")


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("missing.json", FileNotFoundError),
        ("", ValueError),
        ("../x.json", ValueError),
        ("folder", ValueError),
        ("bad.json", ValueError),
    ],
)
def test_the_file_of_an_executor_has_to_be_there(host: Any, path: str, error: type[Exception]) -> None:
    Path("package/v/folder").mkdir(parents=True)
    Path("package/v/bad.json").write_text("{")
    write_manifest(Path("package"), {"c": {"variants": {"v": {"executor_info": {"ort": path}}}}})
    with pytest.raises(error):
        host.ModelPackage.open("package")
    shutil.rmtree("package/v")
    with pytest.raises(FileNotFoundError):
        host.ModelPackage.open("package")


def test_a_folder_to_commit_to_has_to_be_empty(host: Any) -> None:
    write_manifest(Path("package"))
    write_json(Path("full/x"), "")
    for dest in ("full", "full/x", "package"):
        with pytest.raises(RuntimeError, match=dest):
            host.ModelPackage.open("package").commit(dest)
    with pytest.raises(OSError):
        host.ModelPackage.open("package").commit("")
    for arguments in ((1,), ("x", 1), ("x", None), ("x", "DENSE")):
        with pytest.raises(TypeError):
            host.ModelPackage.open("package").commit(*arguments)
    Path("empty").mkdir()
    host.ModelPackage.open("package").commit("empty")
    assert tree(Path("empty")) == {"manifest.json": b'{\n  "schema_version": "1.0",\n  "components": {}\n}\n'}
    assert not Path("x").exists()


def test_variants_that_lack_their_folder_are_not_committed_elsewhere(host: Any) -> None:
    write_manifest(Path("package"), {"c": {"variants": {"v": {"variant_directory": "v"}}}})
    Path("package/v").mkdir()
    for mode in host.ModelPackageWriteMode.__members__.values():
        with pytest.raises(FileNotFoundError, match=r"'v'|/v"):
            host.ModelPackage.open("package").commit(f"dest/{mode.name}", mode)


def test_nothing_is_left_of_a_commit_that_failed() -> None:
    write_manifest(Path("package"), {"c": {"variants": {"v": {"variant_directory": "v"}}}})
    Path("package/v").mkdir()
    write_source(Path("source"))
    package = ephost.ModelPackage.open("package")
    package.add_shared_asset("source")
    before = tree(Path("."))
    with pytest.raises(FileNotFoundError):
        package.commit("new/folder")
    assert tree(Path(".")) == before
    Path("empty").mkdir()
    with pytest.raises(FileNotFoundError):
        package.commit("empty")
    assert os.listdir("empty") == []
    package.remove_component("c")
    package.commit("empty")
    assert sorted(os.listdir("empty")) == ["manifest.json", "shared_assets"]


def test_a_dense_package_has_one_file_and_keeps_its_folders() -> None:
    write_manifest(Path("package"), {"c": "c", "d": "d.json"})
    write_json(Path("package/c/component.json"), {"variants": {"v": {}, "w": {"variant_directory": "x/y"}}})
    write_json(Path("package/d.json"), {"variants": {"v": {}}})
    for folder in ("c/v", "c/x/y", "v"):
        Path("package", folder).mkdir(parents=True)
    package = ephost.ModelPackage.open("package")
    before = package.get_info()
    package.commit(mode=ephost.ModelPackageWriteMode.DENSE)
    assert read("package/manifest.json")["components"] == {
        "c": {"variants": {"v": {"variant_directory": "c/v"}, "w": {"variant_directory": "c/x/y"}}},
        "d": {"variants": {"v": {}}},
    }
    assert package.get_info() == before == ephost.ModelPackage.open("package").get_info()
    package.set_variant("c", "new", "{}")
    package.commit()
    assert "new" in read("package/manifest.json")["components"]["c"]["variants"]


def test_components_are_committed_elsewhere_where_they_were() -> None:
    write_manifest(Path("package"), {"c": "c", "d": "sub/d.json"})
    write_json(Path("package/c/component.json"), {"variants": {"v": {}}})
    write_json(Path("package/sub/d.json"), {"variants": {}})
    ephost.ModelPackage.open("package").commit("dest")
    assert {name for name, data in tree(Path("dest")).items() if data is not None} == {
        *("manifest.json", "c/component.json", "sub/d.json")
    }
    assert ephost.ModelPackage.open("dest").get_component_json("c") == '{"variants":{"v":{}}}'


def test_prune_deletes_what_was_removed_and_nothing_else(host: Any) -> None:
    write_manifest(
        Path("package"),
        {
            "c": "c",
            "d": {"variants": {"shared": {"variant_directory": "s"}, "used": {"variant_directory": "s/t"}}},
            "e": {"variants": {"gone": {}, "stays": {}, "replaced": {}}},
        },
    )
    write_json(Path("package/c/component.json"), {"variants": {"v": {}}})
    for folder in ("c/v", "c/more", "s/t", "gone", "stays", "replaced", "unknown"):
        write_json(Path("package", folder, "file"), "")
    package = host.ModelPackage.open("package")
    package.remove_component("c")
    package.remove_variant("d", "shared")
    package.remove_variant("e", "gone")
    package.set_variant("e", "replaced", '{"ep": "E"}')
    package.prune()
    assert sorted(os.listdir("package")) == ["manifest.json", "replaced", "s", "stays", "unknown"]
    package.remove_variant("d", "used")
    package.commit()
    package.prune()
    assert sorted(os.listdir("package")) == ["manifest.json", "replaced", "stays", "unknown"]
    host.ModelPackage.open("package").prune()
    host.ModelPackage().prune()
    assert sorted(os.listdir("package")) == ["manifest.json", "replaced", "stays", "unknown"]


def test_prune_deletes_the_folder_of_a_components_file(host: Any) -> None:
    write_manifest(Path("package"), {"c": "sub/c.json", "d": "sub/d.json", "e": {"variants": {}}})
    write_json(Path("package/sub/c.json"), {"variants": {"v": {}}})
    write_json(Path("package/sub/d.json"), {"variants": {}})
    write_json(Path("package/sub/v/file"), "")
    package = host.ModelPackage.open("package")
    package.remove_component("c")
    package.prune()
    assert sorted(os.listdir("package/sub")) == ["c.json", "d.json"]
    package.remove_component("d")
    package.prune()
    assert os.listdir("package") == ["manifest.json"]


def test_prune_leaves_shared_assets() -> None:
    write_source(Path("package/sub/asset"))
    uri = ephost.ModelPackage.compute_directory_hash("package/sub/asset")
    write_manifest(Path("package"), {"c": "sub/c.json", "d": "d.json"}, shared_assets={uri: "sub/asset"})
    write_json(Path("package/sub/c.json"), {"variants": {}})
    write_json(Path("package/d.json"), {"variants": {}})
    package = ephost.ModelPackage.open("package")
    package.remove_component("c")
    package.remove_component("d")
    package.prune()
    assert sorted(os.listdir("package")) == ["d.json", "manifest.json", "sub"]
    package.remove_shared_asset(uri)
    package.prune()
    assert sorted(os.listdir("package")) == ["d.json", "manifest.json"]


def test_prune_never_deletes_the_package_or_what_is_outside() -> None:
    Path("outside").mkdir()
    fields = {"v": {"variant_directory": "."}, "w": {"variant_directory": "../outside"}, "x": {}}
    write_manifest(Path("package"), {"c": {"variants": fields}, "d": {"variants": {}}}, layout="installed")
    Path("package/x").mkdir()
    package = ephost.ModelPackage.open("package")
    package.remove_component("c")
    package.remove_component("d")
    package.prune()
    assert (os.listdir("package"), os.path.exists("outside")) == (["manifest.json"], True)


REFERENCES = [
    *("a/b", "a/./b", "manifest.json", ".", "a//b", "http://x", "C:x", "sha256:", "sha256:abc", "SHA256:x"),
    *(
        "",
        "..",
        "a/..",
        "../x",
        "/etc/passwd",
        "a/../../x",
        "sha256:" + "0" * 64,
        "sha256:" + "0" * 64 + "/x",
    ),
    *(
        "link/x",
        "inside/file",
        "URI",
        "URI/weights.bin",
        "URI/missing",
        "URI/../x",
        "URI//etc",
        "URI/",
        "URIx",
    ),
]


@pytest.mark.skipif(os.name == "nt", reason="links need rights there, and C:x is another folder's")
@pytest.mark.parametrize("must_exist", [False, True])
@pytest.mark.parametrize("layout", ["portable", "installed"])
def test_references_lead_where_they_do_in_onnxruntime(
    own_folder: Path, layout: str, must_exist: bool
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    if not hasattr(onnxruntime, "ModelPackage"):
        pytest.skip(f"onnxruntime {onnxruntime.__version__} has no model packages")
    root = own_folder / "package"
    write_manifest(root, layout=layout)
    write_source(root / "source")
    uri = ephost.ModelPackage.compute_directory_hash(str(root / "source"))
    write_manifest(root, layout=layout, shared_assets={uri: "source"})
    (root / "c").mkdir()
    (root / "c/file").write_text("")
    (root / "link").symlink_to("/etc")
    (root / "inside").symlink_to("c")
    packages = [host.ModelPackage.open(str(root)) for host in (onnxruntime, ephost)]
    contexts = [host.ModelPackageContext(str(root)) for host in (onnxruntime, ephost)]
    different = []
    for reference in (reference.replace("URI", uri) for reference in REFERENCES):
        asked = [("resolve_asset_uri", packages, (reference,))]
        bases = (None, str(root), str(root / "c"), "package", "/", "elsewhere")
        # What begins at a relative folder that is not there stays relative in onnxruntime.
        for base in bases if layout == "portable" else bases[:-1]:
            asked.append(("resolve_string_ref", packages, (reference, base, must_exist)))
            asked.append(("resolve_string_ref", contexts, (reference, base, must_exist)))
        for name, objects, arguments in asked:
            answers = [outcome(partial(getattr(found, name), *arguments)) for found in objects]
            answers = [answer.rstrip("/") for answer in answers]  # onnxruntime leaves some
            if answers[0] != answers[1]:
                different.append((arguments, answers))
    assert different == []


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_links_may_lead_within_the_package_alone(host: Any) -> None:
    write_json(Path("real/component.json"), {"variants": {"v": {}}})
    Path("real/v").mkdir()
    write_manifest(Path("package"), {"c": "c"})
    Path("package/c").symlink_to(Path("real").resolve())
    with pytest.raises(ValueError, match="real"):
        host.ModelPackage.open("package")
    with pytest.raises(RuntimeError, match="real"):
        host.ModelPackageContext("package")
    package = host.ModelPackage.open("package", allow_external_paths=True)
    assert package.get_info()["components"][0]["variants"][0]["variant_directory"] == str(
        Path("real/v").resolve()
    )
    Path("package/c").unlink()
    shutil.copytree("real", "package/within")
    Path("package/c").symlink_to("within")
    for follow in (True, False):
        package = host.ModelPackage.open("package", follow_symlinks=follow)
        folder = package.get_info()["components"][0]["variants"][0]["variant_directory"]
        assert folder == str(Path("package/within/v").resolve())


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_a_commit_writes_to_no_target_of_a_link(host: Any) -> None:
    write_manifest(Path("package"))
    Path("package/manifest.json").rename("target.json")
    Path("package/manifest.json").symlink_to(Path("target.json").resolve())
    before = Path("target.json").read_bytes()
    package = host.ModelPackage.open("package")
    package.set_metadata("n")
    package.commit()
    assert Path("target.json").read_bytes() == before
    assert not Path("package/manifest.json").is_symlink()


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_no_path_leads_over_a_link_to_what_is_not_there() -> None:
    write_manifest(Path("package"))
    Path("package/link").symlink_to("/nowhere")
    package = ephost.ModelPackage.open("package")
    with pytest.raises(ValueError, match="/nowhere"):
        package.resolve_string_ref("link/x")
    with pytest.raises(ValueError, match="/nowhere"):
        package.set_component_external("c", "link/c.json")


def test_an_installed_package_is_not_written_outside_of_its_folder() -> None:
    write_json(Path("outside/component.json"), '{"variants":   {}}')
    write_manifest(Path("package"), {"c": "../outside"}, layout="installed")
    package = ephost.ModelPackage.open("package")
    package.set_metadata("n")
    package.commit()
    assert Path("outside/component.json").read_text() == '{"variants":   {}}'
    for dest in ("dest", str(Path("dest").resolve())):
        with pytest.raises(ValueError, match="outside"):
            package.commit(dest)
    write_manifest(Path("package"), {"c": str(Path("outside").resolve())}, layout="installed")
    with pytest.raises(ValueError, match="outside"):
        ephost.ModelPackage.open("package").commit("dest")
    package.set_variant("c", "v", "{}")
    package.commit()  # what was changed in it is written to it
    assert read("outside/component.json") == {"variants": {"v": {}}}


@pytest.mark.skipif(os.name == "nt", reason="there are no pipes in folders")
@pytest.mark.parametrize("name", ["manifest.json", "c.json", "v/ort.json"])
def test_a_pipe_is_no_file(name: str) -> None:
    info = {"executor_info": {"ort": "ort.json"}}
    write_manifest(Path("package"), {"c": "c.json"})
    write_json(Path("package/c.json"), {"variants": {"v": info}})
    write_json(Path("package/v/ort.json"), "{}")
    Path("package", name).unlink()
    os.mkfifo(Path("package", name))
    with pytest.raises(ValueError, match="no file"):
        ephost.ModelPackage.open("package")


def test_a_text_of_many_bytes_is_not_read() -> None:
    write_manifest(Path("package"))
    with open("package/manifest.json", "ab") as file:
        file.truncate(1 << 40)
    with pytest.raises(ValueError, match="bytes"):
        ephost.ModelPackage.open("package")


@pytest.mark.parametrize("wrong", ["a\0b", "\udc80", b"\xff"])
def test_texts_that_no_package_has_are_refused(wrong: Any) -> None:
    package = ephost.ModelPackage()
    for call in (
        lambda: package.set_metadata(wrong),
        lambda: package.set_component_inline(wrong, "{}"),
        lambda: package.set_component_inline("c", wrong),
        lambda: package.resolve_string_ref(wrong),
        lambda: ephost.ModelPackage.open(wrong),
        lambda: ephost.ModelPackageContext(wrong),
    ):
        with pytest.raises((ValueError, RuntimeError)):
            call()


def test_paths_may_be_paths(own_folder: Path) -> None:
    write_source(own_folder / "source")
    package = ephost.ModelPackage()
    uri = package.add_shared_asset(own_folder / "source")
    package.set_component_inline("c", json.dumps({"variants": {"v": variant(CPU)}}))
    package.commit(own_folder / "package")
    assert ephost.ModelPackage.open(own_folder / "package").resolve_asset_uri(uri).startswith(str(own_folder))
    assert ephost.ModelPackageContext(own_folder / "package").get_component_names() == ["c"]
