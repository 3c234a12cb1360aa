"""What the pods of this node want: which volume each of them uses, and which pods are not looked at yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mooring.node.volumes.requests import PodUse
from mooring.node.volumes.volume import Volume


class DesiredState:
    """changed: called with a volume's unique name when a pod's wish for it has come, changed or gone.

    known: called when something that a pod wants has become known, or does not matter any more.
    """

    def __init__(self, changed: Callable[[str], None], known: Callable[[], None] = lambda: None) -> None:
        self._changed, self._known = changed, known
        self._volumes: dict[str, Volume] = {}
        self._uses: dict[str, dict[str, PodUse]] = {}  # by volume, then by pod
        self._of_pod: dict[str, frozenset[str]] = {}  # the volumes of each pod that was looked at
        self._unseen: set[str] = set()  # pods that are there, and were not looked at yet
        self._incomplete: set[str] = set()  # pods of which not every volume could be found out

    def appeared(self, pod_uid: str) -> None:
        """The pod is there, and is going to be looked at: what it has stays as it is until then."""
        if pod_uid not in self._of_pod:
            self._unseen.add(pod_uid)

    def set(self, pod_uid: str, wanted: Mapping[str, tuple[Volume, PodUse]], *, is_complete: bool = True) -> None:
        """What the pod wants, by unique name. is_complete: False while it may want more."""
        was_looked_at, was_unsure = pod_uid in self._of_pod, self.is_unsure(pod_uid)
        self._unseen.discard(pod_uid)
        (self._incomplete.discard if is_complete else self._incomplete.add)(pod_uid)
        before = self._of_pod.get(pod_uid, frozenset())
        self._of_pod[pod_uid] = frozenset(wanted)
        for unique in sorted(before - wanted.keys()):
            self._drop(unique, pod_uid)
        for unique, (volume, use) in wanted.items():
            uses = self._uses.setdefault(unique, {})
            if uses.get(pod_uid) != use or self._volumes.get(unique) != volume:
                uses[pod_uid] = use
                self._volumes[unique] = volume
                self._changed(unique)
        self._learnt(not was_looked_at or (was_unsure and is_complete))

    def gone(self, pod_uid: str) -> None:
        """The pod wants nothing any more."""
        was_unsure = self.is_unsure(pod_uid)
        self._unseen.discard(pod_uid)
        self._incomplete.discard(pod_uid)
        for unique in sorted(self._of_pod.pop(pod_uid, frozenset())):
            self._drop(unique, pod_uid)
        self._learnt(was_unsure)

    def volume(self, unique: str) -> Volume | None:
        """What a pod says of it, None when no pod wants it."""
        return self._volumes.get(unique)

    def uses(self, unique: str) -> Mapping[str, PodUse]:
        """By pod uid."""
        return self._uses.get(unique, {})

    def of_pod(self, pod_uid: str) -> Mapping[str, Volume]:
        """The volumes that the pod wants, by unique name."""
        return {unique: self._volumes[unique] for unique in sorted(self._of_pod.get(pod_uid, ()))}

    def is_unsure(self, pod_uid: str) -> bool:
        """True for a pod that is alive and of which it is not known yet, or not wholly, what it wants."""
        return pod_uid in self._incomplete or pod_uid in self._unseen

    @property
    def has_unsure(self) -> bool:
        """True while a pod was not looked at at all."""
        return bool(self._unseen)

    @property
    def is_known(self) -> bool:
        """True when every pod was looked at, and nothing of what they want is missing."""
        return not self._incomplete and not self.has_unsure

    @property
    def volumes(self) -> tuple[Volume, ...]:
        return tuple(self._volumes.values())

    def _learnt(self, has_become_known: bool) -> None:
        if has_become_known and not self._unseen:
            self._known()

    def _drop(self, unique: str, pod_uid: str) -> None:
        uses = self._uses.get(unique, {})
        uses.pop(pod_uid, None)
        if not uses:
            self._uses.pop(unique, None)
            self._volumes.pop(unique, None)
        self._changed(unique)
