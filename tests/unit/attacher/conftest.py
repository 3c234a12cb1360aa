"""Fixtures of the attacher's tests."""

from __future__ import annotations

import pytest

from tests.support.attaching import AttacherWorld


@pytest.fixture
async def world() -> AttacherWorld:
    """A cluster with a volume and a node, and a driver that publishes."""
    return await AttacherWorld().base()
