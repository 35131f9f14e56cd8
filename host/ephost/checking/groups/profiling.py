"""The plugin's part of a profile."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from ephost.checking.registry import check
from ephost.checking.subject import Subject
from ephost.checking.verdicts import Failure


def _profile(subject: Subject, runs: int = 3) -> list[dict[str, Any]]:
    """The events of a profile of the sample."""
    with tempfile.TemporaryDirectory() as folder:
        options = subject.session_options()
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder, "profile"))
        session = subject.open(subject.sample.build(4), options=options)
        for _ in range(runs):
            subject.run_sample(session)
        subject.stage("ending the profile")
        path = session.end_profiling()
        subject.run_sample(session, what="a run after the profile")
        events: list[dict[str, Any]] = json.loads(Path(path).read_text(encoding="utf-8", errors="strict"))
    return events


@check("profiling.works", 3, needs="model")
def _works(subject: Subject) -> None:
    """A profile of a session on it is written, and the session runs on."""
    if not _profile(subject):
        raise Failure("the profile is empty")


@check("profiling.times", 4, needs="model")
def _times(subject: Subject) -> None:
    """Events of the profile have names, and times that are not negative."""
    for event in _profile(subject):
        if event.get("ph") == "X":
            if not event.get("name"):
                raise Failure(f"an event has no name: {event}")
            if event.get("ts", 0) < 0 or event.get("dur", 0) < 0:
                raise Failure(f"the event {event['name']!r} has a negative time: {event}")


@check("profiling.within-the-session", 6, needs="model")
def _within(subject: Subject) -> None:
    """Its events lie within the time of the session's own."""
    events = [event for event in _profile(subject) if event.get("ph") == "X"]
    own = [event for event in events if event.get("cat") == "Session"]
    if not own:
        return
    last = max(event["ts"] + event["dur"] for event in own)
    for event in events:
        if event["ts"] > last + 1_000_000:
            raise Failure(
                f"the event {event['name']!r} begins {event['ts'] - last} us after the session's last"
            )


@check("profiling.twice", 5, needs="model")
def _twice(subject: Subject) -> None:
    """Two profiles one after the other have about as many events."""
    first, second = len(_profile(subject)), len(_profile(subject))
    if second > 2 * first + 20 or first > 2 * second + 20:
        subject.warn(f"a profile has {first} events, a second one {second}")
