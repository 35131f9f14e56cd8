"""Opening, using and closing sessions."""

from __future__ import annotations

import gc
import tempfile
from pathlib import Path

import numpy as np

from ephost.checking.models import F, chain, make, node
from ephost.checking.registry import check
from ephost.checking.subject import Subject, reference, require_error
from ephost.checking.verdicts import Failure, Skip


@check("sessions.open", 1, needs="devices")
def _open(subject: Subject) -> None:
    """A session opens on a small model, which the plugin takes or leaves."""
    subject.open(chain(["Neg", "Abs"]))


@check("sessions.takes-something", 3, needs="devices")
def _takes_something(subject: Subject) -> None:
    """It takes a node of one of the common small models."""
    if not subject.facts.get("samples") and not subject.facts.get("wrong"):
        refused = subject.facts.get("refused") or {}
        if refused:
            name, why = next(iter(refused.items()))
            raise Failure(f"it takes nothing; the model {name!r} fails: {why}")
        subject.warn("it takes nothing of common small models: much of it cannot be checked")


@check("sessions.run", 1, needs="claim")
def _run(subject: Subject) -> None:
    """The sample runs and gives the reference's numbers."""
    with subject.opened() as session:
        subject.run_sample(session)


@check("sessions.run-twice", 2, needs="model")
def _run_twice(subject: Subject) -> None:
    """A second run gives the same bits as the first one."""
    feeds = subject.sample.feed(4)
    with subject.opened() as session:
        first, second = subject.run(session, feeds), subject.run(session, feeds)
        for at, (a, b) in enumerate(zip(first, second, strict=True)):
            if a.tobytes() != b.tobytes():
                subject.require_equal([b], [a], f"output {at} of the second run")
                subject.warn(f"output {at} of the second run differs from the first one's in its last bits")


@check("sessions.outputs-stay", 3, needs="model")
def _outputs_stay(subject: Subject) -> None:
    """What a run gave is not overwritten by later runs."""
    feeds = subject.sample.feed(4)
    with subject.opened() as session:
        first = subject.run(session, feeds)
        kept = [array.copy() for array in first]
        for _ in range(5):
            subject.run(session, {name: array * 3 + 1 for name, array in feeds.items()})
        if any(a.tobytes() != b.tobytes() for a, b in zip(first, kept, strict=True)):
            raise Failure("outputs of a run change when the session runs again")


@check("sessions.inputs-stay", 2, needs="model")
def _inputs_stay(subject: Subject) -> None:
    """A run does not write to its inputs."""
    feeds = subject.sample.feed(4)
    kept = {name: array.copy() for name, array in feeds.items()}
    with subject.opened() as session:
        for _ in range(3):
            subject.run(session, feeds)
    for name, array in feeds.items():
        if array.tobytes() != kept[name].tobytes():
            raise Failure(f"a run changes its input {name!r}")


@check("sessions.other-inputs", 2, needs="model")
def _other_inputs(subject: Subject) -> None:
    """Runs with other inputs give other numbers: nothing is kept that should not be."""
    model, feeds = subject.sample.build(4), subject.sample.feed(4)
    with subject.opened() as session:
        for factor in (1.0, -2.0, 0.0, 0.25):
            given = {name: (array * factor).astype(array.dtype) for name, array in feeds.items()}
            subject.require_equal(
                subject.run(session, given), reference(model, given), f"inputs times {factor}"
            )


@check("sessions.hundred-runs", 3, needs="model")
def _hundred_runs(subject: Subject) -> None:
    """A hundred runs give the same numbers."""
    feeds = subject.sample.feed(4)
    want = reference(subject.sample.build(4), feeds)
    with subject.opened() as session:
        for number in range(100):
            subject.require_equal(subject.run(session, feeds), want, f"run {number + 1}")


@check("sessions.two", 2, needs="model")
def _two(subject: Subject) -> None:
    """Two sessions at once give the right numbers, run in turns."""
    with subject.opened() as first, subject.opened(7) as second:
        for _ in range(3):
            subject.run_sample(first)
            subject.run_sample(second, 7)


@check("sessions.one-after-the-other", 2, needs="model")
def _one_after_the_other(subject: Subject) -> None:
    """Ten sessions, each closed before the next, give the right numbers."""
    for number in range(10):
        with subject.opened() as session:
            subject.run_sample(session, what=f"session {number + 1}")


@check("sessions.twenty", 4, needs="model")
def _twenty(subject: Subject) -> None:
    """Twenty sessions are open at once, and closed in the order in which they were opened."""
    opened = [subject.open(subject.sample.build(4)) for _ in range(20)]
    while opened:
        subject.run_sample(opened[-1])
        subject.stage("closing the oldest session")
        opened.pop(0)
        gc.collect()


@check("sessions.closed-beside-another", 3, needs="model")
def _closed_beside_another(subject: Subject) -> None:
    """A session runs on after another one of the same model was closed."""
    first = subject.open(subject.sample.build(4))
    with subject.opened() as second:
        subject.run_sample(second)
    subject.run_sample(first, what="the session that is left")


@check("sessions.from-a-file", 2, needs="model")
def _from_a_file(subject: Subject) -> None:
    """A model that is a file gives the same as one in memory."""
    with tempfile.TemporaryDirectory(prefix="n\u00e4me ") as folder:
        path = Path(folder, "the model.onnx")
        path.write_bytes(subject.sample.build(4))
        subject.run_sample(subject.open(str(path)))


@check("sessions.without-running", 2, needs="model")
def _without_running(subject: Subject) -> None:
    """Sessions that never run are closed without harm."""
    for _ in range(3):
        with subject.opened():
            pass


@check("sessions.wrong-feed", 3, needs="model")
def _wrong_feed(subject: Subject) -> None:
    """After a run that was refused for its inputs the session runs rightly."""
    feeds = subject.sample.feed(4)
    name = next(iter(feeds))
    with subject.opened() as session:
        bad = {**feeds, name: np.zeros((3, 1, 5), np.float32)}
        require_error(lambda: subject.run(session, bad), "a run with a wrong shape")
        subject.run_sample(session, what="a run after one that was refused")


@check("sessions.after-a-failed-one", 3, needs="model")
def _after_a_failed_one(subject: Subject) -> None:
    """After a model that cannot be opened others can."""
    require_error(lambda: subject.open(b"this is no model"), "opening what is no model")
    with subject.opened() as session:
        subject.run_sample(session)


@check("sessions.nothing-to-do", 3, needs="devices")
def _nothing_to_do(subject: Subject) -> None:
    """A model without nodes, whose output is its input, opens and runs."""
    model = make([], {"x": (F, (2, 3))}, {"x": (F, (2, 3))})
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    try:
        session = subject.host.InferenceSession(model)
    except Exception as error:
        raise Skip(f"the host refuses such a model: {error}") from None
    del session
    subject.require_equal(subject.run(subject.open(model), {"x": x}), [x], "the model without nodes")


@check("sessions.constant-output", 4, needs="devices")
def _constant_output(subject: Subject) -> None:
    """A model whose output follows from constants alone opens and runs."""
    c = np.arange(8, dtype=np.float32)
    model = make(
        [node("Add", "c c", "k"), node("Add", "x k", "y")],
        {"x": (F, (4, 8))},
        {"y": (F, (4, 8)), "k": (F, (8,))},
        {"c": c},
    )
    x = np.ones((4, 8), np.float32)
    subject.require_equal(subject.run(subject.open(model), {"x": x}), [x + 2 * c, 2 * c], "constants")


@check("sessions.some-outputs", 3, needs="model")
def _some_outputs(subject: Subject) -> None:
    """A run may ask for some of the outputs, in any order."""
    nodes = [node("Relu", "x", "a"), node("Add", "x a", "b"), node("Mul", "a b", "c")]
    model = make(nodes, {"x": (F, (4, 8))}, dict.fromkeys("abc", (F, (4, 8))))
    feeds = {"x": np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)}
    a, b, c = reference(model, feeds)
    session = subject.open(model)
    for names, want in ((["c"], [c]), (["b", "a"], [b, a]), (["c", "b", "a"], [c, b, a])):
        subject.stage("running")
        subject.require_equal(session.run(names, feeds), want, f"the outputs {', '.join(names)}")


@check("sessions.bound", 4, needs="model")
def _bound(subject: Subject) -> None:
    """Runs on bound inputs and outputs give the same numbers, in the memory that was bound."""
    feeds = subject.sample.feed(4)
    want = reference(subject.sample.build(4), feeds)
    with subject.opened() as session:
        binding = session.io_binding()
        for name, array in feeds.items():
            binding.bind_cpu_input(name, array)
        (output,) = session.get_outputs()
        into = np.full(want[0].shape, 7, want[0].dtype)
        value = subject.host.OrtValue.ortvalue_from_numpy(into)
        binding.bind_ortvalue_output(output.name, value)
        for number in range(3):
            subject.stage("running on bound values")
            session.run_with_iobinding(binding)
            subject.require_equal([value.numpy()], want, f"bound run {number + 1}")


@check("sessions.terminated", 5, needs="model")
def _terminated(subject: Subject) -> None:
    """A run that was terminated before it began ends with an error, and the next one is right."""
    options = subject.host.RunOptions()
    options.terminate = True
    with subject.opened() as session:
        subject.stage("running with terminate set")
        require_error(lambda: session.run(None, subject.sample.feed(4), options), "a terminated run")
        subject.run_sample(session, what="a run after one that was terminated")


@check("sessions.two-hundred-nodes", 4, needs="model")
def _two_hundred_nodes(subject: Subject) -> None:
    """A model of two hundred nodes opens and gives the right numbers."""
    model = chain(["Relu", "Neg", "Abs", "Sigmoid", "Tanh"] * 40)
    feeds = {"x": np.linspace(-2, 2, 32, dtype=np.float32).reshape(4, 8)}
    subject.require_equal(subject.run(subject.open(model), feeds), reference(model, feeds), "the long model")


@check("sessions.with-another-plugin", 5, needs="model")
def _with_another_plugin(subject: Subject) -> None:
    """It works beside another plugin, before it and behind it in the order of a session."""
    from ephost.plugins import sample_kernels

    other = subject.host
    devices = subject.devices
    try:
        other.register_execution_provider_library("ephost_check_other", sample_kernels.get_library_path())
    except FileNotFoundError as error:
        raise Skip(f"the bundled sample is not built: {error}") from None
    theirs = [d for d in other.get_ep_devices() if d.ep_name == sample_kernels.get_ep_name()]
    if devices[0].ep_name == theirs[0].ep_name:
        raise Skip("the plugin is the other one")
    for order in ("before", "behind"):
        options = subject.session_options(devices=[])
        pair = [(devices, dict(subject.given.options)), (theirs[:1], {})]
        for chosen, given in pair if order == "before" else pair[::-1]:
            options.add_provider_for_devices(list(chosen), given)
        session = subject.open(subject.sample.build(4), options=options)
        subject.run_sample(session, what=f"the sample with the plugin {order} another one")
        del session
