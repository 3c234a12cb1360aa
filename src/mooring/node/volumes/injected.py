"""The additions to a publish for one pod, if the CSIDriver asks for them: information about the pod, tokens of its service account."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Final

from mooring.api.core import SERVICE_ACCOUNT_TOKENS
from mooring.api.meta import Key
from mooring.api.storage import CSIDriver, TokenRequest
from mooring.base.clock import Clock, parse_rfc3339
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError
from mooring.node.volumes.requests import EPHEMERAL, TOKENS, PodUse
from mooring.node.volumes.volume import Volume

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
