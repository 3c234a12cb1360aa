"""The links of a pod: its place, its claims, their attachments, its mounts."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from mooring.api.binding import claims_of, is_finished
from mooring.api.meta import Key
from mooring.api.migration import driver_and_handle
from mooring.api.nodes import is_ready
from mooring.api.pods import Pod, unused_text
from mooring.base.clock import seconds_of
from mooring.inspect.scene import Scene
from mooring.inspect.why.chain import Link, Mover, State
from mooring.inspect.why.claims import claim_link
from mooring.inspect.why.diagnosis import diagnosed, failed_link
from mooring.inspect.why.nodes import silent_node_link
from mooring.inspect.why.place import scheduling_link
from mooring.inspect.why.pod_attach import attach_link

MOUNT_EVENTS: Final = ("FailedMount", "FailedMapVolume", "FailedAttachVolume", "VolumeFailedMount")
_UNMOUNTS: Final = re.compile("TearDown|Unmount|Unmap")
_TRIES_AGAIN: Final = "the kubelet tries again by itself, at most two minutes after the last try"


def pod_links(scene: Scene, pod: Pod) -> tuple[Link, ...]:
    """The links from the scheduler to the mounts, in the order in which they can be done."""
    claims = [_with_quota(scene, pod, claim_link(scene, key)) for key in claims_of(pod)]
    placed = scheduling_link(scene, pod)
    if is_finished(pod) or not pod.spec.node_name:
        early = [
            link for link in claims if link.who != "the scheduler"
        ]  # a claim that waits for the pod's place comes after it
        return (*early, placed, *(link for link in claims if link not in early))
    attached = [link for key in claims_of(pod) if (link := attach_link(scene, pod, key))]
    before = [placed, *claims, *attached]
    return (*before, mount_link(scene, pod, is_due=all(link.state is State.DONE for link in before)))


def _with_quota(scene: Scene, pod: Pod, link: Link) -> Link:
    """The link, with the quota's refusal to whoever makes the missing claim: a controller of the pod, or of volumes."""
    if link.state is not State.FAILED or "does not exist" not in link.text:
        return link
    owner = next((one for one in pod.metadata.owner_references or () if one.controller), None)
    told_owner = scene.events_of(owner.uid, "FailedCreate") if owner else ()
    refused = next((one for one in (*scene.events(pod, "FailedBinding"), *told_owner) if "quota" in one.message), None)
    if refused is None:
        return link
    told = diagnosed(refused.message, driver="", namespace=pod.metadata.namespace, program="", scene=scene)
    told = msgspec.structs.replace(told, cause=f"{link.text}: {told.cause}")
    return failed_link(link.name, told, "", refused.first_s, refused.message, "")


# -- the mounts


def mount_link(scene: Scene, pod: Pod, *, is_due: bool) -> Link:
    """is_due: everything before it is done. The kubelet's, for all volumes of the pod."""
    step, node = "mount", pod.spec.node_name
    known = scene.nodes.get(Key("", node))
    if _has_run(pod):
        if known is not None and not is_ready(known) and not is_finished(pod):
            text = f"node {node} does not report: nobody can say whether its containers, which had started, still run"
            return silent_node_link(scene, step, node, text)
        return Link(step, State.DONE, f"its containers have started{_mounted(pod)}")
    since_s = seconds_of(pod.status.start_time or pod.metadata.creation_timestamp)
    if not is_due:
        return Link(
            step, State.WAITING, "comes after the links before", Mover.CLUSTER, f"the kubelet of node {node}", since_s
        )
    if known is not None and not is_ready(known):
        return silent_node_link(scene, step, node, f"node {node} does not report: nothing is mounted there")
    missing = _unregistered(scene, pod)
    failed = next(iter(scene.events(pod, *MOUNT_EVENTS)), None)
    if failed is None and missing is None:
        return Link(
            step, State.WAITING, "the kubelet mounts the volumes", Mover.CLUSTER, f"the kubelet of node {node}", since_s
        )
    error = (
        failed.message
        if failed is not None
        else f"driver name {missing} not found in the list of registered CSI drivers"
    )
    driver = missing or next(iter(_drivers(scene, pod)), "")
    told = diagnosed(error, driver=driver, namespace=pod.metadata.namespace, program="kubelet", scene=scene)
    first_s = failed.first_s if failed is not None else since_s
    return failed_link(step, told, f"the kubelet of node {node} can't mount it", first_s, error, _TRIES_AGAIN)


def _mounted(pod: Pod) -> str:
    """The text on the pod's volumes, by the start of its containers."""
    unused = pod.spec.unused_claims
    return "".join(f"; {unused_text(name)}" for name in unused) if unused else ", so all its volumes are mounted"


def _has_run(pod: Pod) -> bool:
    states = [*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())]
    return is_finished(pod) or any(one.state.running or one.state.terminated for one in states)


def _drivers(scene: Scene, pod: Pod) -> list[str]:
    claims = [scene.claims.get(key) for key in claims_of(pod)]
    volumes = [
        scene.volumes.get(Key("", one.spec.volume_name)) for one in claims if one is not None and one.spec.volume_name
    ]
    return [driver for pv in volumes if pv is not None and (driver := driver_and_handle(pv)[0])]


def _unregistered(scene: Scene, pod: Pod) -> str | None:
    """A driver of the pod's volumes that its node does not have; None where all are there, or that can't be known."""
    csi_node = scene.csi_nodes.get(Key("", pod.spec.node_name))
    if csi_node is None:
        return None
    there = {one.name for one in csi_node.spec.drivers or ()}
    return next((driver for driver in _drivers(scene, pod) if driver not in there), None)


# -- the end


def end_link(scene: Scene, pod: Pod) -> Link:
    """The link of a pod that is being deleted: its node ends its containers and its mounts."""
    step, node, meta = "end", pod.spec.node_name, pod.metadata
    since_s = seconds_of(meta.deletion_timestamp) - (
        meta.deletion_grace_period_seconds or 0
    )  # the server adds the grace period to the time
    known = scene.nodes.get(Key("", node))
    if known is not None and not is_ready(known):
        text = f"node {node} does not report, so nobody can say that its containers have ended"
        return silent_node_link(scene, step, node, text, since_s)
    failed = next((one for one in scene.events(pod, *MOUNT_EVENTS) if _UNMOUNTS.search(one.message)), None)
    if failed is None:
        return Link(
            step,
            State.WAITING,
            "its containers end, its volumes are unmounted",
            Mover.CLUSTER,
            f"the kubelet of node {node}",
            since_s,
        )
    driver = next(iter(_drivers(scene, pod)), "")
    told = diagnosed(failed.message, driver=driver, namespace=meta.namespace, program="kubelet", scene=scene)
    text = f"the kubelet of node {node} can't unmount a volume of it"
    return failed_link(step, told, text, failed.first_s, failed.message, _TRIES_AGAIN)
