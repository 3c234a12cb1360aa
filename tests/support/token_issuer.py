"""A cluster that gives tokens for service accounts, which the embedded server does only over HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, TypeVar

from mooring.api.core import SERVICE_ACCOUNT_TOKENS, TokenRequestObject, TokenStatus
from mooring.api.meta import Kind, ObjectMeta
from mooring.base.clock import Clock, rfc3339
from mooring.kube.cluster import EVERYTHING, Cluster, Request, Selection, WatchEvent
from mooring.kube.errors import ServerError
from tests.support.builders import Json

T = TypeVar("T")


class TokenIssuer(Cluster):
    """asked: the specs of all requests for tokens. places: who was asked, as `serviceaccounts/NAME/token`.

    fails: it gives none. expires: in place of the true time.
    Everything else goes to the cluster.
    """

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster, self._clock = cluster, clock
        self.asked: list[Json] = []
        self.places: list[str] = []
        self.fails = False
        self.expires: str | None = None

    async def ask(self, request: Request) -> Any:
        if request.kind is not SERVICE_ACCOUNT_TOKENS:
            return await self._cluster.ask(request)
        self.asked.append(request.body["spec"])
        self.places.append(request.place)
        if self.fails:
            raise ServerError("no tokens today")
        life_s = request.body["spec"].get("expirationSeconds") or 3600
        expires = rfc3339(self._clock.wall_s() + life_s) if self.expires is None else self.expires
        return TokenRequestObject(ObjectMeta(), TokenStatus(f"token{len(self.asked)}", expires))

    def watch(
        self, kind: Kind[T], selection: Selection = EVERYTHING, *, resource_version: str, timeout_s: float = 0.0
    ) -> AsyncGenerator[WatchEvent[T], None]:
        return self._cluster.watch(kind, selection, resource_version=resource_version, timeout_s=timeout_s)
