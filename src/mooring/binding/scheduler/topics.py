"""What a pod waits for, as texts: whoever changes something names the topic, and who waits for it looks again."""

from __future__ import annotations

from typing import Final

from mooring.api.meta import Key

NODES: Final = "nodes"
LIMITS: Final = "limits"


def claim(key: Key) -> str:
    return f"claim/{key}"


def users(key: Key) -> str:
    """The pods that use a claim become fewer."""
    return f"users/{key}"


def volume(name: str) -> str:
    return f"volume/{name}"


def volumes_of(class_name: str) -> str:
    """Volumes of a class become more, or free."""
    return f"volumes/{class_name}"


def storage_class(name: str) -> str:
    return f"class/{name}"


def room_of(class_name: str) -> str:
    return f"room/{class_name}"


def driver(name: str) -> str:
    return f"driver/{name}"


def node(name: str) -> str:
    return f"node/{name}"


class Waiting:
    """Pods by what they wait for."""

    def __init__(self) -> None:
        self._topics: dict[Key, frozenset[str]] = {}
        self._pods: dict[str, dict[Key, None]] = {}

    def set(self, pod: Key, topics: frozenset[str]) -> None:
        """From now on it waits for these, and for nothing else."""
        for topic in self._topics.pop(pod, frozenset()):
            pods = self._pods[topic]
            del pods[pod]
            if not pods:
                del self._pods[topic]
        if topics:
            self._topics[pod] = topics
            for topic in sorted(topics):
                self._pods.setdefault(topic, {})[pod] = None

    def for_(self, topic: str) -> tuple[Key, ...]:
        return tuple(self._pods.get(topic, ()))
