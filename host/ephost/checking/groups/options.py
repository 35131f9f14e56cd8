"""Options of execution providers and of sessions."""

from __future__ import annotations

from ephost.checking.registry import Check, add, check
from ephost.checking.subject import Subject
from ephost.checking.verdicts import Failure


def _open_or_refuse(
    subject: Subject, options: dict[str, str], what: str, config: dict[str, str] | None = None
) -> None:
    """A session with these options and entries runs rightly, or is refused in words."""
    try:
        made = subject.session_options(options=options, config=config)
        session = subject.open(subject.sample.build(4), options=made)
    except Exception as error:
        if not str(error).strip():
            raise Failure(f"{what} is refused without a word") from None
        return
    subject.run_sample(session, what=f"the sample with {what}")


@check("options.unknown", 3, needs="model")
def _unknown(subject: Subject) -> None:
    """An option that it does not know is ignored or refused in words."""
    _open_or_refuse(subject, {"ephost_check_no_such_option": "1"}, "an unknown option")


@check("options.empty-value", 4, needs="model")
def _empty_value(subject: Subject) -> None:
    """An option with an empty value is ignored or refused in words."""
    _open_or_refuse(subject, {"ephost_check_no_such_option": ""}, "an option without a value")


@check("options.long-value", 5, needs="model")
def _long_value(subject: Subject) -> None:
    """An option with a value of 100,000 letters is ignored or refused in words."""
    _open_or_refuse(subject, {"ephost_check_no_such_option": "v" * 100_000}, "a long value")


@check("options.not-ascii", 5, needs="model")
def _not_ascii(subject: Subject) -> None:
    """An option whose name and value are not ASCII is ignored or refused in words."""
    _open_or_refuse(subject, {"\u00e9phost": "\u4e2d\u6587 %s %n"}, "an option that is not ASCII")


@check("options.many", 5, needs="model")
def _many(subject: Subject) -> None:
    """A thousand options are ignored or refused in words."""
    _open_or_refuse(subject, {f"ephost_check_{at}": str(at) for at in range(1000)}, "a thousand options")


@check("options.own-are-refused-or-work", 4, needs="devices")
def _own(subject: Subject) -> None:
    """Each option that its devices tell of is taken with the value that they tell."""
    told = dict(subject.devices[0].ep_options)
    if told:
        session = subject.open(subject.sample.build(4), options=subject.session_options(options=told))
        subject.run_sample(session)


@check("options.unknown-session-entries", 4, needs="model")
def _unknown_session_entries(subject: Subject) -> None:
    """Entries of the session that it does not know change nothing.

    One that names an option of its own may be refused in words.
    """
    session = subject.open(subject.sample.build(4), config={"ephost_check.no_such_entry": "1"})
    subject.run_sample(session)
    del session
    own = {f"ep.{subject.ep_name.lower()}.ephost_check": "x" * 1000}
    _open_or_refuse(subject, {}, "an entry that names an option which it does not have", config=own)


@check("options.threads", 4, needs="model")
def _threads(subject: Subject) -> None:
    """Sessions with one and with five threads give the same numbers."""
    for threads in (1, 5):
        options = subject.session_options()
        options.intra_op_num_threads = threads
        session = subject.open(subject.sample.build(4), options=options)
        subject.run_sample(session, what=f"the sample on {threads} threads")
        del session


@check("options.two-sessions-two-values", 5, needs="model")
def _two_values(subject: Subject) -> None:
    """Options of one session do not reach another one."""
    first = subject.open(subject.sample.build(4))
    _open_or_refuse(subject, {"ephost_check_no_such_option": "1"}, "an unknown option")
    subject.run_sample(first, what="a session opened before one with other options")


def _optimization(level: str) -> None:
    def at_level(subject: Subject) -> None:
        options = subject.session_options()
        options.graph_optimization_level = getattr(subject.host.GraphOptimizationLevel, level)
        session = subject.open(subject.sample.build(4), options=options)
        subject.run_sample(session)

    short = level.removeprefix("ORT_").lower().replace("_", "-")
    text = f"The sample gives the right numbers with the host's optimisations at {level}."
    add(Check(f"options.optimization-{short}", text, 2, at_level, "model"))


for _level in ("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"):
    _optimization(_level)
