"""What the commands that open a model share: the model's options, and the session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ephost.cli.plugins import Plugin, add_providers, plugin_option
from ephost.cli.progress import shown_progress
from ephost.enums import GraphOptimizationLevel
from ephost.options import SessionOptions
from ephost.suggestions import did_you_mean

if TYPE_CHECKING:
    from ephost.session import InferenceSession

_F = TypeVar("_F", bound=Callable[..., Any])


def pairs(_: click.Context, param: click.Parameter, value: Sequence[str]) -> list[tuple[str, str]]:
    """For options of the form KEY=VALUE: the key, which has no "=" in it, and the value."""
    found = []
    for text in value:
        key, separator, content = text.partition("=")
        if not separator or not key or not content:
            raise click.BadParameter(f"{text!r} is not {param.metavar}")
        found.append((key, content))
    return found


@dataclass
class Dimensions:
    """``--dim``: sizes by a dimension's name, and of single axes by (input, axis)."""

    named: dict[str, int] = field(default_factory=dict)
    axes: dict[tuple[str, int], int] = field(default_factory=dict)


def _dimensions(ctx: click.Context, param: click.Parameter, value: Sequence[str]) -> Dimensions:
    found = Dimensions()
    for name, text in pairs(ctx, param, value):
        if not text.isdecimal():
            raise click.BadParameter(f"{name}={text}: a dimension is a number, 0 or more")
        target, separator, axis = name.rpartition(":")
        if separator and target and axis.isdecimal():
            found.axes[target, int(axis)] = int(text)
        else:
            found.named[name] = int(text)
    return found


class Seconds(click.FloatRange):
    """Seconds: a range of numbers without the infinite, and without what is no number."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number that a text is."""
        made = super().convert(value, param, ctx)
        if not made < float("inf"):
            self.fail(f"{made} is no number of seconds.", param, ctx)
        return float(made)


SECONDS = Seconds(min=0, min_open=True)


def model_options(function: _F) -> _F:
    """MODEL, ``--ep``, ``--dim``, ``--config`` and ``--no-optimize``."""
    no_optimize = click.option(
        "--no-optimize", is_flag=True, help="Fold no constants: EPs see the model as it is."
    )
    return source_options(no_optimize(function))


config_option = click.option(
    "--config",
    multiple=True,
    callback=pairs,
    metavar="KEY=VALUE",
    help="An entry of the session's options, such as session.disable_cpu_ep_fallback=1.",
)


def source_options(function: _F) -> _F:
    """MODEL, ``--ep``, ``--dim`` and ``--config``."""
    for decorate in (
        config_option,
        click.option(
            "--dim",
            "dimensions",
            multiple=True,
            callback=_dimensions,
            metavar="NAME=VALUE",
            help="The size of a named dimension of the inputs; or, as INPUT:AXIS=VALUE, of an axis of random "
            "values for one input.",
        ),
        plugin_option,
        click.argument("model", type=click.Path()),
    ):
        function = decorate(function)
    return function


def open_session(
    model: str,
    plugins: Sequence[Plugin],
    dimensions: Dimensions,
    config: Sequence[tuple[str, str]],
    no_optimize: bool,
) -> InferenceSession:
    """Register the plugins and open the model on them.

    Raises:
        click.BadParameter: a dimension that no input has.
        What registering a library and opening a session raise.
    """
    from ephost.session import InferenceSession  # imports onnx, which `ephost --help` need not wait for

    options = session_options(model, plugins, dimensions, config)
    options.add_session_config_entry("ephost.record_refusals", "1")
    if no_optimize:
        options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
    with shown_progress(options):
        return InferenceSession(model, options, enable_fallback=0)


def session_options(
    model: str, plugins: Sequence[Plugin], dimensions: Dimensions, config: Sequence[tuple[str, str]]
) -> SessionOptions:
    """Register the plugins, and make options for a model on them.

    Raises:
        click.BadParameter: a dimension that no input has.
        What registering a library raises.
    """
    options = SessionOptions()
    for key, value in config:
        options.add_session_config_entry(key, value)
    for name, size in dimensions.named.items():
        options.add_free_dimension_override_by_name(name, size)
    add_providers(options, plugins)
    if dimensions.named:
        _check_names(model, dimensions)
    return options


def _check_names(model: str, dimensions: Dimensions) -> None:
    import onnx
    from google.protobuf.message import DecodeError

    try:
        graph = onnx.load(model, load_external_data=False).graph
    except (OSError, DecodeError):
        return  # the session says what is wrong with the model
    known = {
        d.dim_param for i in graph.input for d in i.type.tensor_type.shape.dim if d.HasField("dim_param")
    }
    if unknown := [name for name in dimensions.named if name not in known]:
        listed = ", ".join(sorted(known)) or "none"
        raise click.BadParameter(
            f"no input has a dimension named {unknown[0]!r}{did_you_mean(unknown[0], known)}; there are: "
            f"{listed}",
            param_hint="--dim",
        )
