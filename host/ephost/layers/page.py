"""The page of a trace: what went wrong, a timeline, and the calls by function."""

from __future__ import annotations

from ephost.layers.trace import Call, TraceFile, call_line
from ephost.pages import Grid, Page, Part, Text, Timeline

MOST_CALLS = 50_000  # in a page: of more the longest are shown, and what failed


def page_of(trace: TraceFile) -> Page:
    """What a browser shows of a trace."""
    parts: list[Part] = [Text(trace.about)]
    if trace.loss:
        parts.append(Text([trace.loss], "bad"))
    if trace.unfinished:
        lines = [f"thread {call.thread}: {call_line(call)}" for call in trace.unfinished]
        parts.append(Text(["Calls that did not return:"], "bad"))
        parts.append(Text(lines, "code"))
    kept = _kept(trace.calls)
    if len(kept) < len(trace.calls):
        parts.append(
            Text([f"the {len(kept)} longest of {len(trace.calls)} calls, and those that failed, are shown"])
        )
    parts.append(_timeline(kept, trace.end))
    parts.append(_functions(trace))
    failed = [call for call in kept if call.failed]
    if failed:
        rows = [(call.start / 1e6, call.session or None, call_line(call)) for call in failed]
        columns = ("start, ms", "session", "call")
        parts.append(Grid("Errors", columns, rows, columns[:2]))
    if trace.notes:
        lines = [note.text for note in trace.notes if not note.text.startswith("object: ")]
        if lines:
            parts.append(Text(["What the plugin was shown, and other notes:"]))
            parts.append(Text(lines, "code"))
    return Page(f"ephost trace: {trace.path}", parts)


def _kept(calls: list[Call]) -> list[Call]:
    if len(calls) <= MOST_CALLS:
        return calls
    failed = {id(call) for call in calls if call.code}
    longest = sorted(calls, key=lambda call: -(call.duration or 0))[:MOST_CALLS]
    chosen = failed | {id(call) for call in longest}
    return [call for call in calls if id(call) in chosen][: 2 * MOST_CALLS]


def _timeline(calls: list[Call], end: int) -> Timeline:
    threads = list(dict.fromkeys(call.thread for call in calls))
    lanes = {thread: at for at, thread in enumerate(threads)}
    names: dict[str, int] = {}
    spans = [
        (
            lanes[call.thread],
            call.depth,
            call.start,
            call.duration if call.duration is not None else end - call.start,
            names.setdefault(call.function.name, len(names)),
            2 if call.code else int(call.function.is_hosts),
        )
        for call in calls
    ]
    title = "Calls in time: blue in the plugin, orange in the host, red what failed"
    return Timeline(
        title, [f"thread {thread}" for thread in threads], list(names), spans, [call_line(c) for c in calls]
    )


def _functions(trace: TraceFile) -> Grid:
    numbers = ("calls", "errors", "time, us", "own time, us", "longest, us")
    rows = [
        (
            each.side,
            each.function.name,
            each.calls,
            each.errors,
            each.time / 1e3,
            each.own / 1e3,
            each.longest / 1e3,
        )
        for each in trace.totals
    ]
    return Grid("Calls by function", ("side", "function", *numbers), rows, numbers)
