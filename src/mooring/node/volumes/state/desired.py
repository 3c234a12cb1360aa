"""The wishes of this node's pods: which volume each of them uses, and which pods are not looked at yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mooring.node.volumes.state.volume import PodUse, Volume, shares


class DesiredState:
    """changed: called with a volume's unique name when a pod's wish for it has come, changed or gone.

    known: called when something that a pod wants has become known, or does not matter any more.
    """

    def __init__(self, changed: Callable[[str], None], known: Callable[[], None] = lambda: None) -> None:
        self._changed, self._known = changed, known
        self._volumes: dict[str, dict[str, Volume]] = {}  # by volume, then by PersistentVolume: several may name one volume
        self._uses: dict[str, dict[str, PodUse]] = {}  # by volume, then by pod
        self._of_pod: dict[str, frozenset[str]] = {}  # the volumes of each pod that was looked at
        self._unseen: set[str] = set()  # pods that are there, and were not looked at yet
        self._first: set[str] = set()  # those of them that were there at the start
        self._has_begun = False
        self._incomplete: set[str] = set()  # pods of which not every volume could be found out

    def begin(self) -> None:
        """Every pod that is there has appeared; those that appear from now on have nothing here yet."""
        self._has_begun = True

    def appeared(self, pod_uid: str) -> None:
        """The pod is there, and is going to be looked at: what it has stays as it is until then."""
        if pod_uid not in self._of_pod:
            self._unseen.add(pod_uid)
            if not self._has_begun:
                self._first.add(pod_uid)

    def set(self, pod_uid: str, wanted: Mapping[str, tuple[Volume, PodUse]], *, is_complete: bool = True) -> None:
        """What the pod wants, by unique name. is_complete: False while it may want more."""
        was_looked_at, was_unsure = pod_uid in self._of_pod, self.is_unsure(pod_uid)
        self._unseen.discard(pod_uid)
        self._first.discard(pod_uid)
        (self._incomplete.discard if is_complete else self._incomplete.add)(pod_uid)
        before = self._of_pod.get(pod_uid, frozenset())
        self._of_pod[pod_uid] = frozenset(wanted)
        for unique in sorted(before - wanted.keys()):
            self._drop(unique, pod_uid)
        for unique, (volume, use) in wanted.items():
            uses, volumes = self._uses.setdefault(unique, {}), self._volumes.setdefault(unique, {})
            if uses.get(pod_uid) != use or self.volume_of(unique, pod_uid) != volume:
                uses[pod_uid] = use
                volumes[volume.spec_name] = volume
                self._tidy(unique)
                self._changed(unique)
        self._learnt(not was_looked_at or (was_unsure and is_complete))

    def gone(self, pod_uid: str) -> None:
        """The pod wants nothing any more."""
        was_unsure = self.is_unsure(pod_uid)
        self._unseen.discard(pod_uid)
        self._first.discard(pod_uid)
        self._incomplete.discard(pod_uid)
        for unique in sorted(self._of_pod.pop(pod_uid, frozenset())):
            self._drop(unique, pod_uid)
        self._learnt(was_unsure)

    def volume(self, unique: str, spec_name: str = "") -> Volume | None:
        """What pods say of it, None when no pod wants it. spec_name: as this PersistentVolume has it, where a pod wants it by that."""
        volumes = self._volumes.get(unique, {})
        return volumes.get(spec_name) or next(iter(volumes.values()), None)

    def volume_of(self, unique: str, pod_uid: str) -> Volume | None:
        """As the pod's own PersistentVolume has it, None when the pod does not want it."""
        use = self.uses(unique).get(pod_uid)
        return None if use is None else self._volumes[unique].get(use.spec_name)

    def uses(self, unique: str) -> Mapping[str, PodUse]:
        """By pod uid."""
        return self._uses.get(unique, {})

    def clashing(self, volume: Volume) -> dict[str, str]:
        """The pods that name the volume by a PersistentVolume that can't share it with this one, to its name."""
        own = ((uid, self.volume_of(volume.unique, uid)) for uid in self.uses(volume.unique))
        return {uid: one.spec_name for uid, one in own if one is not None and not shares(volume, one)}

    def of_pod(self, pod_uid: str) -> Mapping[str, Volume]:
        """The volumes that the pod wants, by unique name."""
        wanted = ((unique, self.volume_of(unique, pod_uid)) for unique in sorted(self._of_pod.get(pod_uid, ())))
        return {unique: volume for unique, volume in wanted if volume is not None}

    def is_unsure(self, pod_uid: str) -> bool:
        """True for a pod that is alive and of which it is not known yet, or not wholly, what it wants."""
        return pod_uid in self._incomplete or pod_uid in self._unseen

    @property
    def has_unseen(self) -> bool:
        """True while a pod that was there at the start was not looked at."""
        return bool(self._first)

    @property
    def volumes(self) -> tuple[Volume, ...]:
        return tuple(next(iter(volumes.values())) for volumes in self._volumes.values())

    def _learnt(self, has_become_known: bool) -> None:
        if has_become_known and not self._first:
            self._known()

    def _drop(self, unique: str, pod_uid: str) -> None:
        self._uses.get(unique, {}).pop(pod_uid, None)
        self._tidy(unique)
        self._changed(unique)

    def _tidy(self, unique: str) -> None:
        """Forgets what no pod wants any more."""
        wanted = {use.spec_name for use in self.uses(unique).values()}
        self._volumes[unique] = {name: volume for name, volume in self._volumes.get(unique, {}).items() if name in wanted}
        if not wanted:
            del self._volumes[unique]
            self._uses.pop(unique, None)
