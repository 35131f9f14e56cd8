"""``ephost compile``: a model ahead of time."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

from ephost.cli.model import Dimensions, pairs, session_options, source_options
from ephost.cli.output import reports_failures, show, show_json
from ephost.cli.plugins import Plugin
from ephost.cli.progress import shown_progress
from ephost.enums import GraphOptimizationLevel, OrtCompileApiFlags
from ephost.errors import Fail
from ephost.saving import is_special
from ephost.tables import Table, bytes_text

_LEVELS = {
    "none": GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "all": GraphOptimizationLevel.ORT_ENABLE_ALL,
}


@click.command("compile", short_help="Compile MODEL for the given execution providers.")
@source_options
@click.option(
    "--option",
    "ep_options",
    multiple=True,
    callback=pairs,
    metavar="KEY=VALUE",
    help="An option for the execution providers of all --ep.",
)
@click.option(
    "--embed/--no-embed",
    default=False,
    show_default=True,
    help="Put the compiled code into the model, or leave it to the plugin to write it beside the model.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    help="The compiled model; by default MODEL with _ctx.onnx in place of its ending.",
)
@click.option("--force", is_flag=True, help="Replace an OUTPUT that exists.")
@click.option(
    "--optimize",
    type=click.Choice(list(_LEVELS)),
    default="none",
    show_default=True,
    help="What the host folds and rewrites before the plugins see the model.",
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@reports_failures
def compile_model(
    model: str,
    plugins: Sequence[Plugin],
    dimensions: Dimensions,
    config: Sequence[tuple[str, str]],
    ep_options: Sequence[tuple[str, str]],
    embed: bool,
    output: str | None,
    force: bool,
    optimize: str,
    as_json: bool,
) -> None:
    """Compile MODEL for the given execution providers, once for all later sessions.

    What they compile is stored as EPContext nodes of a new model, which opens without compiling, on a machine
    that has the same plugins. It is an error when nothing can be stored.
    """
    import onnx

    from ephost.compiler import ModelCompiler
    from ephost.model.context import default_path

    if not plugins:
        raise click.UsageError("Missing option '--ep': who is to compile the model?")
    if not model:
        raise Fail("the model's path is empty")
    given = [Plugin(p.name, p.path, {**dict(ep_options), **p.options}) for p in plugins]
    options = session_options(model, given, dimensions, config)
    target = output or default_path(model)
    if os.path.exists(target) and not force:
        raise Fail(f"{target} exists already: --force replaces it, --output names another file")
    flags = OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED
    with shown_progress(options):
        compiler = ModelCompiler(
            options, model, embed, flags=flags, graph_optimization_level=_LEVELS[optimize]
        )
        before = _files(target)
        compiler.compile_to_file(target)
    if is_special(target):  # a pipe or a device, which cannot be read again
        graph = onnx.GraphProto()
    else:  # whatever onnx makes of the ending of its name
        graph = onnx.load(target, "protobuf", load_external_data=False).graph
    compiled = Counter(_source(node) for node in graph.node if node.op_type == "EPContext")
    left = Counter(node.op_type for node in graph.node if node.op_type != "EPContext")
    after = _files(target)
    files = {name: size for name, (size, when) in after.items() if before.get(name) != (size, when)}
    if as_json:
        show_json({"model": target, "compiled": dict(compiled), "left": dict(left), "files": files})
        return
    table = Table("Written", ("file", "size"), right=frozenset({"size"}))
    table.rows.extend((name, bytes_text(size)) for name, size in sorted(files.items()))
    parts = (
        [f"{sum(compiled.values())} EPContext node(s) ({', '.join(compiled)})"] if compiled else ["written"]
    )
    if left:
        listed = ", ".join(f"{number} {name}" for name, number in left.most_common(8))
        parts.append(
            f"{sum(left.values())} node(s) as they were ({listed}{', ...' if len(left) > 8 else ''})"
        )
    show([f"{target}: {'; '.join(parts)}", table])


def _source(node: object) -> str:
    attributes = {a.name: a.s.decode("utf-8", "replace") for a in node.attribute}  # type: ignore[attr-defined]
    return attributes.get("source") or "unnamed"


def _files(target: str) -> dict[str, tuple[int, int]]:
    """The files in the target's folder with their sizes and times, to tell which ones are new."""
    folder = Path(os.path.realpath(target)).parent
    if not folder.is_dir():
        return {}
    found = {}
    for entry in os.scandir(folder):
        with suppress(FileNotFoundError):  # what others write there may go again
            if entry.is_file():
                about = entry.stat()
                found[entry.name] = about.st_size, about.st_mtime_ns
    return found
