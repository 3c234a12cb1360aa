"""Fixtures of the node's tests."""

from tests.unit.node.volume_world import world

__all__ = ["world"]
