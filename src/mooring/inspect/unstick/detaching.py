"""Letting the driver detach a volume whose attacher is dead: ControllerUnpublishVolume, as that attacher would call it.

CSI wants OK for a volume that is published nowhere, too, and one call about a volume at a time. So success proves what
a list does not: an attach that was under way when the attacher died is over.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mooring.api.core import SECRETS, PersistentVolume, SecretReference
from mooring.api.meta import annotation, is_deleting
from mooring.api.migration import UNSPECIFIED
from mooring.api.storage import VolumeAttachment
from mooring.control.secrets import secret_values
from mooring.csi.driver import Call
from mooring.csi.proto import csi_pb2 as csi
from mooring.inspect.traces import finalizer_of, handle_of
from mooring.inspect.unstick.driver_word import RPC, Witness
from mooring.inspect.unstick.facts import DriverWord, Facts
from mooring.inspect.unstick.table import Verdict, verdicts
from mooring.kube.cluster import Cluster
from mooring.sidecars.attacher.view import NODE_ID_ANNOTATION


class Detach(msgspec.Struct, frozen=True):
    """One ControllerUnpublishVolume. node: its name. secret: None for none. then: the verdicts after its success, by
    the facts of the look before it.
    """

    handle: str
    node: str
    node_id: str
    secret: SecretReference | None
    then: tuple[Verdict, ...]

    def word(self, driver: str) -> DriverWord:
        """The driver's word after its success."""
        return DriverWord(driver, published_on=frozenset(), detached_from=self.node_id)


def detach_of(facts: Facts, witness: Witness) -> Detach | str:
    """The call that would free the attachment, or why there is none; "" where none is needed."""
    one, traces = facts.obj, facts.traces
    if not isinstance(one, VolumeAttachment) or traces is None:
        return "--detach is for a VolumeAttachment"
    ours = [verdict for verdict in verdicts(facts) if verdict.finalizer == finalizer_of(facts.driver)]
    if not is_deleting(one) or all(verdict.may_go for verdict in ours):
        return ""
    if witness.info.name != facts.driver:
        return f"the driver at --csi-address is {witness.info.name}, and the volume is {facts.driver}'s"
    if RPC.PUBLISH_UNPUBLISH_VOLUME not in witness.info.controller:
        return f"the driver {facts.driver} detaches no volumes (PUBLISH_UNPUBLISH_VOLUME)"
    handle, node = handle_of(one, traces.volumes), one.spec.node_name
    node_id = annotation(one, NODE_ID_ANNOTATION) or facts.node_ids.get(node, "")
    if not handle or UNSPECIFIED in handle.split("/"):
        return "nobody knows the volume's handle"
    if not node_id:
        return f"nobody knows the driver's id of node {node}"
    for other in traces.attachments:
        same = other.metadata.uid != one.metadata.uid and other.spec.node_name == node and not is_deleting(other)
        if same and handle_of(other, traces.volumes) == handle:
            return f"VolumeAttachment {other.metadata.name} wants the volume on the same node"
    detach = Detach(handle, node, node_id, _secret_of(one, traces.volumes), ())
    then = verdicts(msgspec.structs.replace(facts, word=detach.word(facts.driver)))
    return msgspec.structs.replace(detach, then=then)


def _secret_of(one: VolumeAttachment, volumes: Mapping[str, PersistentVolume]) -> SecretReference | None:
    inline = one.spec.source.inline_volume_spec
    if inline is not None:
        return inline.csi.controller_publish_secret_ref if inline.csi else None
    pv = volumes.get(one.spec.source.persistent_volume_name or "")
    return pv.spec.csi.controller_publish_secret_ref if pv is not None and pv.spec.csi else None


async def detached(detach: Detach, cluster: Cluster, witness: Witness) -> DriverWord:
    """Raises DriverError, and ApiError or SecretError for a Secret that can't be read."""
    ref = detach.secret
    secrets = secret_values(await cluster.get(SECRETS, ref.name, ref.namespace)) if ref is not None else {}
    request = csi.ControllerUnpublishVolumeRequest(volume_id=detach.handle, node_id=detach.node_id, secrets=secrets)
    await witness.driver.controller_unpublish_volume(request, Call(witness.timeout_s))
    return detach.word(witness.info.name)
