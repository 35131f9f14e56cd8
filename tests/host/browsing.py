"""A real browser, for tests of pages."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def browsed(text: str, folder: Path) -> str:
    """What a browser makes of a page, which must leave nothing in its console."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("there is no Chromium")
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [
            browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}",
            "--enable-logging=stderr", "--dump-dom", path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={key: value for key, value in os.environ.items() if key != "LD_PRELOAD"},  # a sanitizer's
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert "CONSOLE" not in done.stderr, [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout
