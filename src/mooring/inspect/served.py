"""Group snapshots in the version that a cluster serves: a cluster with the definitions of an older snapshot controller
has no v1.

What an older version calls otherwise is read under today's name. Objects are written by patches of fields that all
versions have.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Final, TypeVar

import msgspec

from mooring.api.group_snapshot import GROUP, GROUP_SNAPSHOT_CONTENTS
from mooring.api.meta import Kind
from mooring.inspect.whole import decoded
from mooring.kube.cluster import EVERYTHING, Cluster, Page, Request, Selection, Verb, WatchEvent
from mooring.kube.errors import NotServed

T = TypeVar("T")

OLDER: Final = ("v1beta2", "v1beta1", "v1alpha1")
"""The newest first: each shows all objects, and a newer one more of their fields."""
NO_OBJECT: Final = frozenset({Verb.POST, Verb.DELETE})


class AsServed(Cluster):
    """Asks for a kind of group snapshots as it stands, and where that is not served, in the newest version that is."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.version = GROUP_SNAPSHOT_CONTENTS.version
        """The version of the kinds of group snapshots, as far as is known by now."""
        self._has_looked = False

    async def ask(self, request: Request) -> Any:
        kind = request.kind
        if kind.group != GROUP or request.verb is Verb.SERVES:
            return await self._cluster.ask(request)
        try:
            return await self._ask_in(request, self.version)
        except NotServed:
            if self._has_looked:
                raise
            self._has_looked = True
            for version in OLDER:
                if await self._cluster.serves(msgspec.structs.replace(kind, version=version)):
                    self.version = version
                    return await self._ask_in(request, version)
            raise

    async def _ask_in(self, request: Request, version: str) -> Any:
        kind = request.kind
        if version == kind.version:
            return await self._cluster.ask(request)
        answer = await self._cluster.ask(
            msgspec.structs.replace(request, kind=msgspec.structs.replace(kind.whole(), version=version))
        )
        if request.verb in NO_OBJECT:
            return answer
        if isinstance(answer, Page):
            return msgspec.structs.replace(answer, items=tuple(_as_today(kind, one) for one in answer.items))
        return _as_today(kind, answer)

    def watch(
        self, kind: Kind[T], selection: Selection = EVERYTHING, *, resource_version: str, timeout_s: float = 0.0
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Watch any kind but those of group snapshots: nobody here watches them."""
        assert kind.group != GROUP
        return self._cluster.watch(kind, selection, resource_version=resource_version, timeout_s=timeout_s)


def as_served(cluster: Cluster) -> AsServed:
    """The cluster itself if it is one already."""
    return cluster if isinstance(cluster, AsServed) else AsServed(cluster)


def _as_today(kind: Kind[T], whole: dict[str, Any]) -> T:
    """An object of an older version. v1beta1 has the group's snapshots under another name."""
    status = whole.get("status") or {}
    if kind.plural == GROUP_SNAPSHOT_CONTENTS.plural and (pairs := status.get("volumeSnapshotHandlePairList")):
        whole = {**whole, "status": {"volumeSnapshotInfoList": pairs, **status}}
    as_is: Any = whole
    return as_is if kind.struct is dict else decoded(kind, whole)
