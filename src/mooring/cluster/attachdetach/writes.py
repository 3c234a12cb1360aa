"""The bodies that are written: attachments, and the report in a Node's status."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.api.core import Node, PersistentVolumeSpec
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.cluster.attachdetach.decide_report import Report
from mooring.cluster.attachdetach.identity import WAITED
from mooring.cluster.attachdetach.waited import written_on
from mooring.kube.cluster import Patch
from mooring.kube.patch import merge_patch


def source_body(pv_name: str, inline: PersistentVolumeSpec | None) -> dict[str, Any]:
    """An attachment's source. inline: the spec of a volume that a pod itself defines; None for a PersistentVolume."""
    return {"persistentVolumeName": pv_name} if inline is None else {"inlineVolumeSpec": msgspec.to_builtins(inline)}


def attachment_body(name: str, driver: str, node: str, source: dict[str, Any], held_as: tuple[str, str] | None) -> dict[str, Any]:
    """held_as: the finalizer of the driver's attacher, and the node's id, where that attacher is part of this process."""
    metadata: dict[str, Any] = {"name": name}
    if held_as is not None:
        finalizer, node_id = held_as
        metadata |= {"finalizers": [finalizer], "annotations": {NODE_ID_ANNOTATION: node_id}}
    spec = {"attacher": driver, "nodeName": node, "source": source}
    return {"apiVersion": VOLUME_ATTACHMENTS.api_version, "kind": VOLUME_ATTACHMENTS.name, "metadata": metadata, "spec": spec}


NODE_ID_ANNOTATION = "csi.alpha.kubernetes.io/node-id"


def report_patch(node: Node, report: Report, waited: str) -> Patch:
    """The whole list, since it is replaced as a whole; refused where another Node has taken the name. waited: as of `waited.note_of`."""
    listed = [{"name": one.name, "devicePath": one.device_path} for one in report]
    noted = {} if waited == written_on(node) else {"annotations": {WAITED: waited or None}}
    return merge_patch({"metadata": noted, "status": {"volumesAttached": listed or None}}, of=node)
