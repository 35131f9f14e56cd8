"""The rules of the ABI, by the layer ``validate`` between the host and the plugin."""

from __future__ import annotations

import contextlib
import gc
import tempfile
from pathlib import Path

from ephost.checking.models import SAMPLES, circle, foreign_context
from ephost.checking.registry import SHIP, Check, add
from ephost.checking.subject import Subject
from ephost.checking.verdicts import Failure, Skip
from ephost.errors import OnnxRuntimeException
from ephost.layers import Validate, wrap
from ephost.layers.findings import Finding, read_findings
from ephost.layers.rules import RULES

_FAMILIES = {
    "OWN": "releases what it makes, once, and uses nothing after its release",
    "PHASE": "uses what it is lent within the call that it is lent for, and throws nothing",
    "BOUND": "writes all of its outputs and nothing else, and reads nothing behind its inputs",
    "OUT": "gives the outputs that the graph says",
    "VER": "keeps to the version of the ABI that it asked for",
    "ARG": "gives the host's functions arguments that there are",
    "ANS": "answers what it was asked",
    "CLAIM": "claims nodes of the graph that it was asked about, once",
    "CTX": "gives EPContext nodes that are complete, and its own",
    "ALLOC": "allocates memory that is free and aligned",
    "STREAM": "makes streams where it says that it does",
    "XFER": "copies between the memories that it said it copies between",
}
_SIZES = (1, 4, 17)
_SHOWN = 5  # findings in a message


def _work(subject: Subject, library: str) -> None:
    """Use the plugin as applications do: sessions, sizes, a model that cannot be opened, compiled models."""
    devices = subject.choose(subject.register(path=library))
    if devices:
        for name in [*subject.facts.get("samples", ()), *subject.facts.get("wrong", ())]:
            with contextlib.suppress(Exception):  # what fails is told by other checks
                _use(subject, devices, name)
        for strange in (circle(), foreign_context()):
            with contextlib.suppress(Exception):
                subject.open(strange, subject.session_options(devices=devices))
        with contextlib.suppress(Exception):
            options = subject.session_options(devices=devices)
            model = SAMPLES[subject.sample_name].build(4)
            subject.stage("compiling a model")
            subject.open(subject.host.ModelCompiler(options, model, True).compile_to_bytes(), options)
    del devices
    gc.collect()
    subject.unregister()


def _use(subject: Subject, devices: list[object], name: str) -> None:
    options = subject.session_options(devices=devices)
    for size in (4, "n"):
        session = subject.open(SAMPLES[name].build(size), options)
        for n in _SIZES if size == "n" else (4, 4):
            subject.run(session, SAMPLES[name].feed(n))
        del session


def _told(finding: Finding) -> str:
    rule = RULES.get(finding.rule)
    text = f" (it {rule.text})" if rule else ""
    return f"{finding.rule} in {finding.function or finding.during}{text}: {finding.message}"


def _family(family: str, text: str) -> None:
    def keeps(subject: Subject) -> None:
        with tempfile.TemporaryDirectory() as folder:
            library, file = str(Path(folder, "libephost_check_layer.so")), Path(folder, "findings.jsonl")
            wrap(subject.path, library, [Validate(file, reads=family == "BOUND")])
            with contextlib.suppress(OnnxRuntimeException):  # of a registration, which another check is about
                _work(subject, library)
            found = read_findings(file) if file.exists() else []
        mine = [each for each in found if each.rule.startswith(f"EPV-{family}-") and each.severity != "info"]
        wrong = [each for each in mine if each.severity == "error"]
        subject.numbers["findings"] = [_told(each) for each in mine]
        if wrong:
            more = f" (and {len(wrong) - _SHOWN} more)" if len(wrong) > _SHOWN else ""
            raise Failure("; ".join(dict.fromkeys(_told(each) for each in wrong[:_SHOWN])) + more)
        for told in dict.fromkeys(_told(each) for each in mine):
            subject.warn(told)
        if not subject.facts.get("samples"):
            raise Skip("nothing was found, but it ran none of the models that the checks are made of")

    add(Check(f"rules.EPV-{family}", f"It {text}.", SHIP, keeps))


for _name, _text in _FAMILIES.items():
    _family(_name, _text)
