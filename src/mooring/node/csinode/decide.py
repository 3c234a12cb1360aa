"""Decides what to write to Node and CSINode for a driver that comes or goes. Pure.

The annotation is for readers of old; CSINode is the truth. Labels are only ever added: never changed, never removed,
also not when the driver goes. An entry's node id and topology keys can't be changed in place: a driver that comes back
with others is taken off first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mooring.api.core import Node
from mooring.api.driver_versions import DRIVER_VERSIONS, versions_on, versions_text
from mooring.api.storage import CSINode, CSINodeDriver
from mooring.base.json_text import from_json
from mooring.control.decision import Decision
from mooring.kube.cluster import Patch
from mooring.kube.patch import json_patch, merge_patch, strategic_patch
from mooring.node.csinode import reasons as why
from mooring.node.drivers import DriverOnNode

NODE_IDS: Final = "csi.volume.kubernetes.io/nodeid"
MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"
MIGRATED_PLUGINS: Final = frozenset(
    f"kubernetes.io/{name}"
    for name in ("aws-ebs", "azure-disk", "azure-file", "cinder", "gce-pd", "portworx-volume", "vsphere-volume")
)
"""The in-tree plugins whose volumes go to CSI drivers in Kubernetes 1.36, all of them for good."""


Operations = tuple[dict[str, Any], ...]
"""A JSON patch."""


def decide_node(node: Node, coming: DriverOnNode) -> Decision[Patch]:
    """Enters the driver at the Node, unless all of it stands there. With a problem nothing is written."""
    ids = _node_ids(node)
    if not isinstance(ids, dict):
        return Decision(ids, problem=ids)
    labels = node.metadata.labels or {}
    for key, value in sorted(coming.topology.items()):
        if key in labels and labels[key] != value:
            collision = why.LabelCollision(node.metadata.name, key, value, labels[key])
            return Decision(collision, problem=collision)
    new_labels = {key: value for key, value in coming.topology.items() if key not in labels}
    metadata: dict[str, Any] = {"labels": new_labels} if new_labels else {}
    if ids.get(coming.driver) != coming.node_id:
        metadata["annotations"] = {NODE_IDS: _annotation({**ids, coming.driver: coming.node_id})}
    if not metadata:
        return Decision(why.Entered(coming.driver))
    return Decision(why.Enters(coming.driver), (strategic_patch({"metadata": metadata}, of=node),))


def decide_node_without(node: Node, driver: str) -> Decision[Patch]:
    """Takes the driver off the Node's annotation, if it is there."""
    ids = _node_ids(node)
    if not isinstance(ids, dict):
        return Decision(ids, problem=ids)
    if driver not in ids:
        return Decision(why.NotEntered(driver))
    del ids[driver]
    body = {"metadata": {"annotations": {NODE_IDS: _annotation(ids) if ids else None}}}
    return Decision(why.TakesOff(driver), (strategic_patch(body, of=node),))


def decide_csinode(csinode: CSINode, coming: DriverOnNode) -> Decision[Patch]:
    """The next patch on the way to the driver's entry in the CSINode; none when it stands there as it is now.

    One with another node id or other topology keys is taken off by the first patch and entered by the next.
    """
    drivers = csinode.spec.drivers or ()
    position, present = _find(drivers, coming.driver)
    note = _version_note(csinode, coming.driver, coming.version)
    enters = why.Enters(coming.driver)
    if present is None:
        return Decision(enters, (_patched(csinode, _append(drivers, coming), *note),))
    if not _is_alike(present, coming):
        return Decision(why.EntersAnew(coming.driver), (_patched(csinode, _take(position)),), again=True)
    count = present.allocatable.count if present.allocatable is not None else None
    if count == coming.count:
        return Decision(enters, (_patched(csinode, *note),)) if note else Decision(why.Entered(coming.driver))
    path = f"/spec/drivers/{position}/allocatable"
    if coming.count is None:
        return Decision(enters, (_patched(csinode, {"op": "remove", "path": path}, *note),))
    return Decision(enters, (_patched(csinode, {"op": "add", "path": path, "value": {"count": coming.count}}, *note),))


def decide_refresh(csinode: CSINode, coming: DriverOnNode) -> Decision[Patch]:
    """The next patch for a driver's new answer about its node: it changes the entry's limit and version. Only a
    registration makes an entry, or changes its node id and topology keys.
    """
    _, present = _find(csinode.spec.drivers or (), coming.driver)
    if present is None:
        lost = why.EntryLost(coming.driver)
        return Decision(lost, problem=lost)
    if not _is_alike(present, coming):
        keys = tuple(sorted(present.topology_keys or ()))
        otherwise = why.AnswersOtherwise(
            coming.driver, present.node_id, keys, coming.node_id, tuple(sorted(coming.topology))
        )
        return Decision(otherwise, problem=otherwise)
    return decide_csinode(csinode, coming)


def decide_csinode_without(csinode: CSINode, driver: str) -> Decision[Patch]:
    """Takes the driver off the CSINode, if it is there. The object stays, also without any driver."""
    position, present = _find(csinode.spec.drivers or (), driver)
    if present is None:
        return Decision(why.NotEntered(driver))
    return Decision(why.TakesOff(driver), (_patched(csinode, _take(position), *_version_note(csinode, driver, "")),))


def decide_migrated(csinode: CSINode) -> Decision[Patch]:
    """Writes the annotation that names migrated plugins, unless it names them all in whatever order."""
    named = (csinode.metadata.annotations or {}).get(MIGRATED, "")
    if set(filter(None, named.split(","))) == MIGRATED_PLUGINS:
        return Decision(why.MigratedNamed())
    body = {
        "metadata": {"annotations": {MIGRATED: migrated_text()}, "resourceVersion": csinode.metadata.resource_version}
    }
    return Decision(why.MigratedUnnamed(), (merge_patch(body, of=csinode),))


def migrated_text() -> str:
    return ",".join(sorted(MIGRATED_PLUGINS))


def new_csinode(node: Node) -> dict[str, Any]:
    """The CSINode of a Node that has none, without drivers."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {
            "name": node.metadata.name,
            "annotations": {MIGRATED: migrated_text()},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": node.metadata.name, "uid": node.metadata.uid}
            ],
        },
        "spec": {"drivers": []},
    }


def is_of(csinode: CSINode, node: Node) -> bool:
    """True when the CSINode is this very Node's, and not that of one that had its name before."""
    return any(
        owner.kind == "Node" and owner.name == node.metadata.name and owner.uid == node.metadata.uid
        for owner in csinode.metadata.owner_references or ()
    )


def _node_ids(node: Node) -> dict[str, str] | why.BadAnnotation:
    text = (node.metadata.annotations or {}).get(NODE_IDS, "")
    if not text:
        return {}
    try:
        found = from_json(text)
    except ValueError as error:
        return why.BadAnnotation(NODE_IDS, f"({error})")
    if not isinstance(found, dict):
        return why.BadAnnotation(NODE_IDS, "object")
    return {str(driver): str(node_id) for driver, node_id in found.items()}


def _annotation(ids: Mapping[str, str]) -> str:
    return json.dumps(ids, sort_keys=True, separators=(",", ":"))


def _find(drivers: Sequence[CSINodeDriver], name: str) -> tuple[int, CSINodeDriver | None]:
    return next(((position, driver) for position, driver in enumerate(drivers) if driver.name == name), (-1, None))


def _append(drivers: Sequence[CSINodeDriver], coming: DriverOnNode) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": coming.driver,
        "nodeID": coming.node_id,
        "topologyKeys": sorted(coming.topology) or None,
    }
    if coming.count is not None:
        entry["allocatable"] = {"count": coming.count}
    if drivers:
        return {"op": "add", "path": "/spec/drivers/-", "value": entry}
    return {"op": "add", "path": "/spec/drivers", "value": [entry]}


def _version_note(csinode: CSINode, driver: str, version: str | None) -> Operations:
    """The operations that note the driver's version, () where the CSINode has it. version: "" for none, None to leave
    the note as it is.
    """
    noted = versions_on(csinode)
    wanted = noted if version is None else {name: one for name, one in {**noted, driver: version}.items() if one}
    if wanted == noted:
        return ()
    path = f"/metadata/annotations/{DRIVER_VERSIONS.replace('/', '~1')}"
    if not wanted:
        return ({"op": "remove", "path": path},)
    if not csinode.metadata.annotations:
        return ({"op": "add", "path": "/metadata/annotations", "value": {DRIVER_VERSIONS: versions_text(wanted)}},)
    return ({"op": "add", "path": path, "value": versions_text(wanted)},)


def _take(position: int) -> dict[str, Any]:
    return {"op": "remove", "path": f"/spec/drivers/{position}"}


def _is_alike(present: CSINodeDriver, coming: DriverOnNode) -> bool:
    """True for an entry of the node that the driver's answer is about."""
    return present.node_id == coming.node_id and set(present.topology_keys or ()) == set(coming.topology)


def _patched(csinode: CSINode, *operations: dict[str, Any]) -> Patch:
    """The patch of this very version: another writer's entry is not lost."""
    return json_patch(
        ({"op": "test", "path": "/metadata/resourceVersion", "value": csinode.metadata.resource_version}, *operations)
    )
