"""Fixtures for drivers that mount."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.private_mounts import clear_below, enter_private_mounts


@pytest.fixture
def private_mounts(tmp_path: Path) -> Iterator[Path]:
    """The test's folder, in which this process may mount, unseen by others. Nothing that a failed test leaves there outlives it."""
    enter_private_mounts(tmp_path)
    yield tmp_path
    clear_below(tmp_path)
