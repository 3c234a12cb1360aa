"""The Secrets of calls: read before a call's slot is taken, so that a slow one holds up no volume that does not need it.

    an attachment             because                                      and becomes
    without its Secret        nobody has read it for its next call         reading it, or sharing it (share) where somebody reads it already
    reading, or sharing       the API server is asked, once for all        with its Secret (succeeded), or failed, all of them alike
    with its Secret           it may have to wait for a slot               without, after its call (forget)

Attachments that share a read are parked and hold no worker. Values are kept until the call that they were read for.
"""

from __future__ import annotations

from collections.abc import Mapping

from mooring.api.core import SecretReference
from mooring.control.topics import Topic


def secret_read(ref: SecretReference) -> Topic:
    """Told when the reading of this Secret has ended, in whatever way."""
    return f"secret/{ref.namespace}/{ref.name}"


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
        """The error of the read that this attachment shared, if there was one. Told once."""
        shared, error = self._failures.pop(name, (None, None))
        return error if shared == ref else None

    def begin(self, ref: SecretReference) -> None:
        assert ref not in self._sharing, "two readings of one Secret"
        self._sharing[ref] = set()

    def succeeded(self, name: str, ref: SecretReference, values: Mapping[str, str]) -> None:
        """For the attachment that has read it. Attachments that share it find it fresh in the cache of Secrets."""
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
