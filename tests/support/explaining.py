"""A cluster in memory about which `mooring why` and `mooring timeline` are asked, in virtual time."""

from __future__ import annotations

import io
import json
from typing import Any

from mooring.apiserver.local import ServerFaults
from mooring.base.clock import rfc3339
from mooring.cli.timeline import ShowTimeline, TimelineFlags
from mooring.cli.why import Why, WhyFlags
from mooring.cluster.attachdetach.identity import MANAGED
from tests.support.builders import (
    Json,
    a_bound_claim,
    a_class,
    a_csi_driver,
    a_csi_node,
    a_pod,
    a_ready_node,
    a_volume,
)
from tests.support.cluster_world import ClusterWorld


def a_kubelet_s_node(name: str = "n1", *, ready: bool = True) -> Json:
    """As a kubelet registers it: it leaves attaching to the controllers."""
    node = a_ready_node(name, ready=ready)
    return {**node, "metadata": {**node["metadata"], "annotations": {MANAGED: "true"}}}


class WhyWorld(ClusterWorld):
    def __init__(self, faults: ServerFaults | None = None) -> None:
        super().__init__(faults)
        self.out, self.err = io.StringIO(), io.StringIO()

    async def why(self, *words: str, **flags: Any) -> tuple[int, str]:
        """The exit code and the text; nothing is written by it."""
        self._begin()
        code = await Why(WhyFlags(**flags), words, self.cluster, self.clock, "default", self.out, self.err).run()
        return code, self._shown()

    async def timeline(self, *words: str, **flags: Any) -> tuple[int, str]:
        """The same of `mooring timeline`."""
        self._begin()
        code = await ShowTimeline(TimelineFlags(**flags), words, self.cluster, self.clock, "default", self.out).run()
        return code, self._shown()

    def _begin(self) -> None:
        self.story.clear()
        self.out, self.err = io.StringIO(), io.StringIO()

    def _shown(self) -> str:
        """What was printed by a command that has written nothing and has read no Secret."""
        assert not [
            step for step in self.story if not step.startswith(("get", "list", "serves")) or "secrets" in step
        ], self.story
        return self.out.getvalue()

    async def values(self, *words: str, **flags: Any) -> dict[str, Any]:
        _, text = await self.why(*words, output="json", **flags)
        found: dict[str, Any] = json.loads(text)
        return found

    async def blocking(self, *words: str) -> dict[str, Any]:
        """The link that blocks."""
        found = await self.values(*words)
        return next(link for link in found["links"] if link["name"] == found["blockedAt"] and link["state"] != "done")

    async def tell(self, obj: Json, reason: str, message: str, type_: str = "Warning") -> None:
        """An Event about the object."""
        meta = obj["metadata"]
        ref = {
            "kind": obj["kind"],
            "namespace": meta.get("namespace", "default"),
            "name": meta["name"],
            "uid": meta["uid"],
        }
        at = rfc3339(self.clock.wall_s())
        body = {
            "kind": "Event",
            "metadata": {"name": f"{meta['name']}.{reason.lower()}", "namespace": ref["namespace"]},
        }
        await self.create(
            {**body, "involvedObject": ref, "reason": reason, "message": message, "type": type_, "firstTimestamp": at}
        )

    async def bound(self, *, pod_on: str = "n1", nodes: tuple[str, ...] = ("n1", "n2")) -> Json:
        """A claim with its volume, nodes with the driver, and a pod on one of them; nothing is attached."""
        await self.create(a_class(), a_csi_driver(), *(a_kubelet_s_node(one) for one in nodes))
        await self.create(*(a_csi_node(one) for one in nodes))
        claim = await self.create(a_bound_claim())
        await self.create(a_volume(claim=claim, phase="Bound"))
        return await self.create(a_pod("web", "claim", node=pod_on))
