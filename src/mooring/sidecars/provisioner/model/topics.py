"""The topics that could heal a claim that failed. It comes again after its back-off anyway; a topic only ends the wait."""

from __future__ import annotations

from typing import Final

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.api.gateway import REFERENCE_GRANTS
from mooring.api.snapshot import VOLUME_SNAPSHOTS
from mooring.control.topics import Topic

DRIVER: Final[Topic] = "driver"
"""The driver was away and is back."""

NODES: Final[Topic] = "nodes"
"""A node's labels, or what is registered there."""


def claim(name: str) -> Topic:
    """A claim that is to be cloned. name: with its namespace."""
    return f"{PERSISTENT_VOLUME_CLAIMS.plural}/{name}"


def snapshot(name: str) -> Topic:
    """name: with its namespace."""
    return f"{VOLUME_SNAPSHOTS.plural}/{name}"


def grants(namespace: str) -> Topic:
    """The grants in a namespace."""
    return f"{REFERENCE_GRANTS.plural}/{namespace}"
