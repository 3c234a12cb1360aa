"""Fixtures for drivers that mount."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.private_mounts import enter_private_mounts


@pytest.fixture
def private_mounts(tmp_path: Path) -> Path:
    """The test's folder, in which this process may mount, unseen by others."""
    enter_private_mounts(tmp_path)
    return tmp_path
