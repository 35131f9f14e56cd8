"""One check in this process, for a debugger."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ephost.checking.processes import Server
from ephost.checking.registry import all_checks
from ephost.checking.verdicts import SKIPPED, Outcome
from ephost.errors import InvalidArgument
from ephost.suggestions import did_you_mean

if TYPE_CHECKING:
    from ephost.checking.running import Plan


def perform_here(plan: Plan, name: str, stage: Callable[[str], None]) -> Outcome:
    """Do a check in this process; what has to be known of the plugin is found out in another.

    Raises:
        InvalidArgument: there is no such check, or not in this host.
    """
    from ephost.checking.cases import write_cases
    from ephost.checking.running import missing
    from ephost.checking.server import perform, settle, subject_of

    known = all_checks()
    if name not in known:
        raise InvalidArgument(f"no check is called {name!r}{did_you_mean(name, known)}")
    made, host = known[name], plan.hosts[0]
    if host not in made.hosts:
        raise InvalidArgument(f"the check {name} is not done in {host}")
    given = replace(plan.given, host=host)
    with Server(host) as server:
        facts = server.probe(given, plan.timeout)
    if reason := missing(made, facts):
        return Outcome(name, host, SKIPPED, reason)
    os.environ.update(made.environment)
    settle(host)
    import tempfile

    with tempfile.TemporaryDirectory(prefix="ephost-check-") as folder:
        if made.cases:
            write_cases(folder, [made.cases])
        request = {"given": given.to_dict(), "facts": facts, "seed": plan.seed, "cases": folder}
        answer = perform(made, subject_of(request, stage))
    return plan.settings.judged(Outcome(name, host, seed=plan.seed, **answer))
