"""What each process has asked for and was told, as far as laws about harm need it: requests without an answer, and what
classes said.

| law             | broken when |
| --- | --- |
| detach-reported | a Node comes to list a volume whose attachment this process may have deleted |
| two-listed      | a volume for one node comes to be listed by a second Node |
| class-word      | a detach is forced before the volume's classes allow it, or this process has read them |
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from typing import Final

from mooring.kube.cluster import Verb
from mooring.kube.errors import ApiError, ServerError, Unreachable
from tests.sim.plane.habit_plan import WORDS
from tests.sim.plane.line import PlaneWrite

READ_AGAIN_S: Final = 60.0
"""How old what a class said may be when it counts."""
SLACK_S: Final = 10.0
"""From a reading to the write that follows from it."""

BY_FLAG: Final = "the flag says so"

Process = tuple[str, int]


@dataclasses.dataclass(slots=True)
class Reading:
    """What a class said: seconds, None for nothing. at_s: when."""

    wait_s: float | None
    at_s: float


@dataclasses.dataclass(slots=True)
class ClassOf:
    """A PersistentVolume and its class. since, until: the versions of its beginning and its end; None while it is
    there.
    """

    name: str
    since: int
    until: int | None = None


class Asked:
    """Of all processes of the attach/detach controller."""

    def __init__(self) -> None:
        self._deletes: dict[tuple[Process, str], list[PlaneWrite]] = defaultdict(list)  # by uid: sent, not refused
        self._lost_posts: list[PlaneWrite] = []  # no answer came, and they were not carried out by then
        self._readings: dict[tuple[Process, str], list[Reading]] = defaultdict(list)
        self._unread_s: dict[tuple[Process, str], float] = {}  # when a reading failed last
        self._said: dict[str, Reading] = {}  # by class, what it says now, and since when
        self._classes: dict[str, dict[str, ClassOf]] = defaultdict(
            dict
        )  # by handle and the uid of the PersistentVolume

    # -- requests

    def begins(self, write: PlaneWrite) -> None:
        if _is_delete(write):
            self._deletes[_process(write), _uid(write)].append(write)

    def failed(self, write: PlaneWrite, error: ApiError) -> None:
        """A refusal settles the request, though not an earlier one; other errors leave open what becomes of it."""
        is_open = isinstance(error, Unreachable | ServerError)
        if _is_delete(write):
            if not is_open:
                self._deletes[_process(write), _uid(write)].remove(write)
        elif _is_post(write) and is_open and write.change is None:
            self._lost_posts.append(write)

    def comes_late(self, write: PlaneWrite | None) -> bool:
        """True of a POST that nobody waits for any more: its process is gone, or has got no answer."""
        return write is None or any(write is one for one in self._lost_posts)

    def is_detaching(self, write: PlaneWrite, uid: str, version: int) -> bool:
        """True when the process that writes may have deleted this attachment, or may delete it yet: a DELETE of an
        earlier version is refused.
        """
        return any(_is_for(one, version) for one in self._deletes[_process(write), uid])

    def delete_of(self, uid: str, version: int) -> PlaneWrite | None:
        """The DELETE of this attachment in this version that some process has sent, if it is carried out when nobody
        waits for it any more.
        """
        sent = (write for (_, other), writes in self._deletes.items() if other == uid for write in writes)
        return next((write for write in sent if _is_for(write, version)), None)

    # -- classes

    def class_said(self, name: str, text: str | None, now: float) -> None:
        """The class has changed. text: None for one that is gone."""
        self._said[name] = Reading(meaning_of(text), now)

    def class_read(self, process: Process, name: str, text: str | None, now: float) -> None:
        self._readings[process, name].append(Reading(meaning_of(text), now))

    def class_unread(self, process: Process, name: str, now: float) -> None:
        """A reading has failed."""
        self._unread_s[process, name] = now

    def volume_stands(self, handle: str, uid: str, class_name: str, version: int) -> None:
        self._classes[handle].setdefault(uid, ClassOf(class_name, version))

    def volume_ends(self, handle: str, uid: str, version: int) -> None:
        if uid in self._classes[handle]:
            self._classes[handle][uid].until = version

    def forced_wait_s(self, write: PlaneWrite, handle: str, otherwise_s: float) -> tuple[float, str]:
        """How long a forced detach has to wait, at least, by what the process can know; and why. otherwise_s: where no
        class says it.

        What it was shown in the very moment of the write may have come before its decision, or after it.
        """
        return min(
            self._wait_s(write, handle, knows, otherwise_s)
            for knows in (write.knows("persistentvolumes"), write.volumes)
        )

    def _wait_s(self, write: PlaneWrite, handle: str, knows: int, otherwise_s: float) -> tuple[float, str]:
        waits = []
        for name in self._class_names(write, handle, knows):
            found = [one for one in self._readings[_process(write), name] if one.at_s <= write.began_s]
            if not found:
                return math.inf, f"it has not read StorageClass {name}"
            said, last = self._said.get(name), found[-1]
            failed_s = self._unread_s.get((_process(write), name), -math.inf)
            is_old = said is not None and said.at_s < write.began_s - READ_AGAIN_S - SLACK_S and failed_s < said.at_s
            waits.append((last.wait_s if not is_old or said is None else said.wait_s, name))
        given = [(wait_s, f"StorageClass {name} says so") for wait_s, name in waits if wait_s is not None]
        return max(given, default=(otherwise_s, BY_FLAG))

    def _class_names(self, write: PlaneWrite, handle: str, knows: int) -> set[str]:
        """Of the objects that the process was shown; else of the last one that it was ever shown."""
        began = write.firsts.get("persistentvolumes", 0)
        knows = max(knows, began)  # it does nothing before its first list
        shown = [one for one in self._classes[handle].values() if one.since <= knows]
        standing = [one for one in shown if one.until is None or one.until > knows]
        if not standing:
            standing = sorted(
                (one for one in shown if one.until is not None and one.until > began), key=lambda one: one.until or 0
            )[-1:]
        return {one.name for one in standing} - {""}


def meaning_of(text: str | None) -> float | None:
    """Seconds, None for nothing, as the docs have it."""
    return WORDS.get(text or "", math.inf)


def _process(write: PlaneWrite) -> Process:
    return write.who, write.process


def _is_delete(write: PlaneWrite) -> bool:
    assert write.request is not None
    return write.request.verb is Verb.DELETE and write.request.kind.plural == "volumeattachments"


def _is_post(write: PlaneWrite) -> bool:
    assert write.request is not None
    return write.request.verb is Verb.CREATE and write.request.kind.plural == "volumeattachments"


def _is_for(write: PlaneWrite, version: int) -> bool:
    """Whether a DELETE can be carried out on an object of this version."""
    assert write.request is not None
    named = write.request.resource_version
    return named == "" or int(named) >= version


def _uid(write: PlaneWrite) -> str:
    assert write.request is not None
    return write.request.uid
