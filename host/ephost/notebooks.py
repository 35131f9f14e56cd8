"""How sessions, explanations and devices show themselves in a notebook (``_repr_html_``).

Short pieces of HTML that fetch nothing and take the notebook's own colours, light or dark. They only read
what is there: nothing is run, and nothing raises, since a notebook would show that instead of the value. What
they are given comes from modules that import this one, so it is typed as anything.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

from ephost.tables import bytes_text, shorten, time_text

_ROWS = 12  # of a table; more are counted
_HOST = "the fallback"
# In the middle between black and white, so that they can be told from either background.
_COLOURS = ("#4a86d8", "#9a6fd0", "#1f98a8", "#c9508f", "#7f9a2a")
_HOSTS_COLOUR = "#d07a2d"
_LINE = "1px solid rgba(128,128,128,.35)"
_CELL = f"text-align:left;padding:.15em .7em;border-top:{_LINE};background:none"


def _never_raising(show: Callable[[Any], str]) -> Callable[[Any], str]:
    @functools.wraps(show)
    def shown(value: Any) -> str:
        try:
            return show(value)
        except Exception:  # whatever state the value is in, such as that of a session that was closed
            try:
                text = repr(value)
            except Exception:
                text = f"<{type(value).__name__}>"
            return f"<pre>{escape(text)}</pre>"

    return shown


@_never_raising
def session_html(session: Any) -> str:
    """A session: its model, inputs and outputs, and how many nodes each execution provider runs."""
    opened = session._opened
    if opened.resources.closed:
        return _block("InferenceSession", session.description, ["<div>It is closed.</div>"])
    counts = {a.ep.name: len(a.nodes) for a in opened.resources.assignments}
    counts[_HOST] = sum(1 for step in opened.plan.all_steps() if not step.ep_name)
    parts = [
        _shares(counts),
        _table(("input", "type", "shape"), map(_argument, session.get_inputs())),
        _table(("output", "type", "shape"), map(_argument, session.get_outputs())),
        _hint("ephost.explain(session)", "says who runs which nodes, and why"),
    ]
    return _block("InferenceSession", session.description, parts)


@_never_raising
def explanation_html(told: Any) -> str:
    """An explanation: who runs how much, and what is left to the fallback and why."""
    counts = {p.ep_name: 0 for p in told.providers} | {_HOST: 0}
    times = dict.fromkeys(counts, 0.0)
    for partition in told.partitions:
        name = _HOST if partition.kind == "fallback" else partition.ep_name
        counts[name] = counts.get(name, 0) + len(partition.nodes)
        if not partition.in_body:
            times[name] = times.get(name, 0.0) + (partition.seconds or 0.0)
    timed = ("a run",) if told.profiled_runs else ()
    rows = []
    for name, count in counts.items():
        mine = [p for p in told.partitions if (_HOST if p.kind == "fallback" else p.ep_name) == name]
        flows = [p.bytes_in for p in mine], [p.bytes_out for p in mine]
        time = [time_text(times[name])] if timed else []
        rows.append((name, str(count), str(len(mine)), *map(_total, flows), *time))
    parts = [
        f"<div>{escape(told.headline())}</div>",
        _shares(counts),
        _table(("EP", "nodes", "partitions", "bytes in", "bytes out", *timed), rows),
    ]
    if told.fallback:
        alike: dict[tuple[str, str], int] = {}
        for entry in told.fallback:
            why = "; ".join(f"{refusal.ep_name}: {refusal.reason}" for refusal in entry.reasons)
            key = entry.node.operator, why or "the session was given no execution provider"
            alike[key] = alike.get(key, 0) + 1
        parts.append(
            _table(
                ("left to the fallback", "nodes", "why"),
                [(op, str(n), why) for (op, why), n in alike.items()],
            )
        )
    parts.append(
        _table(
            ("left to a later EP", "nodes", "taken by", "why"),
            [(each.operator, str(len(each.nodes)), each.ep_name, each.why) for each in told.passed_on()],
        )
    )
    parts.append(
        _hint("explanation.to_html()", "is a page with the graph by partition, print() shows tables")
    )
    return _block("Explanation", told.model, parts)


@_never_raising
def device_html(device: Any) -> str:
    """A device that an execution provider offers: what it is, and the provider's options."""
    hardware = device.device
    rows = [
        ("library", device.registration_name if device.is_registered else "(unregistered)"),
        ("device", f"{hardware.type.name} {hardware.vendor}".rstrip()),
        ("numbers", f"vendor {hardware.vendor_id:#06x}, device {hardware.device_id:#06x}"),
        *_pairs("metadata", device.ep_metadata),
        *_pairs("option", device.ep_options),
    ]
    about = f"{device.ep_name} of {device.ep_vendor}" if device.ep_vendor else device.ep_name
    return _block("OrtEpDevice", about, [_table(("", ""), rows)])


def _total(sizes: Sequence[int | None]) -> str:
    known = [size for size in sizes if size is not None]
    return bytes_text(sum(known)) if len(known) == len(sizes) else "?"


def _pairs(heading: str, values: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(heading, f"{key} = {value}") for key, value in values.items()]


def _argument(argument: Any) -> tuple[str, str, str]:
    shape = "x".join("?" if each is None else str(each) for each in argument.shape)
    return argument.name, argument.type, shape or "scalar"


def _block(kind: str, about: str, parts: Iterable[str]) -> str:
    title = f"<div><b>{escape(kind)}</b> {escape(about)}</div>"
    return f'<div style="overflow-wrap:anywhere;max-width:70em">{title}{"".join(parts)}</div>'


def _hint(code: str, says: str) -> str:
    return f'<div style="opacity:.7"><code>{escape(code)}</code> {escape(says)}.</div>'


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    given = list(rows)
    if not given:
        return ""
    head = "".join(
        f'<th scope="col" style="{_CELL};border-top:0;white-space:nowrap">{escape(name)}</th>'
        for name in columns
    )
    head = f"<tr>{head}</tr>" if any(columns) else ""
    lines = [
        "".join(f'<td style="{_CELL};vertical-align:top">{escape(cell)}</td>' for cell in row)
        for row in given[:_ROWS]
    ]
    body = "".join(f'<tr style="background:none">{line}</tr>' for line in lines)
    rest = f'<div style="opacity:.7">and {len(given) - _ROWS} more</div>' if len(given) > _ROWS else ""
    table = f'<table style="border-collapse:collapse;margin:.4em 0;color:inherit">{head}{body}</table>'
    return table + rest


def _shares(counts: Mapping[str, int]) -> str:
    """A bar of who runs how many nodes, and the same in words."""
    whole = sum(counts.values())
    if not whole:
        return ""
    pieces, words = [], []
    names = [name for name in counts if name != _HOST]
    for name, count in counts.items():
        colour = _HOSTS_COLOUR if name == _HOST else _COLOURS[names.index(name) % len(_COLOURS)]
        if count:
            pieces.append(f'<span style="background:{colour};width:{100 * count / whole:.2f}%"></span>')
        sign = f'<span style="color:{colour}" aria-hidden="true">&#9632;</span>'
        words.append(f"{sign} {escape(name)} {count}")
    told = escape(
        shorten([f"{name} {count} of {whole} nodes" for name, count in counts.items()], 8), quote=True
    )
    bar = f'<div role="img" aria-label="{told}" style="display:flex;height:.6em;margin:.4em 0">'
    return f"{bar}{''.join(pieces)}</div><div>{' &nbsp; '.join(words)}</div>"
