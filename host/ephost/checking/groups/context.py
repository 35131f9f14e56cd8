"""Compiled models: what the plugin stores as EPContext nodes, and what it makes of those of others."""

from __future__ import annotations

import gc
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from ephost.checking.models import F, foreign_context, make, node
from ephost.checking.registry import check
from ephost.checking.subject import Subject, reference, require_error
from ephost.checking.verdicts import Failure, Skip


def _compiled(subject: Subject, embed: bool = True) -> onnx.ModelProto:
    """The sample as the plugin stores it; skipped where it stores nothing."""
    options = subject.session_options()
    subject.stage("compiling a model")
    try:
        compiler = subject.host.ModelCompiler(options, subject.sample.build(4), embed)
        data = compiler.compile_to_bytes()
    except Exception as error:
        raise Skip(f"the plugin stores nothing: {error}") from None
    model: onnx.ModelProto = onnx.ModelProto.FromString(data)
    if not any(each.op_type == "EPContext" for each in model.graph.node):
        raise Skip("the plugin stores no EPContext nodes")
    return model


def _own(model: onnx.ModelProto) -> list[Any]:
    return [each for each in model.graph.node if each.op_type == "EPContext"]


def _attribute(each: Any, name: str) -> Any:
    return next((entry for entry in each.attribute if entry.name == name), None)


def _run(subject: Subject, model: bytes | str, what: str) -> None:
    session = subject.open(model)
    subject.run_sample(session, what=what)


@check("context.opens", 3, needs="model")
def _opens(subject: Subject) -> None:
    """A model that it compiled opens from memory and gives the right numbers."""
    _run(subject, _compiled(subject).SerializeToString(), "the compiled model")


@check("context.opens-from-a-file", 4, needs="model")
def _opens_from_a_file(subject: Subject) -> None:
    """A model that it compiled to a file, its data beside it, opens from another place."""
    _compiled(subject)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        path = Path(folder, "compiled.onnx")
        options = subject.session_options()
        source = Path(folder, "model.onnx")
        source.write_bytes(subject.sample.build(4))
        subject.stage("compiling a model to a file")
        subject.host.ModelCompiler(options, str(source), False).compile_to_file(str(path))
        moved = [file.rename(Path(other, file.name)) for file in Path(folder).iterdir()]
        target = next(file for file in moved if file.name == "compiled.onnx")
        _run(subject, str(target), "the compiled model in another folder")
        gc.collect()


@check("context.names-its-source", 4, needs="model")
def _names_its_source(subject: Subject) -> None:
    """Its EPContext nodes name their execution provider in the attribute source."""
    for each in _own(_compiled(subject)):
        source = _attribute(each, "source")
        if source is None or not source.s:
            raise Failure(f"its node {each.name!r} has no source: another plugin may take it for its own")


@check("context.compiled-twice", 4, needs="model")
def _compiled_twice(subject: Subject) -> None:
    """Compiled twice, a model gives the same number of EPContext nodes, and both work."""
    first, second = _compiled(subject), _compiled(subject)
    if len(_own(first)) != len(_own(second)):
        raise Failure(f"it stores {len(_own(first))} nodes, and then {len(_own(second))}")
    _run(subject, second.SerializeToString(), "the second compiled model")


@check("context.garbage", 5, needs="model")
def _garbage(subject: Subject) -> None:
    """Compiled data that was changed or cut short is refused in words, and does not crash."""
    model = _compiled(subject)
    kept = _attribute(_own(model)[0], "ep_cache_context")
    if kept is None or not kept.s:
        raise Skip("its data are not in the model")
    whole = bytes(kept.s)
    for what, data in (
        ("empty", b""),
        ("cut short", whole[: len(whole) // 2]),
        ("of other bytes", b"\xff" * len(whole)),
        ("longer", whole + b"\0" * 1000),
    ):
        kept.s = data
        subject.stage(f"opening compiled data that are {what}")
        try:
            session = subject.open(model.SerializeToString())
            subject.run(session, subject.sample.feed(4))
        except Exception as error:
            if not str(error).strip():
                raise Failure(f"compiled data that are {what} are refused without a word") from None


@check("context.leaves-others", 4, needs="devices")
def _leaves_others(subject: Subject) -> None:
    """It leaves an EPContext node that names another execution provider as its source."""
    require_error(lambda: _take(subject), "opening another plugin's EPContext node")


def _take(subject: Subject) -> None:
    session = subject.open(foreign_context())
    taken = [op for _, op in subject.claimed(session) if op == "EPContext"]
    if taken:
        raise Failure("it claims the EPContext node of another execution provider")


@check("context.no-data", 5, needs="devices")
def _no_data(subject: Subject) -> None:
    """An EPContext node of its own without attributes but its source is refused in words."""
    made = make([node("EPContext", "x", "y", domain="com.microsoft", source=subject.ep_name)],
                {"x": (TensorProto.FLOAT, (4, 8))}, {"y": (F, (4, 8))})  # fmt: skip
    model = onnx.ModelProto.FromString(made)
    entry = model.opset_import.add()
    entry.domain, entry.version = "com.microsoft", 1
    data = bytes(model.SerializeToString())

    def use() -> None:
        subject.run(subject.open(data), {"x": np.zeros((4, 8), np.float32)})

    require_error(use, "using an EPContext node without data")


@check("context.keeps-the-rest", 4, needs="model")
def _keeps_the_rest(subject: Subject) -> None:
    """Compiling a model of which it takes a part leaves the other nodes as they are."""
    nodes = [node("Relu", "x", "a"), node("Det", "a", "d"), node("Add", "a d", "b"), node("Mul", "b b", "y")]
    model = make(nodes, {"x": (F, (4, 4))}, {"y": (F, (4, 4))})
    x = {"x": np.linspace(-1, 2, 16, dtype=np.float32).reshape(4, 4)}
    subject.stage("compiling a model")
    try:
        data = subject.host.ModelCompiler(subject.session_options(), model, True).compile_to_bytes()
    except Exception as error:
        raise Skip(f"the plugin stores nothing: {error}") from None
    subject.require_equal(subject.run(subject.open(data), x), reference(model, x), "the compiled model")
