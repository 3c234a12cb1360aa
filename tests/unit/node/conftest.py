"""Fixtures of the node's tests."""

from tests.unit.node.test_block_life import tools
from tests.unit.node.volume_world import world

__all__ = ["tools", "world"]
