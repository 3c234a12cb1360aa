"""The CSI request that a node's agent would send for a volume, built by the agent's own functions on objects that are read for it.

What only a running agent knows is not here: what is mounted on the node, and the tokens of service accounts, which are left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Final

import msgspec

from mooring.api.core import PersistentVolume
from mooring.api.meta import Key, key_of
from mooring.api.pods import PODS, Pod
from mooring.api.storage import CSI_DRIVERS, VOLUME_ATTACHMENTS, CSIDriverSpec
from mooring.api.volume_names import attachment_name
from mooring.csi.proto import csi_pb2 as csi
from mooring.inspect.built import Built, NoRequest, Objects, not_now
from mooring.kube.cluster import Selection
from mooring.kube.list_all import list_all
from mooring.node.drivers import Drivers
from mooring.node.layout import KubeletLayout
from mooring.node.options import ROOT
from mooring.node.volumes.pods.selinux import default_context
from mooring.node.volumes.pods.wishes import Wishes, as_csi, claims_of
from mooring.node.volumes.state.actual import is_attachable, is_leaving
from mooring.node.volumes.state.desired import PodUse, Volume, of_persistent_volume
from mooring.node.volumes.steps.requests import (
    DEFAULT_ACCOUNT,
    EXPANDS,
    MOUNT_GROUP,
    STAGES,
    STATS,
    TOKENS,
    VolumeRequests,
    injected,
    unsupported_mode,
    wanted_tokens,
)
from mooring.node.volumes.steps.tools import noted_in, why_not_attached

_NOBODY: Final = PodUse("", "", "", "")


class Where(msgspec.Struct, frozen=True):
    """node: by the Node's name. pod: one in the claim's namespace. root: the root folder of the node's agent."""

    node: str = ""
    pod: str = ""
    root: Path = Path(ROOT)


NOWHERE: Final = Where()


class NodeRequests:
    """To the node service of one driver. able: that service's capabilities. Methods raise NoRequest, ApiError, SecretError."""

    def __init__(self, objects: Objects, driver: str, able: Collection[int]) -> None:
        self._objects, self._driver, self._able = objects, driver, frozenset(able)

    async def stage(self, pv: PersistentVolume, where: Where) -> Built:
        self._check_able(STAGES, "NodeStageVolume")
        pod = await self._pod(pv, where) if where.pod else None
        spec, notes = await self._spec(), self._of_pod(pod, where)
        if pod is not None:
            volume, use = await self._wish(pod, pv, spec)
        else:
            volume, use = of_persistent_volume(as_csi(pv)), _NOBODY
            if not volume.is_block and (MOUNT_GROUP in self._able or spec.se_linux_mount):
                notes += (
                    "left out: fsGroup and SELinux label of the node's first pod with the volume; name one with --pod",
                )
        context, missing = await self._context(volume, spec, _node_of(pod, where))
        secrets = await self._objects.secret(volume.stage_secret)
        return Built(self._about(volume, where, context).stage(use, secrets), (*notes, *missing))

    async def unstage(self, pv: PersistentVolume, where: Where) -> Built:
        self._check_able(STAGES, "NodeUnstageVolume")
        about = self._about(of_persistent_volume(as_csi(pv)), where)
        return Built(about.unstage(), not_now(await self._users(pv, where.node)))

    async def publish(self, pv: PersistentVolume, where: Where) -> Built:
        pod, spec = await self._pod(pv, where), await self._spec()
        volume, use = await self._wish(pod, pv, spec)
        if not volume.is_block and (problem := unsupported_mode(volume, spec.volume_lifecycle_modes)):
            raise NoRequest(problem)
        context, missing = await self._context(volume, spec, _node_of(pod, where))
        secrets = await self._objects.secret(volume.publish_secret)
        request = self._about(volume, where, context).publish(use, secrets, injected(spec, volume, use, ""))
        return Built(request, (*self._of_pod(pod, where), *missing, *_left_out(spec, volume, use)))

    async def unpublish(self, pv: PersistentVolume, where: Where) -> Built:
        pod = await self._user(pv, where)
        about = self._about(of_persistent_volume(as_csi(pv)), where)
        stays = "" if is_leaving(pod) else f"Pod {key_of(pod)} lives, and keeps its volume"
        return Built(about.unpublish(pod.metadata.uid, pv.metadata.name), not_now(stays))

    async def expand(self, pv: PersistentVolume, where: Where) -> Built:
        self._check_able(EXPANDS, "NodeExpandVolume")
        pod = await self._pod(pv, where)
        volume, use = await self._wish(pod, pv, await self._spec())
        growth = volume.growth
        size_bytes = growth.size_bytes if growth is not None else volume.size_bytes
        reason = ""
        if growth is None:
            reason = "the claim waits for no growth on its node"
        elif growth.is_written:
            reason = "the claim has its size; only a node on which the volume is smaller sends it"
        reads = f"Pod {key_of(pod)} only reads the volume" if use.read_only else ""
        secrets = await self._objects.secret(volume.expand_secret)
        request = self._about(volume, where).expand(use.uid, use.spec_name, size_bytes, secrets)
        return Built(request, (*not_now(reason, reads), *self._of_pod(pod, where)))

    async def stats(self, pv: PersistentVolume, where: Where) -> Built:
        self._check_able(STATS, "NodeGetVolumeStats")
        pod = await self._user(pv, where)
        about = self._about(of_persistent_volume(as_csi(pv)), where)
        return Built(about.stats(pod.metadata.uid, pv.metadata.name), self._of_pod(pod, where))

    # -- the parts

    def _check_able(self, capability: int, rpc: str) -> None:
        if capability not in self._able:
            name = csi.NodeServiceCapability.RPC.Type.Name(csi.NodeServiceCapability.RPC.Type.ValueType(capability))
            raise NoRequest(f"nobody sends {rpc} to {self._driver}: its NodeGetCapabilities does not name {name}")

    def _about(self, volume: Volume, where: Where, context: Mapping[str, str] | None = None) -> VolumeRequests:
        return VolumeRequests(KubeletLayout(where.root), volume, self._able, context or {})

    async def _spec(self) -> CSIDriverSpec:
        found = await self._objects.find(CSI_DRIVERS, self._driver)
        return found.spec if found is not None else CSIDriverSpec()

    async def _pod(self, pv: PersistentVolume, where: Where) -> Pod:
        if not where.pod:
            raise NoRequest("the call is about a pod's folder: give --pod, with the name of a Pod that uses the claim")
        ref = pv.spec.claim_ref
        if ref is None:
            raise NoRequest(f"PersistentVolume {pv.metadata.name} has no claim, so that no pod uses it")
        pod = await self._objects.find(PODS, where.pod, ref.namespace)
        if pod is None:
            handle = of_persistent_volume(as_csi(pv)).handle
            raise NoRequest(
                f"there is no Pod {ref.namespace}/{where.pod}; of one that is gone, give the fields as words: volume_id={handle}, "
                f"and its folder below {where.root}/pods, which has the Pod's uid"
            )
        if where.node and pod.spec.node_name and pod.spec.node_name != where.node:
            raise NoRequest(f"Pod {key_of(pod)} is on node {pod.spec.node_name}, not on {where.node}: leave --node out")
        return pod

    async def _user(self, pv: PersistentVolume, where: Where) -> Pod:
        """The pod, whatever is wrong with its volumes by now, if it names the claim."""
        pod = await self._pod(pv, where)
        if not _uses(pod, pv):
            raise NoRequest(
                f"Pod {key_of(pod)} does not use PersistentVolume {pv.metadata.name}: give --pod another one"
            )
        return pod

    async def _wish(self, pod: Pod, pv: PersistentVolume, spec: CSIDriverSpec) -> tuple[Volume, PodUse]:
        wishes = Wishes(
            self._objects.cluster, lambda driver: spec if driver == self._driver else CSIDriverSpec(), Drivers()
        )
        wishes.default_label = await asyncio.to_thread(default_context)
        wanted, problems = await wishes.resolve(pod)
        for volume, use in wanted.values():
            if volume.spec_name == pv.metadata.name:
                return volume, use
        if problems and _uses(pod, pv):
            raise NoRequest(f"Pod {key_of(pod)} can't have the volume: {'; '.join(problems)}")
        raise NoRequest(f"Pod {key_of(pod)} does not use PersistentVolume {pv.metadata.name}: give --pod another one")

    async def _context(
        self, volume: Volume, spec: CSIDriverSpec, node: str
    ) -> tuple[Mapping[str, str], tuple[str, ...]]:
        """What the attacher noted for the node, and notes."""
        if not is_attachable(volume, spec):
            return {}, ()
        if not node:
            raise NoRequest("the call is about a node: give --node, with the name of the Node")
        name = attachment_name(volume.driver, volume.handle, node)
        found = await self._objects.find(VOLUME_ATTACHMENTS, name)
        if found is None:
            return {}, not_now(f"there is no VolumeAttachment {name}, so the volume is not attached to node {node}")
        return noted_in(found), not_now(why_not_attached(found, volume.handle))

    def _of_pod(self, pod: Pod | None, where: Where) -> tuple[str, ...]:
        if pod is None:
            return ()
        nowhere = "" if pod.spec.node_name else f"Pod {key_of(pod)} is on no node yet"
        return not_now(f"Pod {key_of(pod)} has ended, or is being deleted" if is_leaving(pod) else "", nowhere)

    async def _users(self, pv: PersistentVolume, node: str) -> str:
        """The pods that keep the volume on the node, as text. node: "" for any."""
        ref = pv.spec.claim_ref
        if ref is None:
            return ""
        found = [
            key_of(pod).name
            async for pod in list_all(self._objects.cluster, PODS, Selection(namespace=ref.namespace))
            if _uses(pod, pv) and not is_leaving(pod) and pod.spec.node_name and node in ("", pod.spec.node_name)
        ]
        return f"pods use the volume: {', '.join(sorted(found))}" if found else ""


def _uses(pod: Pod, pv: PersistentVolume) -> bool:
    ref = pv.spec.claim_ref
    return ref is not None and Key(ref.namespace, ref.name) in claims_of(pod)


def _node_of(pod: Pod | None, where: Where) -> str:
    return (pod.spec.node_name if pod is not None else "") or where.node


def _left_out(spec: CSIDriverSpec, volume: Volume, use: PodUse) -> tuple[str, ...]:
    """A note about tokens, which nobody makes for a call by hand."""
    requests = wanted_tokens(spec, volume)
    if not requests:
        return ()
    audiences = ", ".join(request.audience or "the API server" for request in requests)
    in_secrets = bool(spec.service_account_token_in_secrets)
    where, how = ("secrets", "with --secrets-file") if in_secrets else ("volume_context", "as a word")
    what = f"the tokens of service account {use.namespace}/{use.service_account or DEFAULT_ACCOUNT} for {audiences}"
    return (
        f"left out: {what}, which the agent sends as {where}.{TOKENS}; add them {how}, as kubectl create token makes them",
    )


NODE_BUILDERS: Final[Mapping[str, Callable[[NodeRequests, PersistentVolume, Where], Awaitable[Built]]]] = {
    "NodeStageVolume": NodeRequests.stage,
    "NodeUnstageVolume": NodeRequests.unstage,
    "NodePublishVolume": NodeRequests.publish,
    "NodeUnpublishVolume": NodeRequests.unpublish,
    "NodeExpandVolume": NodeRequests.expand,
    "NodeGetVolumeStats": NodeRequests.stats,
}
