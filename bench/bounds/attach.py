"""A pod's requests until its volume stands in its node's `volumesAttached`: pod, attachment, volume, node, one
event.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.bounds.requests import (
    DRIVER,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Chain,
    Request,
    event,
    patch,
    path_of,
    post,
    same,
    uid_of,
)
from bench.podload import a_claim, a_node, a_pod, a_volume, unique
from mooring.api.volume_names import attachment_name

NODE_COUNT = 10
PODS_PER_NODE_WRITE = {"Go": 4, "Mooring": 2}
"""With 500 pods at once, as bench/RESULTS.md has them: 0.27 and 0.49 writes per pod."""

_FINALIZER = "external-attacher/bench-mooring-dev"


def attach(side: str, tag: str, number: int, *, alone: bool) -> Chain:
    """alone: with a write of the node for the pod alone, as with pods that come one by one."""
    return tuple(_attach(side == "Go", tag, number, 1 if alone else PODS_PER_NODE_WRITE[side]))


def _attach(go: bool, tag: str, number: int, pods_per_write: int) -> Iterator[Request]:
    name, node = f"{tag}-{number}", f"{tag}-node{number % NODE_COUNT}"
    if number < NODE_COUNT:
        yield post("Node", a_node(node), stage="prepare")
    yield post("PersistentVolumeClaim", a_claim(name), stage="prepare")
    yield post("PersistentVolume", a_volume(name, DRIVER, uid_of(name)), stage="prepare", keeps="pv")
    yield post("Pod", a_pod(name, node), stage="load", shows=name)
    va = attachment_name(DRIVER, name, node)
    spec = {"attacher": DRIVER, "nodeName": node, "source": {"persistentVolumeName": name}}
    yield post("VolumeAttachment", {"metadata": {"name": va}, "spec": spec}, go=go, keeps="" if go else "va", shows=va)
    finalizer = {"op": "add", "path": "/metadata/finalizers/-", "value": _FINALIZER}
    yield patch(path_of("PersistentVolume", name), [finalizer] if go else [*same("pv"), finalizer], JSON_PATCH, go=go)
    meta = {
        "annotations": {"csi.alpha.kubernetes.io/node-id": "n"},
        "finalizers": [_FINALIZER],
        **({} if go else {"uid": "@va.uid@"}),
    }
    yield patch(path_of("VolumeAttachment", va), {"metadata": meta}, MERGE_PATCH, go=go)
    attached = {"status": {"attached": True}, **({} if go else {"metadata": {"uid": "@va.uid@"}})}
    at = number // NODE_COUNT
    reports = at % pods_per_write == pods_per_write - 1
    yield patch(path_of("VolumeAttachment", va, "status"), attached, MERGE_PATCH, go=go, ends=not reports)
    if reports:
        there = (unique(DRIVER, f"{tag}-{other}") for other in range(number % NODE_COUNT, number + 1, NODE_COUNT))
        listed = {"status": {"volumesAttached": [{"name": one, "devicePath": ""} for one in there]}}
        form = STRATEGIC_PATCH if go else MERGE_PATCH
        yield patch(
            path_of("Node", node, "status"), listed, form, go=go, ends=True, shows=unique(DRIVER, name), serial=node
        )
    text = f'AttachVolume.Attach succeeded for volume "{name}" '
    yield event("Pod", name, 0, "SuccessfulAttachVolume", text, "attachdetach-controller", go=go)
