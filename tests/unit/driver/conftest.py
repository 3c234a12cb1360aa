"""Fixtures of the drivers' tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.driver.hostpath.driver import HostPath
from tests.support.private_mounts import clear_below, enter_private_mounts
from tests.unit.driver.calls import a_driver


@pytest.fixture
def private_mounts(tmp_path: Path) -> Iterator[Path]:
    """The test's folder, in which this process may mount, unseen by others. Nothing that a failed test leaves there outlives it."""
    enter_private_mounts(tmp_path)
    yield tmp_path
    clear_below(tmp_path)


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[HostPath]:
    """On nodes 1 to 3, with its state in the test's folder."""
    with a_driver(tmp_path) as made:
        yield made
