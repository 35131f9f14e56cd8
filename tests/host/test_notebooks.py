"""What a notebook shows of sessions, explanations and devices."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import ephost as ort
import pytest
from browsing import browsed
from ephost.plugins import sample_kernels
from onnx import parser

HOSTILE = "</td><script>document.title='broken'</script><img src=x>"
MODEL = """<ir_version: 8, opset_import: ["": 17]>
g (float[n, 3] x) => (string[n, 3] z) { y = Relu(x)  z = Cast<to = 8>(y) }"""


class Balance(HTMLParser):
    """Tags that are open, and all that were."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.words = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += f"{data} "


_SESSIONS: weakref.WeakSet[ort.InferenceSession] = weakref.WeakSet()


@pytest.fixture(autouse=True)
def plugin() -> Iterator[None]:
    ort.register_execution_provider_library("kernels", sample_kernels.get_library_path())
    yield
    for session in list(_SESSIONS):  # the exception that ends a test holds what the test held
        session.close()
    ort.unregister_execution_provider_library("kernels")


def opened() -> ort.InferenceSession:
    options = ort.SessionOptions()
    devices = [d for d in ort.get_ep_devices() if d.registration_name == "kernels"]
    options.add_provider_for_devices(devices, {})
    model = parser.parse_model(MODEL)
    model.graph.name = HOSTILE
    model.graph.input[0].name = model.graph.node[0].input[0] = HOSTILE
    session = ort.InferenceSession(model.SerializeToString(), options)
    _SESSIONS.add(session)
    return session


def shown(value: Any) -> Balance:
    text = value._repr_html_()
    found = Balance(text)
    assert not found.tags & {"script", "img", "link", "iframe", "style"}
    assert found.attributes <= {"style", "role", "aria-label", "aria-hidden", "scope"} and "url(" not in text
    return found


def test_a_session_shows_its_interface_and_who_runs_it() -> None:
    words = shown(opened()).words
    assert HOSTILE in words
    for part in (
        "InferenceSession",
        "tensor(float)",
        "nx3",
        "tensor(string)",
        "sample_kernels 1",
        "fallback 1",
    ):
        assert part in words


def test_an_explanation_shows_shares_and_reasons() -> None:
    words = shown(ort.explain(opened())).words
    assert "its registry has no kernel for Cast" in words and "sample_kernels 1" in words


def test_a_device_shows_what_it_is() -> None:
    (device,) = [d for d in ort.get_ep_devices() if d.registration_name == "kernels"]
    words = shown(device).words
    assert "sample_kernels" in words and "kernels" in words and "CPU" in words


def test_nothing_is_run_and_nothing_raises() -> None:
    class Broken(ort.InferenceSession):
        def __init__(self) -> None:
            """Nothing is open: whatever is asked for is missing."""

        def run(self, *_: Any) -> Any:
            raise AssertionError("a notebook ran the model")

        def __repr__(self) -> str:
            raise ValueError("no text either")

    assert Broken()._repr_html_() == "<pre>&lt;Broken&gt;</pre>"
    session = opened()
    session.run = Broken.run  # type: ignore[method-assign, assignment]
    told, page = ort.explain(session), session._repr_html_()
    assert "sample_kernels 1" in page
    del session
    assert "Cast" in told._repr_html_()


def test_a_session_that_is_closed_says_so() -> None:
    session = opened()
    session.close()
    assert "It is closed." in shown(session).words


def test_a_browser_shows_them_on_light_and_on_dark(tmp_path: Path) -> None:
    session = opened()
    pieces = "".join(value._repr_html_() for value in (session, ort.explain(session), *ort.get_ep_devices()))
    dom = browsed(f"<meta charset=utf-8><body style='background:#111;color:#eee'>{pieces}", tmp_path)
    assert "<title>broken" not in dom and dom.count("<table") == pieces.count("<table")
