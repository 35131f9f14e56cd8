"""Every test of the C half must release what it creates."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from native_objects import lib, live_handles


@pytest.fixture(autouse=True)
def nothing_leaks() -> Iterator[None]:
    """Hold the counts of live handles against those from before the test."""
    before = live_handles()
    yield
    lib.ephost_fail_allocation_after(-1)
    assert live_handles() == before
