"""The calls of the driver: each has a slot, and the Secret that it needs.

Slots: one call at a time for each volume, and so many at a time in all. CSI asks for the first, drivers answer Aborted otherwise;
`--worker-threads` says the second. A key that may not call yet is not failed, has no back-off and holds no worker: it is put aside, called
up when a slot ends, and decided anew.

    a key is           because                                       and becomes
    waiting            its volume, or every call, is taken           called up, when a slot ends and it is next
    called up          it is in the work queue again                 in its slot (begin); or waiting, or nothing, and the next is called up
    in its slot        it has its volume and a call                  without call (call_over): its volume only; done, at the end

One is called up for each slot that ends; of those that wait for the volume the first by rank, else the first that waits for any call.

Secrets are read before a call's slot is taken, so that a slow one holds up no volume that does not need it.

    an attachment             because                                      and becomes
    without its Secret        nobody has read it for its next call         reading it, or sharing it (share) where somebody reads it already
    reading, or sharing       the API server is asked, once for all        with its Secret (succeeded), or failed, all of them alike
    with its Secret           it may have to wait for a slot               without, after its call (forget)

An attachment that shares is parked and holds no worker. Values are kept until the call that they were read for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from mooring.api.core import SecretReference
from mooring.control.topics import Topic

Wanted: TypeAlias = str | None
"""A key waits for a volume, by its handle, or (None) for a call for whatever volume."""


def idle(volume_handle: str) -> Topic:
    """Told when the driver's call about a volume is over."""
    return f"idle/{volume_handle}"


def secret_read(ref: SecretReference) -> Topic:
    """Told when the reading of this Secret has ended, in whatever way."""
    return f"secret/{ref.namespace}/{ref.name}"


class CallSlots:
    """calls_max: calls at a time, > 0. call_up: adds a key to the queue. rank: the least goes first among those who wait for one volume."""

    def __init__(self, calls_max: int, call_up: Callable[[str], None], rank: Callable[[str], Any]) -> None:
        assert calls_max > 0
        self._calls_max, self._call_up, self._rank = calls_max, call_up, rank
        self._in_flight: dict[str, str] = {}
        self._calling: set[str] = set()  # volumes with a call that may still run
        self._waiting: dict[Wanted, dict[str, None]] = {}  # names, in order of arrival
        self._waits_for: dict[str, Wanted] = {}  # the same by name
        self._called_up: dict[str, Wanted] = {}  # name → what it was called up for

    @property
    def in_flight(self) -> Mapping[str, str]:
        """Volume handle → name of the attachment that has its slot."""
        return self._in_flight

    @property
    def calls_full(self) -> bool:
        """True when no further call may begin."""
        return len(self._calling) >= self._calls_max

    def wait(self, wanted: Wanted, name: str) -> None:
        """This attachment wants a slot, and the volume (or, for None, every call) is taken."""
        assert self.calls_full if wanted is None else wanted in self._in_flight, "no slot would end"
        self._leave(name)
        self._waiting.setdefault(wanted, {})[name] = None
        self._waits_for[name] = wanted

    def begin(self, volume_handle: str, name: str) -> CallSlot:
        """Takes the volume and a call, until the end of its `with`."""
        assert volume_handle not in self._in_flight, "two calls for one volume"
        assert not self.calls_full
        self._leave(name)
        self._called_up.pop(name, None)
        self._in_flight[volume_handle] = name
        self._calling.add(volume_handle)
        return CallSlot(self, volume_handle)

    def reconciled(self, name: str) -> None:
        """A worker is done with this key: if it was called up and did not begin, the next one is called up."""
        if name in self._called_up:
            self._next(self._called_up.pop(name))

    def _leave(self, name: str) -> None:
        """This attachment waits no more."""
        if name not in self._waits_for:
            return
        wanted = self._waits_for.pop(name)
        waiting = self._waiting[wanted]
        del waiting[name]
        if not waiting:
            del self._waiting[wanted]

    def _call_over(self, volume_handle: str) -> None:
        if volume_handle in self._calling:
            self._calling.discard(volume_handle)
            self._next(None)

    def _end(self, volume_handle: str) -> None:
        del self._in_flight[volume_handle]
        if volume_handle in self._waiting:
            self._calling.discard(volume_handle)
            self._next(volume_handle)
        else:
            self._call_over(volume_handle)

    def _next(self, wanted: Wanted) -> None:
        """Calls up one that waits for this volume, or else one that waits for any call."""
        if wanted in self._in_flight or wanted not in self._waiting:
            wanted = None
        if wanted not in self._waiting or (wanted is None and self.calls_full):
            return
        waiting = self._waiting[wanted]
        name = next(iter(waiting)) if wanted is None else min(waiting, key=self._rank)
        self._leave(name)
        self._called_up[name] = wanted
        self._call_up(name)


class CallSlot:
    """A volume and a call, until the end of the `with`."""

    def __init__(self, slots: CallSlots, volume_handle: str) -> None:
        self._slots, self._volume_handle = slots, volume_handle

    def call_over(self) -> None:
        """The call has ended and only writes are left: one for another volume may begin."""
        self._slots._call_over(self._volume_handle)

    def __enter__(self) -> CallSlot:
        return self

    def __exit__(self, *error: object) -> None:
        self._slots._end(self._volume_handle)


class CallSecrets:
    """By the attachment's name."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[SecretReference, Mapping[str, str]]] = {}
        self._failures: dict[str, tuple[SecretReference, str]] = {}
        self._sharing: dict[SecretReference, set[str]] = {}  # a Secret that is being read → who shares what comes of it

    def is_at_hand(self, name: str, ref: SecretReference) -> bool:
        """True when this Secret was read for the attachment's next call."""
        return name in self._values and self._values[name][0] == ref

    def is_being_read(self, ref: SecretReference) -> bool:
        return ref in self._sharing

    def values(self, name: str) -> Mapping[str, str]:
        """For the call; none where it needs no Secret."""
        return self._values[name][1] if name in self._values else {}

    def share(self, name: str, ref: SecretReference) -> None:
        """This attachment gets what comes of the reading."""
        self._sharing[ref].add(name)

    def failure(self, name: str, ref: SecretReference) -> str | None:
        """What came of the reading that this attachment shared, where that was an error. Told once."""
        shared, error = self._failures.pop(name, (None, None))
        return error if shared == ref else None

    def begin(self, ref: SecretReference) -> None:
        assert ref not in self._sharing, "two readings of one Secret"
        self._sharing[ref] = set()

    def succeeded(self, name: str, ref: SecretReference, values: Mapping[str, str]) -> None:
        """For the attachment that has read it. Who shares finds it fresh in the cache of Secrets."""
        self._values[name] = (ref, values)

    def failed(self, ref: SecretReference, error: str) -> None:
        self._failures.update(dict.fromkeys(self._sharing[ref], (ref, error)))

    def end(self, ref: SecretReference) -> None:
        """Nobody reads it any more."""
        del self._sharing[ref]

    def forget(self, name: str) -> None:
        """Its call is over, or there is none."""
        self._values.pop(name, None)
        self._failures.pop(name, None)
        for sharing in self._sharing.values():
            sharing.discard(name)
