"""The topics that end a wait, and those that the controllers of the room tell each other on their bus.

A claim that failed comes again after its back-off anyway; a topic only ends the wait.
"""

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


# -- kinds of news on the room's bus

INTENT_CLOSED: Final = "intent-closed"
"""The volume's name."""

HANDLE_STORED: Final = "handle-stored"
"""A volume's handle: no PersistentVolume of it is being stored any more."""

SOURCE_DONE: Final = "source-done"
"""A `Source` and a claim's uid: its volume is made from the source, or never will be."""

SOURCE_FREE: Final = "source-free"
"""A claim's uid: no volume is being made for it. It needs no source any more, or waits as all others do."""

ROOM_LACKING: Final = "room-lacking"
"""The name of a class: a volume of it was not made, and the driver may have had no room."""

ROOM_FREED: Final = "room-freed"
"""The places of a volume that was deleted; none where nobody knows."""
