"""Intents: volumes that are about to be created, stored before the driver is called, so that no volume is ever lost.

An intent is open from before CreateVolume until its volume is stored as a PersistentVolume, or surely does not exist.
"""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from mooring.api.core import ObjectReference, SecretReference
from mooring.sidecars.provisioner.model.cached import CLAIM_KIND, Source

STILL_OPEN: Final = (
    "the volume's creation is not over yet: it is once the CSI driver has said for sure whether there is a volume"
)


class Intent(msgspec.Struct, frozen=True):
    """Everything that is needed to repeat a call and to make the volume's object, even if the claim and its class are gone.

    uid: of the claim, the intent's key. request: the CreateVolumeRequest without secrets, JSON text as protobuf has it.
    volume: the PersistentVolume as far as it is known before the answer, JSON text. node_name: the selected node, "" for none.
    migrated: the class is an in-tree one. class_name, source_kind: for metrics. source: of the volume's data, to be held.
    places_omitted: of many places the request names the preferred one alone.
    unattended: it was found after so long a time that somebody else may have made the volume, and kept it on purpose.
    stored_handle: of the volume that the claim has from another request, "" once that is deleted; None while it has none. A volume
    that this request made is a second one. dying_handle: of a volume whose deletion was begun for want of any use, "" for none.
    unknown_requests: former requests of the claim, the oldest first, which may have made the volume. They have none themselves.
    """

    uid: str
    namespace: str
    claim_name: str
    volume_name: str
    request: str
    volume: str
    secret: SecretReference | None = None
    node_name: str = ""
    migrated: bool = False
    class_name: str = ""
    source_kind: str = ""
    source: Source | None = None
    places_omitted: bool = False
    unattended: bool = False
    stored_handle: str | None = None
    dying_handle: str = ""
    unknown_requests: tuple[Intent, ...] = msgspec.field(name="doubts", default=())
    """Stored under the name that journals have had from the beginning."""

    @property
    def claim_reference(self) -> ObjectReference:
        """Its claim, for events; it may be gone."""
        return ObjectReference("v1", CLAIM_KIND, self.namespace, self.claim_name, self.uid, "")


class IntentEnds(Protocol):
    """The ends of intents, for callers that release a PersistentVolume. By the claim's uid."""

    async def wait_for_end(self, uid: str) -> None:
        """Returns once the end of the claim's intent is durable. Raises ApiError, Conflict while it is open."""
        ...

    async def forget_stored(self, uid: str) -> None:
        """The volume that the claim had is deleted: one of its handle would be another one. Raises ApiError."""
        ...
