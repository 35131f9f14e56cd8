"""Variables of the environment with values that they cannot have: the error names them."""

from __future__ import annotations

from pathlib import Path

import pytest
from ephost import hardware
from ephost.config_values import switched
from ephost.errors import Fail, InvalidArgument
from ephost.isolation.settings import isolation_of


@pytest.mark.parametrize("value", ["x", "2", "-1", "yes", "0.0"])
def test_a_switch_is_0_or_1(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("EPHOST_CPU_PLUGIN", "EPHOST_ISOLATED"):
        monkeypatch.setenv(variable, value)
        with pytest.raises(InvalidArgument, match=rf"^the environment variable {variable} is 0 or 1, not "):
            switched(variable, False)
    with pytest.raises(InvalidArgument, match="EPHOST_ISOLATED"):
        isolation_of(None)


def test_a_switch_that_is_empty_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("", " "):
        monkeypatch.setenv("EPHOST_ISOLATED", value)
        assert switched("EPHOST_ISOLATED", True) and not switched("EPHOST_ISOLATED", False)
    monkeypatch.setenv("EPHOST_ISOLATED", "1")
    assert switched("EPHOST_ISOLATED", False)


@pytest.mark.parametrize(
    "text",
    [
        '[{"type": "CPU", "vendor": "\\ud800"}]',
        '[{"type": "CPU", "vendor": "a\\u0000b"}]',
        '[{"type": "CPU", "metadata": {"\\udfff": "x"}}]',
        "[" * 100_000,
        "[" + "9" * 5000 + "]",
    ],
)
def test_hardware_is_described_in_texts(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPHOST_HARDWARE_DEVICES", text)
    with pytest.raises(InvalidArgument, match=r"^EPHOST_HARDWARE_DEVICES"):
        hardware.from_environment()


def test_a_file_of_hardware_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "devices.json"
    file.write_bytes(b"\xff\xfe")
    monkeypatch.setenv("EPHOST_HARDWARE_DEVICES", str(file))
    with pytest.raises(InvalidArgument, match=r"devices\.json\) names a file that cannot be read"):
        hardware.from_environment()
    if Path("/dev/zero").exists():
        monkeypatch.setenv("EPHOST_HARDWARE_DEVICES", "/dev/zero")
        with pytest.raises(Fail, match="the file of EPHOST_HARDWARE_DEVICES /dev/zero is a device"):
            hardware.from_environment()
