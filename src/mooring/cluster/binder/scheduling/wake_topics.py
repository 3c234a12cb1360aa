"""The topics that pods wait for."""

from __future__ import annotations

from typing import Final

from mooring.api.meta import Key
from mooring.control.topics import Topic

NODES: Final[Topic] = "nodes"
"""A node has come, is gone, or has changed in more than its labels."""
LIMITS: Final[Topic] = "limits"
"""A node may have fewer volumes: a pod or an attachment is gone."""


def claim(key: Key) -> Topic:
    return f"claim/{key}"


def users(key: Key) -> Topic:
    """The pods that use a claim become fewer."""
    return f"users/{key}"


def volume(name: str) -> Topic:
    return f"volume/{name}"


def volumes_of(class_name: str) -> Topic:
    """Volumes of a class become more, or free."""
    return f"volumes/{class_name}"


def storage_class(name: str) -> Topic:
    return f"class/{name}"


def room_of(class_name: str) -> Topic:
    return f"room/{class_name}"


def driver(name: str) -> Topic:
    return f"driver/{name}"


def label(key: str) -> Topic:
    """A node has another value of this label."""
    return f"label/{key}"


def node(name: str) -> Topic:
    return f"node/{name}"
