"""Fixtures of the node's tests."""

import os
from collections.abc import Iterator

import pytest

from tests.unit.node.test_block_life import tools
from tests.unit.node.volume_world import world

__all__ = ["kubelets_umask", "tools", "world"]


@pytest.fixture
def kubelets_umask() -> Iterator[None]:
    """What systemd gives a kubelet, whoever runs the tests: the modes of folders follow from it."""
    before = os.umask(0o022)
    yield
    os.umask(before)
