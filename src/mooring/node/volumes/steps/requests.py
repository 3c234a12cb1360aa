"""CSI requests of the node service, field by field as kubelet 1.36 fills them, and what is injected into them for one
pod.

Where the CSIDriver asks for it, a publish has information about the pod, and tokens of its service account. Differs:
they go into a copy of the volume's attributes, so that no other call can carry them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from mooring.api.core import SERVICE_ACCOUNT_TOKENS
from mooring.api.meta import Key
from mooring.api.storage import CSIDriver, CSIDriverSpec, TokenRequest
from mooring.base.clock import Clock, parse_rfc3339
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError
from mooring.node.layout import KubeletLayout
from mooring.node.volumes.state.desired import PodUse, Volume
from mooring.node.volumes.state.folders import EPHEMERAL as EPHEMERAL_MODE
from mooring.node.volumes.state.folders import PERSISTENT as PERSISTENT_MODE

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
DEFAULT_ACCOUNT: Final = "default"
"""The service account of a pod that names none; most API servers write it into the pod."""


POLICY_DEFAULT: Final = "ReadWriteOnceWithFSType"
RENEW_SHARE: Final = 0.8
"""The share of a token's life after which a new one is requested."""
AGE_S_MAX: Final = 24 * 3600.0


def capability(volume: Volume, able: Collection[int], fs_group: int | None) -> csi.VolumeCapability:
    """How the volume is used. able: the driver's node capabilities. fs_group: for drivers that set the group
    themselves.
    """
    modes = _TELLING_WRITERS_APART if MULTI_WRITER in able else _PLAIN
    mode = _Mode(mode=modes.get(volume.access_mode, _Mode.UNKNOWN))
    if volume.is_block:
        return csi.VolumeCapability(access_mode=mode, block=csi.VolumeCapability.BlockVolume())
    group = str(fs_group) if fs_group is not None and MOUNT_GROUP in able else ""
    mount = csi.VolumeCapability.MountVolume(
        fs_type=volume.fs_type, mount_flags=volume.mount_options, volume_mount_group=group
    )
    return csi.VolumeCapability(access_mode=mode, mount=mount)


def stage(
    volume: Volume,
    staging: Path,
    able: Collection[int],
    fs_group: int | None,
    context: Mapping[str, str],
    secrets: Mapping[str, str],
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
    """staging: None for what is not staged. injected: pod information and tokens, which win over the volume's
    attributes.
    """
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


class VolumeRequests(msgspec.Struct, frozen=True):
    """The requests about one volume on a node: whoever sends one, or shows it, takes it from here.

    able: the driver's node capabilities. context: the attachment's metadata. spec_name, in methods: of the
    PersistentVolume by which the pod has it.
    """

    layout: KubeletLayout
    volume: Volume
    able: Collection[int] = frozenset()
    context: Mapping[str, str] = msgspec.field(default_factory=dict)

    @property
    def staging(self) -> Path:
        """The path where the driver stages the volume."""
        volume = self.volume
        return (
            self.layout.block_staging(volume.spec_name)
            if volume.is_block
            else self.layout.staging(volume.driver, volume.handle)
        )

    def target(self, pod_uid: str, spec_name: str) -> Path:
        """The path where the driver publishes the volume to the pod."""
        return (
            self.layout.block_publish(spec_name, pod_uid)
            if self.volume.is_block
            else self.layout.target(pod_uid, spec_name)
        )

    def stage(self, use: PodUse, secrets: Mapping[str, str]) -> csi.NodeStageVolumeRequest:
        """use: of the first pod, whose group and label the volume gets."""
        return stage(self.volume.labelled(use.label), self.staging, self.able, use.fs_group, self.context, secrets)

    def unstage(self) -> csi.NodeUnstageVolumeRequest:
        return csi.NodeUnstageVolumeRequest(volume_id=self.volume.handle, staging_target_path=str(self.staging))

    def publish(self, use: PodUse, secrets: Mapping[str, str], injected: Injected) -> csi.NodePublishVolumeRequest:
        """A device has a staging path also where the driver stages nothing, as in the kubelet."""
        volume = self.volume
        is_staged = volume.is_block or (STAGES in self.able and not volume.is_inline)
        return publish(
            volume.labelled(use.label),
            use,
            self.target(use.uid, volume.spec_name),
            self.staging if is_staged else None,
            self.able,
            self.context,
            {**secrets, **injected.secrets},
            injected.context,
        )

    def unpublish(self, pod_uid: str, spec_name: str) -> csi.NodeUnpublishVolumeRequest:
        return csi.NodeUnpublishVolumeRequest(
            volume_id=self.volume.handle, target_path=str(self.target(pod_uid, spec_name))
        )

    def expand(
        self, pod_uid: str, spec_name: str, size_bytes: int, secrets: Mapping[str, str]
    ) -> csi.NodeExpandVolumeRequest:
        return expand(self.volume, self.target(pod_uid, spec_name), self.staging, self.able, size_bytes, secrets)

    def stats_path(self, pod_uid: str, spec_name: str) -> Path:
        """Where the driver is asked how full the volume is in the pod."""
        if self.volume.is_block:
            return self.layout.block_map(spec_name) / pod_uid
        return self.layout.target(pod_uid, spec_name)

    def stats(self, pod_uid: str, spec_name: str) -> csi.NodeGetVolumeStatsRequest:
        return stats(self.volume.handle, self.stats_path(pod_uid, spec_name))


def stats(handle: str, path: Path) -> csi.NodeGetVolumeStatsRequest:
    return csi.NodeGetVolumeStatsRequest(volume_id=handle, volume_path=str(path))


def unsupported_mode(volume: Volume, modes: Sequence[str] | None) -> str:
    """The text about a driver that does not take volumes of this kind, "" for one that does. modes: the CSIDriver's."""
    mode, known = EPHEMERAL_MODE if volume.is_inline else PERSISTENT_MODE, modes or (PERSISTENT_MODE,)
    return (
        ""
        if mode in known
        else f'volume mode "{mode}" not supported by driver {volume.driver} (only supports {", ".join(known)})'
    )


def sets_group(volume: Volume, use: PodUse, policy: str, able: Collection[int]) -> bool:
    """True when the node has to change the group of what is in the volume. policy: the CSIDriver's fsGroupPolicy."""
    if use.fs_group is None or use.read_only or MOUNT_GROUP in able or policy == "None":
        return False
    if policy == "File":
        return True
    return bool(volume.fs_type) and (
        volume.is_inline or bool({"ReadWriteOnce", "ReadWriteOncePod"} & set(volume.access_modes))
    )


class Injected(msgspec.Struct, frozen=True):
    """context: over the volume's attributes. secrets: beside the driver's own."""

    context: Mapping[str, str] = msgspec.field(default_factory=dict)
    secrets: Mapping[str, str] = msgspec.field(default_factory=dict)


class _Token(msgspec.Struct, frozen=True):
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
        spec, tokens = csi_driver.spec, dict[str, _Token]()
        for request in wanted_tokens(spec, volume):
            tokens[request.audience] = await self._token(use, request)
        return injected(spec, volume, use, _as_text(tokens) if tokens else "")

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
        account = use.service_account or DEFAULT_ACCOUNT
        answer = await self._cluster.create(SERVICE_ACCOUNT_TOKENS, body, use.namespace, of=(account, "token"))
        try:
            expires_at = parse_rfc3339(answer.status.expiration_timestamp)
        except ValueError as error:
            raise ApiError(
                f"the token for audience {request.audience!r} has no expirationTimestamp that can be read: {error}"
            ) from None
        renew_at = min(now + (expires_at - now) * RENEW_SHARE, now + AGE_S_MAX)
        return _Token(answer.status.token, answer.status.expiration_timestamp, renew_at, expires_at)


def _as_text(tokens: Mapping[str, _Token]) -> str:
    """The tokens as drivers get them, by audience."""
    fields = {
        audience: {"token": token.text, "expirationTimestamp": token.expires} for audience, token in tokens.items()
    }
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


def wanted_tokens(spec: CSIDriverSpec, volume: Volume) -> tuple[TokenRequest, ...]:
    """The tokens of the pod's service account that the driver asks for."""
    return () if volume.is_block else (spec.token_requests or ())


def injected(spec: CSIDriverSpec, volume: Volume, use: PodUse, tokens: str) -> Injected:
    """The pod's data that the driver asks for. tokens: their text, "" for none."""
    context = {**pod_info(use), EPHEMERAL: "true" if volume.is_inline else "false"} if spec.pod_info_on_mount else {}
    if tokens and spec.service_account_token_in_secrets:
        return Injected(context, {TOKENS: tokens})
    return Injected({**context, TOKENS: tokens} if tokens else context)


def pod_info(use: PodUse) -> dict[str, str]:
    """The information about the pod for drivers that ask for it; `ephemeral` aside."""
    return {POD_NAME: use.name, POD_NAMESPACE: use.namespace, POD_UID: use.uid, SERVICE_ACCOUNT: use.service_account}
