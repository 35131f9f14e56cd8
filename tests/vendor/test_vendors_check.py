"""``ephost check`` on the published plugins: nothing is wrong but what known/*.toml has, with reasons."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from vendors import VENDORS, Vendor

KNOWN = Path(__file__).parent / "known"


def test_each_vendor_has_a_file_of_what_is_known() -> None:
    assert {path.stem for path in KNOWN.glob("*.toml")} == set(VENDORS)


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("host", ["ephost", "onnxruntime"])
@pytest.mark.parametrize("vendor", VENDORS.values(), ids=VENDORS)
def test_nothing_is_wrong_that_is_not_known(vendor: Vendor, host: str, tmp_path: Path) -> None:
    if reason := vendor.missing(host, disguised=True):
        pytest.skip(reason)
    report = tmp_path / "check.json"
    library, variables = vendor.library, vendor.variables()
    if host != "ephost" and vendor.disguise:
        library, more = vendor.disguised(tmp_path)
        variables |= more
    command = [sys.executable, "-m", "ephost", "check", f"{vendor.registration}={library}"]
    command += ["--config", str(KNOWN / f"{vendor.name}.toml"), "--host", host, "--json", str(report)]
    command += ["--jobs", "1", "--timeout", "200"]
    command += [f"--option={key}={value}" for key, value in vendor.options.items()]
    done = subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    assert report.exists(), done.stderr
    checks = json.loads(report.read_text())["checks"]
    wrong = ("failed", "crashed", "timed out")
    new = [made for made in checks if made["status"] in wrong and not made["expected"]]
    assert not new, "\n".join(f"{made['check']}: {made['status']}: {made['message']}" for made in new)
    assert done.returncode == 0, done.stderr
    assert sum(made["status"] == "pass" for made in checks) > 100
