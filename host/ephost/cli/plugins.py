"""``--ep``: which plugin libraries a command registers, and the options of their execution providers."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from ephost.environment import register_execution_provider_library
from ephost.errors import InvalidArgument
from ephost.isolation.settings import VARIABLE
from ephost.named_plugins import add_offered
from ephost.options import SessionOptions
from ephost.plugin_paths import is_path, library_path

_F = TypeVar("_F", bound=Callable[..., Any])
# In a context's meta: what --layer says, and whether there is --isolated.
_LAYERS, _ISOLATED = "ephost.layers", "ephost.isolated"


@dataclass(frozen=True)
class Plugin:
    """A library to register, and the options for its execution providers."""

    name: str
    path: str
    options: dict[str, str]
    layers: tuple[str, ...] | None = None

    def register(self) -> None:
        """Register the library; raises as :func:`ephost.register_execution_provider_library`."""
        register_execution_provider_library(self.name, self.path, layers=self.layers)


def parse_plugin(text: str) -> Plugin:
    """The plugin that a text ``[NAME=]WHERE[,option=value...]`` means.

    WHERE is a path, or the name of a Python package with ``get_library_path()``; without NAME the library is
    registered under the name of its file or package.

    Raises:
        click.BadParameter: the text says something else, or there is no such package.
    """
    first, *rest = _parts(text)
    options = {}
    for entry in rest:
        key, separator, value = entry.partition("=")
        if not separator or not key:
            raise click.BadParameter(f"{entry!r} in {text!r} is not OPTION=VALUE")
        options[key] = value
    name, separator, where = ("", "", first) if os.path.exists(first) else first.partition("=")
    if not separator:
        name, where = "", first
    elif not name:
        raise click.BadParameter(f"{text!r} has an empty NAME")
    if not where:
        raise click.BadParameter(f"{text!r} names no library")
    try:
        path = library_path(where)
    except InvalidArgument as error:
        raise click.BadParameter(str(error)) from None
    default = Path(where).stem.removeprefix("lib") if is_path(where) else where.rpartition(".")[2]
    default = default.encode("utf-8", "replace").decode()  # a file's name may be any bytes
    return Plugin(name or default, path, options)


def _parts(text: str) -> list[str]:
    """What is between a text's commas, of which those in the path of a file that there is do not count."""
    parts = text.split(",")
    for count in range(len(parts), 1, -1):
        where = ",".join(parts[:count])
        name, _, path = where.partition("=")
        # A name has no comma: what stands behind one is an option, whose value may be a path, too.
        if os.path.exists(where) or ("," not in name and os.path.exists(path)):
            return [where, *parts[count:]]
    return parts


def plugin_option(function: _F) -> _F:
    """The options ``--ep``, as the argument ``plugins``, ``--layer`` and ``--isolated``."""
    isolated = click.option(
        "--isolated",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_isolate,
        help="Load the libraries of --ep into processes of their own, where a crash is an error.",
    )
    layer = click.option(
        "--layer",
        "layers",
        multiple=True,
        is_eager=True,
        expose_value=False,
        callback=_keep_layers,
        metavar="LAYER[=FILE]",
        help="A layer between the host and each library of --ep: trace writes every call down, for `ephost "
        "trace`; validate looks for rules of the ABI that the plugin breaks.",
    )
    plugin = click.option(
        "--ep",
        "plugins",
        multiple=True,
        callback=_parse,
        metavar="[NAME=]WHERE[,OPTION=VALUE...]",
        help="A plugin library: its path, or an installed Python package that has get_library_path(), such "
        "as nxrt_ep_cpu or the bundled sample_kernels. NAME is what it is registered as. Several are asked "
        "in the order given; the options go to its execution providers.",
    )
    return plugin(layer(isolated(function)))


def _isolate(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        os.environ[VARIABLE] = "1"
        ctx.meta[_ISOLATED] = True


def _keep_layers(ctx: click.Context, param: click.Parameter, value: Sequence[str]) -> None:
    ctx.meta[_LAYERS] = tuple(value) or None


def _parse(ctx: click.Context, param: click.Parameter, value: Sequence[str]) -> list[Plugin]:
    layers = ctx.meta.get(_LAYERS)
    plugins = [replace(parse_plugin(text), layers=layers) for text in value]
    names = [plugin.name for plugin in plugins]
    for name in names:
        if names.count(name) > 1:
            raise click.BadParameter(f"two libraries are called {name!r}: give them names (NAME=WHERE)")
    for option, given in (("--layer", layers), ("--isolated", ctx.meta.get(_ISOLATED))):
        if given and not plugins:
            raise click.UsageError(f"{option} is for the libraries of --ep, of which there is none")
    return plugins


def add_providers(options: SessionOptions, plugins: Sequence[Plugin]) -> None:
    """Register the libraries and give the session every execution provider that they offer, in order.

    Raises:
        Fail: a library offers no device here.
        What registering raises.
    """
    for plugin in plugins:
        plugin.register()
    add_registered(options, plugins)


def add_registered(options: SessionOptions, plugins: Sequence[Plugin]) -> None:
    """Give a session every execution provider that registered libraries offer, in order.

    Raises:
        Fail: a library offers no device here.
    """
    for plugin in plugins:
        add_offered(options, plugin.name, plugin.path, plugin.options)
