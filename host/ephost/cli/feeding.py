"""What the commands that run a model feed it: values from files, or random ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ephost.cli.model import Dimensions, pairs
from ephost.suggestions import did_you_mean

if TYPE_CHECKING:
    from ephost.session import InferenceSession

_F = TypeVar("_F", bound=Callable[..., Any])


def feed_options(function: _F) -> _F:
    """``--input`` and ``--seed``."""
    for decorate in (
        click.option(
            "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="For the random inputs."
        ),
        click.option(
            "--input",
            "files",
            multiple=True,
            callback=pairs,
            metavar="NAME=FILE",
            help="A .npy file, or a .pb file with a TensorProto (of sequences a SequenceProto, of optionals "
            "an OptionalProto), for an input. The others get random values.",
        ),
    ):
        function = decorate(function)
    return function


def make_feed(
    session: InferenceSession, files: Sequence[tuple[str, str]], dimensions: Dimensions, seed: int
) -> tuple[dict[str, Any], dict[str, str]]:
    """The values of the inputs by name, and where each comes from."""
    import numpy as np

    from ephost.cli.inputs import random_value, read_value

    required = {argument.name: argument for argument in session.get_inputs()}
    known = {**required, **{argument.name: argument for argument in session.get_overridable_initializers()}}
    given = dict(files)
    for name in given:
        if name not in known:
            listed = ", ".join(known) or "none"
            raise click.BadParameter(
                f"there is no input {name!r}{did_you_mean(name, known)}; the model's inputs are: {listed}",
                param_hint="--input",
            )
    random = np.random.default_rng(seed)
    feed: dict[str, Any] = {}
    sources = {}
    for name, argument in known.items():
        if name in given:
            feed[name], sources[name] = read_value(given[name], argument.type), given[name]
        elif name in required:
            axes = {axis: size for (owner, axis), size in dimensions.axes.items() if owner == name}
            feed[name], sources[name] = random_value(argument, axes, random), "random"
    return feed, sources


def guessed(session: InferenceSession, sources: dict[str, str], dimensions: Dimensions) -> str:
    """What to say of the sizes that nobody gave; "" where all are the model's or the user's."""
    found = []
    for argument in session.get_inputs():
        if sources[argument.name] != "random":
            continue
        for axis, size in enumerate(argument.shape):
            if not isinstance(size, int) and (argument.name, axis) not in dimensions.axes:
                found.append((argument.name, axis, size))
    if not found:
        return ""
    names = dict.fromkeys(size for _, _, size in found if size)
    unnamed = [f"{name}:{axis}" for name, axis, size in found if not size]
    listed = ", ".join([*(f"{name}" for name in names), *unnamed])
    example = " ".join(f"--dim {key}=..." for key in [*names, *unnamed][:3])
    return f"These dimensions were guessed to be 1: {listed}. Try others with {example}"
