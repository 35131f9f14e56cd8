"""What has to be known of a plugin before it is checked: its devices, and models that it takes."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from ephost.checking.models import SAMPLES
from ephost.checking.subject import Subject, reference
from ephost.checking.verdicts import Skip

_ENOUGH = 3  # models that it runs rightly


def probe(subject: Subject, told: Callable[[Any], None]) -> None:
    """Find out, and tell each fact as soon as it is known: what comes next may end the process."""
    try:
        devices = subject.devices
    except Skip:
        told(("fact", {"devices": [], "samples": []}))
        return
    except Exception as error:
        told(("fact", {"devices": [], "samples": [], "error": f"{type(error).__name__}: {error}"}))
        return
    described = [
        {"ep": d.ep_name, "vendor": d.ep_vendor, "type": d.device.type.name, "metadata": dict(d.ep_metadata)}
        for d in devices
    ]
    told(("fact", {"devices": described, "ep_name": subject.ep_name, "samples": []}))
    right: list[str] = []
    for name, sample in SAMPLES.items():
        model, feeds = sample.build(4), sample.feed(4)
        try:
            session = subject.open(model)
            claimed = subject.claimed(session)
        except Exception as error:
            told(("fact", {"refused": {name: f"{type(error).__name__}: {error}"}}))
            continue
        if claimed:
            told(("fact", {"wrong": {name: "its run did not end"}}))
            try:
                subject.require_equal(subject.run(session, feeds), reference(model, feeds), name)
            except Exception as error:
                told(("fact", {"wrong": {name: f"{error}"}}))
            else:
                right.append(name)
                told(("fact", {"samples": list(right), "wrong": {name: ""}}))
        del session
        gc.collect()
        if len(right) == _ENOUGH:
            break
