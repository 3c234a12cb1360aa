"""CSI requests of the node service, field by field as kubelet 1.36 fills them, and what is injected into them for one pod.

Where the CSIDriver asks for it, a publish has information about the pod, and tokens of its service account. Differs: they go into a copy
of the volume's attributes, so that no other call can carry them.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from mooring.api.core import SERVICE_ACCOUNT_TOKENS
from mooring.api.meta import Key
from mooring.api.storage import CSIDriver, TokenRequest
from mooring.base.clock import Clock, parse_rfc3339
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError
from mooring.node.volumes.state.desired import PodUse, Volume

_Mode = csi.VolumeCapability.AccessMode
_Rpc = csi.NodeServiceCapability.RPC

STAGES: Final = _Rpc.STAGE_UNSTAGE_VOLUME
MOUNT_GROUP: Final = _Rpc.VOLUME_MOUNT_GROUP
MULTI_WRITER: Final = _Rpc.SINGLE_NODE_MULTI_WRITER
EXPANDS: Final = _Rpc.EXPAND_VOLUME
STATS: Final = _Rpc.GET_VOLUME_STATS

_PLAIN: Final = {
    "ReadWriteOnce": _Mode.SINGLE_NODE_WRITER,
    "ReadWriteOncePod": _Mode.SINGLE_NODE_WRITER,
    "ReadOnlyMany": _Mode.MULTI_NODE_READER_ONLY,
    "ReadWriteMany": _Mode.MULTI_NODE_MULTI_WRITER,
}
_TELLING_WRITERS_APART: Final = {
    **_PLAIN,
    "ReadWriteOnce": _Mode.SINGLE_NODE_MULTI_WRITER,
    "ReadWriteOncePod": _Mode.SINGLE_NODE_SINGLE_WRITER,
}

POD_NAME: Final = "csi.storage.k8s.io/pod.name"
POD_NAMESPACE: Final = "csi.storage.k8s.io/pod.namespace"
POD_UID: Final = "csi.storage.k8s.io/pod.uid"
SERVICE_ACCOUNT: Final = "csi.storage.k8s.io/serviceAccount.name"
EPHEMERAL: Final = "csi.storage.k8s.io/ephemeral"
TOKENS: Final = "csi.storage.k8s.io/serviceAccount.tokens"


POLICY_DEFAULT: Final = "ReadWriteOnceWithFSType"
RENEW_SHARE: Final = 0.8
"""The share of a token's life after which a new one is requested."""
AGE_S_MAX: Final = 24 * 3600.0


def capability(volume: Volume, able: Collection[int], fs_group: int | None) -> csi.VolumeCapability:
    """How the volume is used. able: the driver's node capabilities. fs_group: for drivers that set the group themselves."""
    modes = _TELLING_WRITERS_APART if MULTI_WRITER in able else _PLAIN
    mode = _Mode(mode=modes.get(volume.access_mode, _Mode.UNKNOWN))
    if volume.is_block:
        return csi.VolumeCapability(access_mode=mode, block=csi.VolumeCapability.BlockVolume())
    group = str(fs_group) if fs_group is not None and MOUNT_GROUP in able else ""
    mount = csi.VolumeCapability.MountVolume(fs_type=volume.fs_type, mount_flags=volume.mount_options, volume_mount_group=group)
    return csi.VolumeCapability(access_mode=mode, mount=mount)


def stage(
    volume: Volume, staging: Path, able: Collection[int], fs_group: int | None, context: Mapping[str, str], secrets: Mapping[str, str]
) -> csi.NodeStageVolumeRequest:
    """context: the attachment's metadata."""
    return csi.NodeStageVolumeRequest(
        volume_id=volume.handle,
        publish_context=context,
        staging_target_path=str(staging),
        volume_capability=capability(volume, able, fs_group),
        secrets=secrets,
        volume_context=volume.attributes,
    )


def expand(
    volume: Volume, path: Path, staging: Path, able: Collection[int], size_bytes: int, secrets: Mapping[str, str]
) -> csi.NodeExpandVolumeRequest:
    """path: where the volume is published."""
    return csi.NodeExpandVolumeRequest(
        volume_id=volume.handle,
        volume_path=str(path),
        staging_target_path=str(staging),
        capacity_range=csi.CapacityRange(required_bytes=size_bytes),
        volume_capability=capability(volume, able, None),
        secrets=secrets,
    )


def publish(
    volume: Volume,
    use: PodUse,
    target: Path,
    staging: Path | None,
    able: Collection[int],
    context: Mapping[str, str],
    secrets: Mapping[str, str],
    injected: Mapping[str, str],
) -> csi.NodePublishVolumeRequest:
    """staging: None for what is not staged. injected: pod information and tokens, which win over the volume's attributes."""
    return csi.NodePublishVolumeRequest(
        volume_id=volume.handle,
        publish_context=context,
        staging_target_path=str(staging) if staging is not None else "",
        target_path=str(target),
        volume_capability=capability(volume, able, use.fs_group),
        readonly=use.read_only,
        secrets=secrets,
        volume_context={**volume.attributes, **injected},
    )


def sets_group(volume: Volume, use: PodUse, policy: str, able: Collection[int]) -> bool:
    """True when the node has to change the group of what is in the volume. policy: the CSIDriver's fsGroupPolicy."""
    if use.fs_group is None or use.read_only or MOUNT_GROUP in able or policy == "None":
        return False
    if policy == "File":
        return True
    return bool(volume.fs_type) and (volume.is_inline or bool({"ReadWriteOnce", "ReadWriteOncePod"} & set(volume.access_modes)))


@dataclasses.dataclass(frozen=True, slots=True)
class Injected:
    """context: over the volume's attributes. secrets: beside the driver's own."""

    context: Mapping[str, str] = dataclasses.field(default_factory=dict)
    secrets: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class _Token:
    text: str
    expires: str
    renew_at: float
    expires_at: float


class Injector:
    """csi_drivers: the cache of CSIDrivers."""

    def __init__(self, cluster: Cluster, csi_drivers: Informer[CSIDriver], clock: Clock) -> None:
        self._cluster, self._csi_drivers, self._clock = cluster, csi_drivers, clock
        self._tokens: dict[tuple[PodUse, TokenRequest], _Token] = {}

    async def of(self, volume: Volume, use: PodUse) -> Injected:
        """The pod's data that the volume's driver asks for. Raises ApiError."""
        csi_driver = self._csi_drivers.store.get(Key("", volume.driver))
        if csi_driver is None:
            return Injected()
        spec, context, secrets = csi_driver.spec, {}, {}
        if spec.pod_info_on_mount:
            context = {**pod_info(use), EPHEMERAL: "true" if volume.is_inline else "false"}
        if spec.token_requests and not volume.is_block:
            tokens = {request.audience: await self._token(use, request) for request in spec.token_requests}
            text = json.dumps(
                {audience: {"token": token.text, "expirationTimestamp": token.expires} for audience, token in tokens.items()},
                sort_keys=True,
                separators=(",", ":"),
            )
            if spec.service_account_token_in_secrets:
                secrets = {TOKENS: text}
            else:
                context = {**context, TOKENS: text}
        return Injected(context, secrets)

    async def _token(self, use: PodUse, request: TokenRequest) -> _Token:
        now = self._clock.wall_s()
        self._tokens = {key: token for key, token in self._tokens.items() if token.expires_at > now}
        known = self._tokens.get((use, request))
        if known is not None and now < known.renew_at:
            return known
        try:
            fresh = await self._requested(use, request, now)
        except ApiError:
            if known is None:
                raise
            return known  # still good for a while
        self._tokens[use, request] = fresh
        return fresh

    async def _requested(self, use: PodUse, request: TokenRequest, now: float) -> _Token:
        spec = {
            "audiences": [request.audience] if request.audience else [],
            "expirationSeconds": request.expiration_seconds,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": use.name, "uid": use.uid},
        }
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        answer = await self._cluster.create(SERVICE_ACCOUNT_TOKENS, body, use.namespace, of=(use.service_account, "token"))
        try:
            expires_at = parse_rfc3339(answer.status.expiration_timestamp)
        except ValueError as error:
            raise ApiError(f"the token for audience {request.audience!r} has no expirationTimestamp that can be read: {error}") from None
        renew_at = min(now + (expires_at - now) * RENEW_SHARE, now + AGE_S_MAX)
        return _Token(answer.status.token, answer.status.expiration_timestamp, renew_at, expires_at)


def pod_info(use: PodUse) -> dict[str, str]:
    """The information about the pod for drivers that ask for it; `ephemeral` aside."""
    return {POD_NAME: use.name, POD_NAMESPACE: use.namespace, POD_UID: use.uid, SERVICE_ACCOUNT: use.service_account}
