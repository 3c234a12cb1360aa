"""The common parts of the steps of all volumes: the driver and its abilities, secrets, threads, failures, and injected data.

Where the CSIDriver asks for it, a publish for one pod has information about the pod, and tokens of its service account.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from mooring.api.core import SERVICE_ACCOUNT_TOKENS, SecretReference
from mooring.api.meta import Key
from mooring.api.storage import CSIDriver, TokenRequest
from mooring.api.volume_names import attachment_name
from mooring.base.backoff import BackOff
from mooring.base.clock import Clock, parse_rfc3339
from mooring.base.errors import MooringError
from mooring.base.log import logger
from mooring.base.randomness import Random
from mooring.control.secrets import SecretCache, SecretError
from mooring.csi.errors import DriverError
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError
from mooring.mounts.system import ToolFailed
from mooring.node import records
from mooring.node.drivers import Drivers, NodeDriver, NotRegistered
from mooring.node.layout import Layout
from mooring.node.volumes.expansion import Growth
from mooring.node.volumes.files import LeftOver
from mooring.node.volumes.requests import EPHEMERAL, TOKENS, PodUse
from mooring.node.volumes.state import Failure, Stand, Volume, VolumeState
from mooring.node.volumes.step_tasks import Threads
from mooring.wire.grpc.codes import Code

RENEW_SHARE: Final = 0.8
"""The share of a token's life after which a new one is requested."""
AGE_S_MAX: Final = 24 * 3600.0


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
        """What the volume's driver wants to know of the pod. Raises ApiError."""
        csi_driver = self._csi_drivers.store.get(Key("", volume.driver))
        if csi_driver is None:
            return Injected()
        spec, context, secrets = csi_driver.spec, {}, {}
        if spec.pod_info_on_mount:
            context = {**use.info, EPHEMERAL: "true" if volume.is_inline else "false"}
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


_log = logger(__name__)

T = TypeVar("T")

BACK_OFF: Final = BackOff(0.5, 122.0, jitter=0.0)


class StepFailed(MooringError):
    """A step did not come to its end; str() is for the pod's event.

    step: `MountDevice`, `SetUp`, and others of the kubelet's names. reason: of the event. uncertain: it may be going on still.
    is_pending: as of a failure. is_told: False for what passes by itself, and is only logged.
    """

    is_told = True

    def __init__(self, step: str, text: str, *, reason: str = "FailedMount", uncertain: bool = False, is_pending: bool = False) -> None:
        super().__init__(text)
        self.step = step
        self.reason = reason
        self.uncertain = uncertain
        self.is_pending = is_pending


@dataclasses.dataclass(frozen=True, slots=True)
class Surroundings:
    """What every step may need. tell: an event for a pod, with its type, reason and text. tell_claim: the same for a claim."""

    node_name: str
    layout: Layout
    drivers: Drivers
    secrets: SecretCache
    injector: Injector
    csi_drivers: Informer[CSIDriver]
    tell: Callable[[PodUse, str, str, str], None]
    tell_claim: Callable[[Growth, str, str, str], None]
    clock: Clock
    randomness: Random
    threads: Threads = dataclasses.field(default_factory=Threads)


class StepTools:
    """reason: of the events of steps that failed."""

    reason = "FailedMount"

    def __init__(self, around: Surroundings) -> None:
        self._around, self._layout = around, around.layout

    def failure(self, before: Failure | None, error: StepFailed) -> Failure:
        """The record of a step that failed: the next try is twice as far away as the last."""
        count = before.count + 1 if before is not None else 1
        not_before = self._around.clock.now() + BACK_OFF.jittered_s(count, self._around.randomness)
        return Failure(str(error), count, not_before, error.is_pending)

    def _failed(self, step: str, text: str, *, uncertain: bool = False, is_pending: bool = False) -> StepFailed:
        return StepFailed(step, text, reason=self.reason, uncertain=uncertain, is_pending=is_pending)

    def _driver(self, volume: Volume, step: str) -> NodeDriver:
        try:
            return self._around.drivers.get(volume.driver)
        except NotRegistered as error:
            raise self._failed(step, f"kubernetes.io/csi: {error}") from None

    async def _able(self, volume: Volume, step: str) -> tuple[NodeDriver, frozenset[int]]:
        driver = self._driver(volume, step)
        try:
            return driver, await driver.capabilities()
        except DriverError as error:
            raise self._failed(step, str(error), uncertain=True) from None

    async def _secret(self, reference: SecretReference | None, step: str) -> Mapping[str, str]:
        if reference is None:
            return {}
        try:
            return await self._around.secrets.get(reference)
        except (ApiError, SecretError) as error:
            raise self._failed(step, f"fetching secret {reference.namespace}/{reference.name} failed: {error}") from None

    def _forget_secret(self, reference: SecretReference | None) -> None:
        if reference is not None:
            self._around.secrets.invalidate(reference)

    async def _injection(self, volume: Volume, use: PodUse, step: str) -> Injected:
        try:
            return await self._around.injector.of(volume, use)
        except ApiError as error:
            raise self._failed(step, f"failed to get service account token attributes: {error}") from None

    def _published(self, state: VolumeState, use: PodUse, before: Stand) -> None:
        """The volume is in the pod. A pod that has just got it does not start before it has its size, unless it only reads."""
        publication, growth = state.publications[use.uid], state.volume.growth
        publication.stand, publication.is_outdated, publication.was_found = Stand.DONE, False, False
        if before is Stand.DONE or growth is None or growth.is_written or not state.is_to_grow:
            return
        publication.is_held = not use.read_only

    def _publish_record(self, volume: Volume, mode: str, label: str = "") -> dict[str, str]:
        """mode: the volume's lifecycle mode, "" for a raw device. label: its SELinux label."""
        return records.publish_record(
            volume.driver,
            volume.handle,
            spec_name=volume.spec_name,
            node=self._around.node_name,
            attachment=attachment_name(volume.driver, volume.handle, self._around.node_name),
            mode=mode,
            label=label,
        )

    async def _undo(self, volume: Volume, step: str, error: DriverError, end: Callable[..., None], *args: Any, pod: str = "") -> None:
        """Removes what was made for a call that has failed and done nothing. Raises StepFailed, with both errors, for what it has left."""
        try:
            await self._on_disk(volume, step, end, *args, pod=pod)
        except StepFailed as left:
            raise self._failed(step, f"{error}; it has left something behind: {left}", uncertain=True) from None

    async def _take_back(
        self, volume: Volume, step: str, call: Awaitable[object], end: Callable[..., None], *args: Any, pod: str = ""
    ) -> None:
        """The driver takes the volume back, and what was made around it is removed. Raises StepFailed.

        A driver that does not know the volume any more has nothing to take back: then it is enough that nothing is mounted.
        Differs from kubelet: it asks such a driver for ever.
        """
        try:
            await call
        except DriverError as error:
            if error.code != Code.NOT_FOUND:
                raise self._failed(step, str(error), uncertain=True, is_pending=error.code == Code.ABORTED) from None
            await self._undo(volume, step, error, end, *args, pod=pod)
            _log.warning("The driver does not know a volume, and nothing of it is mounted: it counts as taken back", volume=volume.unique)
            return
        try:
            await self._on_disk(volume, step, end, *args, pod=pod)
        except StepFailed as left:
            raise self._failed(step, f"the driver says that it has taken the volume back, but {left}", uncertain=True) from None

    async def _on_disk(self, volume: Volume, step: str, work: Callable[..., T], *args: Any, pod: str = "") -> T:
        """Work on files and mounts, on a thread of the driver's. Raises StepFailed: what was begun may be half done.

        pod: whose folder it is about; work that hangs there holds up no other pod of the volume. "" for what all pods share.
        """
        try:
            return await self._around.threads.run(volume.driver, work, *args, about=f"{volume.unique}/{pod}")
        except TimeoutError:
            raise self._failed(step, "the file system does not answer", uncertain=True) from None
        except records.BadRecord as error:
            text = f"{error}; put the record right, or remove it and what is mounted beside it"
            raise self._failed(step, text, uncertain=True) from None
        except (LeftOver, ToolFailed, OSError) as error:
            raise self._failed(step, str(error), uncertain=True) from None
