"""Decides what to write to Node and CSINode for a driver that comes or goes. Pure: objects in, patches out.

The annotation is for readers of old; CSINode is the truth. Labels are only ever added: never changed, never removed, also not when the
driver goes. An entry's node id and topology keys can't be changed in place: a driver that comes back with others is taken off first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mooring.api.core import Node
from mooring.api.driver_versions import DRIVER_VERSIONS, versions_on, versions_text
from mooring.api.storage import CSINode, CSINodeDriver
from mooring.base.errors import MooringError
from mooring.node.drivers import DriverOnNode

NODE_IDS: Final = "csi.volume.kubernetes.io/nodeid"
MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"
MIGRATED_PLUGINS: Final = frozenset(
    f"kubernetes.io/{name}" for name in ("aws-ebs", "azure-disk", "azure-file", "cinder", "gce-pd", "portworx-volume", "vsphere-volume")
)
"""Whose volumes go to CSI drivers in Kubernetes 1.36, all of them for good."""


class Refused(MooringError):
    """The driver's data can't be written to the Node or the CSINode."""


Operations = tuple[dict[str, Any], ...]
"""A JSON patch."""


def decide_node(node: Node, coming: DriverOnNode) -> dict[str, Any] | None:
    """The merge patch that enters the driver at the Node, None when all of it stands there. Raises Refused, and then nothing is written."""
    ids = _node_ids(node)
    labels = node.metadata.labels or {}
    for key, value in sorted(coming.topology.items()):
        if key in labels and labels[key] != value:
            raise Refused(
                f"detected topology value collision: driver reported {key!r}:{value!r} but existing label is {key!r}:{labels[key]!r}; "
                f"remove the label (kubectl label node {node.metadata.name} {key}-), or mend what the driver reports"
            )
    new_labels = {key: value for key, value in coming.topology.items() if key not in labels}
    metadata: dict[str, Any] = {"labels": new_labels} if new_labels else {}
    if ids.get(coming.driver) != coming.node_id:
        metadata["annotations"] = {NODE_IDS: _annotation({**ids, coming.driver: coming.node_id})}
    return {"metadata": metadata} if metadata else None


def decide_node_without(node: Node, driver: str) -> dict[str, Any] | None:
    """The merge patch that takes the driver off the Node's annotation, None when it is not there. Raises Refused."""
    ids = _node_ids(node)
    if driver not in ids:
        return None
    del ids[driver]
    return {"metadata": {"annotations": {NODE_IDS: _annotation(ids) if ids else None}}}


def decide_csinode(csinode: CSINode, coming: DriverOnNode) -> Operations:
    """The next JSON patch on the way to the driver's entry in the CSINode; () when it stands there as it is now.

    One with another node id or other topology keys is taken off by the first patch and entered by the next.
    """
    drivers = csinode.spec.drivers or ()
    position, present = _find(drivers, coming.driver)
    note = _version_note(csinode, coming.driver, coming.version)
    if present is None:
        return (_version(csinode), _append(drivers, coming), *note)
    if present.node_id != coming.node_id or set(present.topology_keys or ()) != set(coming.topology):
        return (_version(csinode), _take(position))
    count = present.allocatable.count if present.allocatable is not None else None
    if count == coming.count:
        return (_version(csinode), *note) if note else ()
    path = f"/spec/drivers/{position}/allocatable"
    if coming.count is None:
        return (_version(csinode), {"op": "remove", "path": path}, *note)
    return (_version(csinode), {"op": "add", "path": path, "value": {"count": coming.count}}, *note)


def check_refresh(csinode: CSINode, coming: DriverOnNode) -> None:
    """Raises Refused for an answer about another node than the driver's entry, or where it is missing: a registration alone enters it."""
    _, present = _find(csinode.spec.drivers or (), coming.driver)
    if present is None:
        raise Refused(f"the driver {coming.driver} has no entry in CSINode; it is entered again soon, as it was registered")
    if (present.node_id, set(present.topology_keys or ())) != (coming.node_id, set(coming.topology)):
        raise Refused(
            f"the driver {coming.driver} is registered with node id {present.node_id!r} and topology keys "
            f"{sorted(present.topology_keys or ())}, and now gives {coming.node_id!r} and {sorted(coming.topology)}; "
            "restart its registrar, so that it is registered anew"
        )


def decide_csinode_without(csinode: CSINode, driver: str) -> Operations:
    """The JSON patch that takes the driver off the CSINode, () when it is not there. The object stays, also without any driver."""
    position, present = _find(csinode.spec.drivers or (), driver)
    return () if present is None else (_version(csinode), _take(position), *_version_note(csinode, driver, ""))


def decide_migrated(csinode: CSINode) -> dict[str, Any] | None:
    """The merge patch of the annotation that names migrated plugins, None when it names them all in whatever order."""
    named = (csinode.metadata.annotations or {}).get(MIGRATED, "")
    if set(filter(None, named.split(","))) == MIGRATED_PLUGINS:
        return None
    return {"metadata": {"annotations": {MIGRATED: migrated_text()}, "resourceVersion": csinode.metadata.resource_version}}


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
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node.metadata.name, "uid": node.metadata.uid}],
        },
        "spec": {"drivers": []},
    }


def is_of(csinode: CSINode, node: Node) -> bool:
    """True when the CSINode is this very Node's, and not that of one that had its name before."""
    return any(
        owner.kind == "Node" and owner.name == node.metadata.name and owner.uid == node.metadata.uid
        for owner in csinode.metadata.owner_references or ()
    )


def _node_ids(node: Node) -> dict[str, str]:
    text = (node.metadata.annotations or {}).get(NODE_IDS, "")
    if not text:
        return {}
    try:
        found = json.loads(text)
    except ValueError as error:
        raise Refused(f"the Node's annotation {NODE_IDS} is no JSON ({error}): remove or mend it by hand") from None
    if not isinstance(found, dict):
        raise Refused(f"the Node's annotation {NODE_IDS} is no JSON object: remove or mend it by hand")
    return {str(driver): str(node_id) for driver, node_id in found.items()}


def _annotation(ids: Mapping[str, str]) -> str:
    return json.dumps(ids, sort_keys=True, separators=(",", ":"))


def _find(drivers: Sequence[CSINodeDriver], name: str) -> tuple[int, CSINodeDriver | None]:
    return next(((position, driver) for position, driver in enumerate(drivers) if driver.name == name), (-1, None))


def _append(drivers: Sequence[CSINodeDriver], coming: DriverOnNode) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": coming.driver, "nodeID": coming.node_id, "topologyKeys": sorted(coming.topology) or None}
    if coming.count is not None:
        entry["allocatable"] = {"count": coming.count}
    if drivers:
        return {"op": "add", "path": "/spec/drivers/-", "value": entry}
    return {"op": "add", "path": "/spec/drivers", "value": [entry]}


def _version_note(csinode: CSINode, driver: str, version: str | None) -> Operations:
    """What notes the driver's version, () where it stands there. version: "" for none, None to leave the note as it is."""
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


def _version(csinode: CSINode) -> dict[str, Any]:
    return {"op": "test", "path": "/metadata/resourceVersion", "value": csinode.metadata.resource_version}
