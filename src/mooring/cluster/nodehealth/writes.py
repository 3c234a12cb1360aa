"""The writes to Nodes and Pods, one request each. All raise ApiError, and Stale where the object is not as it was at the decision.

A 422 says both: that a test of the patch failed, and that the object breaks a rule for good. So the object is read then: where it is as it
was, the refusal is raised, and told.

The answers about Nodes enter the cache at once. Those about Pods do not: a pod in its grace period would be taken for gone.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from mooring.api.core import NODES, Node, Taint
from mooring.api.meta import Key, Kind, Object
from mooring.api.pods import PODS, Pod
from mooring.base.clock import Clock, Instant, rfc3339
from mooring.control.result import Stale
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster, Patch
from mooring.kube.errors import ApiError, Conflict, Invalid, NotFound
from mooring.kube.patch import Operation, add, json_patch, merge_patch, remove, strategic_patch, test

T = TypeVar("T", bound=Object)

FAILED: Final = "Failed"
LOOKED_S: Final = 1.0
_TAINTS: Final = "/spec/taints"


class Writes:
    """nodes: their cache."""

    def __init__(self, cluster: Cluster, nodes: Informer[Node], clock: Clock) -> None:
        self._cluster, self._nodes, self._clock = cluster, nodes, clock
        self._looked_at: dict[str, Instant] = {}  # by node, for LOOKED_S

    @property
    def now(self) -> str:
        """The time of the wall, for what is written."""
        return rfc3339(self._clock.wall_s())

    # -- nodes

    async def set_conditions(self, node: Node, conditions: Iterable[Mapping[str, Any]]) -> None:
        """Whatever came meanwhile, a heartbeat perhaps, makes it Stale. A condition that has changed gets the time of now."""
        stamped = [{"lastTransitionTime": self.now, **one} for one in conditions]
        body = {"metadata": {"resourceVersion": node.metadata.resource_version}, "status": {"conditions": stamped}}
        await self._patch_node(node, strategic_patch(body, of=node), "status")

    async def edit_taints(self, node: Node, added: Iterable[Taint], removed: Iterable[Taint]) -> None:
        """Others' taints stay as they are, and may have changed meanwhile."""
        steps = [*_removals(node, removed), *_additions(node, added, self.now)]
        await self._patch_node(node, json_patch(steps, of=node))

    async def set_labels(self, node: Node, labels: Mapping[str, str]) -> None:
        await self._patch_node(node, merge_patch({"metadata": {"labels": dict(labels)}}, of=node))

    async def _patch_node(self, node: Node, patch: Patch, subresource: str = "") -> None:
        name = node.metadata.name
        async with self._stale_where_moved(NODES, node):
            await self._nodes.write(Key("", name), self._cluster.patch(NODES, name, patch, subresource=subresource))

    async def check_taints(self, name: str) -> None:
        """Raises Stale where the cache shows others than the Node has: the watch may be long behind. Asks once a second for each node."""
        before, now = self._nodes.store.get(Key("", name)), self._clock.now()
        self._looked_at = {one: at for one, at in self._looked_at.items() if now - at < LOOKED_S}
        if name in self._looked_at:
            return
        try:
            found = await self._cluster.get(NODES, name)
        except NotFound as error:
            raise Stale(str(error)) from error
        self._looked_at[name] = now
        self._nodes.wrote(found)
        if before is None or (before.metadata.uid, before.spec.taints or ()) != (found.metadata.uid, found.spec.taints or ()):
            raise Stale(f"the taints of {name} are others by now")

    # -- pods

    async def patch_pod(self, pod: Pod, status: Mapping[str, Any], *, strictly: bool = False) -> None:
        """status: its conditions join those that are there. strictly: whatever came meanwhile makes it Stale."""
        meta = pod.metadata
        version = {"resourceVersion": meta.resource_version} if strictly else {}
        body = {"metadata": version, "status": status}
        async with self._stale_where_moved(PODS, pod):
            await self._cluster.patch(PODS, meta.name, strategic_patch(body, of=pod), meta.namespace, subresource="status")

    async def delete_pod(self, pod: Pod, grace_period_s: int | None = None) -> None:
        """One that is gone is fine. grace_period_s: None leaves that to the pod."""
        meta = pod.metadata
        async with self._stale_where_moved(PODS, pod):
            with contextlib.suppress(NotFound):
                await self._cluster.delete(PODS, meta.name, meta.namespace, uid=meta.uid, grace_period_s=grace_period_s)

    # -- what a refusal means

    @contextlib.asynccontextmanager
    async def _stale_where_moved(self, kind: Kind[T], obj: T) -> AsyncIterator[None]:
        try:
            yield
        except (Conflict, NotFound) as error:
            raise Stale(str(error)) from error
        except Invalid as error:
            if await self._has_moved(kind, obj):
                raise Stale(str(error)) from error
            raise

    async def _has_moved(self, kind: Kind[T], obj: T) -> bool:
        """False as well where that can't be told."""
        meta = obj.metadata
        try:
            found = await self._cluster.get(kind, meta.name, meta.namespace)
        except NotFound:
            return True
        except ApiError:
            return False
        if isinstance(found, Node):
            self._nodes.wrote(found)
        return (found.metadata.uid, found.metadata.resource_version) != (meta.uid, meta.resource_version)


def _removals(node: Node, removed: Iterable[Taint]) -> Iterator[Operation]:
    """From the end of the list to its beginning, so that places stay right."""
    gone = {(taint.key, taint.effect) for taint in removed}
    for place, taint in reversed(list(enumerate(node.spec.taints or ()))):
        if (taint.key, taint.effect) in gone:
            yield test(f"{_TAINTS}/{place}/key", taint.key)
            yield test(f"{_TAINTS}/{place}/effect", taint.effect)
            yield remove(f"{_TAINTS}/{place}")


def _additions(node: Node, added: Iterable[Taint], now: str) -> Iterator[Operation]:
    new = [{"key": taint.key, "effect": taint.effect, "timeAdded": now} for taint in added]
    if new and not node.spec.taints:
        yield test(_TAINTS, None)
        yield add(_TAINTS, new)
        return
    for taint in new:
        yield add(f"{_TAINTS}/-", taint)
