"""Which volumes an object belongs to, each by the uid that its trace is named by.

A volume's uid is that of its claim, from whatever object one comes: a PersistentVolume says it in its claimRef, or in a
name `pvc-<uid>`; a VolumeAttachment names the PersistentVolume, a pod its claims. A volume that no claim has taken yet
goes by its own uid. A snapshot is traced by its own uid, since csi-snapshotter sees contents alone, which say that uid;
where the snapshot itself is known, the work for it belongs to its claim's volume, too.

Kinship is learned from what the program lists, watches and writes: the caches keep fewer fields, and no request is made
for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Final

from mooring.api.binding import claims_of
from mooring.api.core import (
    EVENTS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PersistentVolume,
    PersistentVolumeClaim,
)
from mooring.api.meta import Key
from mooring.api.pods import PODS, Pod
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS, VolumeSnapshot, VolumeSnapshotContent
from mooring.api.storage import VOLUME_ATTACHMENTS, VolumeAttachment
from mooring.api.volume_names import unique_name
from mooring.kube.cluster import Request

KNOWN_MAX: Final = 200_000
"""Objects that are remembered; the oldest are forgotten. Volumes whose names say their claims' uid need no place."""
VOLUMES_MAX: Final = 16
"""Volumes of one object, such as a pod, whose traces get a span each."""
_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

Place = tuple[str, str, str]
"""Plural, namespace, name."""
UNIQUE: Final = "volume"
"""Stands in a `Place` for a plural: the name is that of a volume in a Node's status."""

_PLURALS: Final[Mapping[str, str]] = {
    **{kind.name: kind.plural for kind in (PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, VOLUME_ATTACHMENTS)},
    **{kind.name: kind.plural for kind in (VOLUME_SNAPSHOTS, VOLUME_SNAPSHOT_CONTENTS)},
    "pod": PODS.plural,
    UNIQUE: UNIQUE,
}
"""Plurals by what controllers call their keys, and by the kind that an Event is about."""


def place_of(label: str, key: Hashable) -> Place | str:
    """The object of a controller's key: its place, its uid, or "" for what is no volume's. label: as the controller's
    log calls the key.
    """
    if isinstance(key, tuple) and key and isinstance(key[0], Key):
        key = key[0]  # with something beside it
    if label == UNIQUE and isinstance(key, tuple):
        key = key[0]  # on a node
    if label == "uid":
        return str(key)
    if label not in _PLURALS:
        return ""
    namespace, name = key if isinstance(key, Key) else ("", str(key))
    return _PLURALS[label], namespace, name


def place_asked(request: Request) -> Place | str:
    """The object that a request is about; of an Event, the object that it tells of."""
    if request.kind.plural != EVENTS.plural:
        return request.kind.plural, request.namespace, request.name
    about = request.body.get("involvedObject") if isinstance(request.body, Mapping) else None
    if not isinstance(about, Mapping):
        return ""
    return _PLURALS.get(about.get("kind") or "", ""), about.get("namespace") or "", about.get("name") or ""


class Kinship:
    def __init__(self) -> None:
        self._kin: dict[Place, tuple[Place | str, ...]] = {}

    def learn(self, obj: Any) -> None:
        """Learn which volumes an object belongs to. obj: from a list, a watch, or an answer."""
        if (kin_of := _KIN_OF.get(type(obj))) is not None:
            for place, kin in kin_of(obj):
                self._kin.pop(place, None)  # it becomes the newest
                self._kin[place] = kin
            while len(self._kin) > KNOWN_MAX:
                del self._kin[next(iter(self._kin))]

    def volumes(self, place: Place | str) -> tuple[str, ...]:
        """The uids of the volumes that the place belongs to."""
        found = dict.fromkeys(self._uids(place))
        return tuple(found)[:VOLUMES_MAX]

    def _uids(self, place: Place | str) -> Iterator[str]:
        if isinstance(place, str):
            yield from filter(None, (place,))
        elif (kin := self._kin.get(place)) is not None:
            for one in kin:
                yield from self._uids(one)
        elif place[0] == PERSISTENT_VOLUMES.plural:
            yield from filter(None, (_uid_in(place[2]),))


def _uid_in(name: str) -> str:
    """The uid that the name of a provisioned volume ends with, "" for none."""
    found = _UID.fullmatch(name[-36:])
    return "" if found is None else found[0]


Learned = Iterator[tuple[Place, tuple[Place | str, ...]]]


def _claim(claim: PersistentVolumeClaim) -> Learned:
    yield (PERSISTENT_VOLUME_CLAIMS.plural, claim.metadata.namespace, claim.metadata.name), (claim.metadata.uid,)


def _volume(pv: PersistentVolume) -> Learned:
    name, ref, csi = pv.metadata.name, pv.spec.claim_ref, pv.spec.csi
    uid = ref.uid if ref is not None and ref.uid else _uid_in(name) or pv.metadata.uid
    if uid != _uid_in(name):
        yield (PERSISTENT_VOLUMES.plural, "", name), (uid,)
    if csi is not None:
        yield (UNIQUE, "", unique_name(csi.driver, csi.volume_handle)), (uid,)


def _attachment(attachment: VolumeAttachment) -> Learned:
    volume = attachment.spec.source.persistent_volume_name
    kin: Place | str = (PERSISTENT_VOLUMES.plural, "", volume) if volume else attachment.metadata.uid
    yield (VOLUME_ATTACHMENTS.plural, "", attachment.metadata.name), (kin,)


def _pod(pod: Pod) -> Learned:
    claims = tuple((PERSISTENT_VOLUME_CLAIMS.plural, *key) for key in claims_of(pod))
    if claims:
        yield (PODS.plural, pod.metadata.namespace, pod.metadata.name), claims


def _snapshot(snapshot: VolumeSnapshot) -> Learned:
    namespace, claim = snapshot.metadata.namespace, snapshot.spec.source.persistent_volume_claim_name
    of_claim = ((PERSISTENT_VOLUME_CLAIMS.plural, namespace, claim),) if claim else ()
    yield (VOLUME_SNAPSHOTS.plural, namespace, snapshot.metadata.name), (snapshot.metadata.uid, *of_claim)


def _content(content: VolumeSnapshotContent) -> Learned:
    ref = content.spec.volume_snapshot_ref
    yield (
        (VOLUME_SNAPSHOT_CONTENTS.plural, "", content.metadata.name),
        (ref.uid or content.metadata.uid, (VOLUME_SNAPSHOTS.plural, ref.namespace, ref.name)),
    )


_KIN_OF: Final[Mapping[type, Callable[[Any], Learned]]] = {
    PersistentVolumeClaim: _claim,
    PersistentVolume: _volume,
    VolumeAttachment: _attachment,
    Pod: _pod,
    VolumeSnapshot: _snapshot,
    VolumeSnapshotContent: _content,
}
