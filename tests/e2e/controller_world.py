"""`mooring controller` as a program, beside a driver that makes and attaches volumes, and a user with claims and
pods.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from mooring.api.core import NODES
from mooring.api.meta import Kind
from mooring.api.snapshot import VOLUME_SNAPSHOT_CLASSES, VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from mooring.api.snapshot_names import BEING_DELETED, CONTENT_FINALIZER
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.api.volume_names import attachment_name, unique_name
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.cluster.attachdetach.identity import MANAGED
from mooring.dev.extras import install
from mooring.driver.server import serving
from mooring.kube.client.http import HttpCluster
from mooring.kube.client.kubeconfig import load
from mooring.kube.errors import Gone
from tests.support.binding import POD, PV, PVC, Tenant
from tests.support.builders import (
    Json,
    a_claim,
    a_csi_node,
    a_new_content,
    a_new_snapshot,
    a_snapshot_class,
    an_attributes_class,
)
from tests.support.fault_proxy import FaultProxy
from tests.support.full_driver import FullDriver
from tests.support.programs import Program
from tests.support.scripted_driver import RPC
from tests.support.volume_driver import VolumeDriver

ALL = "--enable=attacher,provisioner,attachdetach,binder"
SIDECARS = "--enable=attacher,provisioner,resizer,snapshotter,attachdetach,binder"
CONTENTS = VOLUME_SNAPSHOT_CONTENTS
KILLED = 137
FLAGS = ("--v=2", "--attacher-retry-interval-start=100ms", "--provisioner-retry-interval-start=100ms")


class ControllerWorld(Tenant):
    """folder: for socket and logs. backend: the driver, which every controller of the process calls over the one
    socket.
    """

    def __init__(self, cluster: HttpCluster, folder: Path, *, full: bool) -> None:
        super().__init__(cluster, look_s=0.02)
        self.folder, self.socket, self.pod_namespace = folder, folder / "s", ""
        self.backend = FullDriver(self.driver) if full else VolumeDriver(self.driver, (RPC.PUBLISH_UNPUBLISH_VOLUME,))

    async def make_place(self, base: str = "n1", driver: str = "") -> str:
        """A node with a driver, whose volumes are the controller's."""
        node = await self.make_node(base)
        await self.patch(NODES, node, {"metadata": {"annotations": {MANAGED: "true"}}})
        await self.create(a_csi_node(node, {driver or self.driver: f"id-of-{node}"}))
        return node

    async def make_consumer(self, base: str = "pod") -> None:
        """A pod with a claim, whose volume is made where the pod goes. Names: the pod's base, and `{base}-claim` for
        the claim.
        """
        await self.create(a_claim(self(f"{base}-claim"), sc=self("sc")))
        await self.make_pod(self(f"{base}-claim"), base=base)

    async def volume_of(self, base: str = "pod") -> str:
        """The name of its PersistentVolume, once it is bound."""
        claim = await self.shown(
            PVC, self(f"{base}-claim"), lambda body: body["status"].get("phase") == "Bound", "is bound"
        )
        return str(claim["spec"]["volumeName"])

    def attachment(self, pv: str, node: str) -> str:
        return attachment_name(self.driver, f"vol-{pv}", node)

    async def in_use(self, base: str, node: str) -> str:
        """The pod's volume, once it is made, bound, attached, and reported on the node."""
        pv = await self.volume_of(base)
        await self.shown(
            VOLUME_ATTACHMENTS,
            self.attachment(pv, node),
            lambda body: body.get("status", {}).get("attached"),
            "is attached",
        )
        await self.shown(NODES, node, lambda body: self._reports(body, pv), f"reports {pv}")
        assert {f"id-of-{node}"} == self.backend.published[f"vol-{pv}"]
        return pv

    def _reports(self, node: Json, pv: str) -> bool:
        listed = node["status"].get("volumesAttached") or ()
        return unique_name(self.driver, f"vol-{pv}") in [one["name"] for one in listed]

    async def grown(self, base: str, size: int) -> None:
        """The claim asks for so many GiB, and has them."""
        claim = self(f"{base}-claim")
        await self.patch(PVC, claim, {"spec": {"resources": {"requests": {"storage": f"{size}Gi"}}}})
        await self.shown(
            PVC, claim, lambda body: body["status"]["capacity"]["storage"] == f"{size}Gi", f"has {size} GiB"
        )

    async def moved_to_class(self, base: str, name: str) -> None:
        """The claim asks for a VolumeAttributesClass that comes then, and has it."""
        claim = self(f"{base}-claim")
        await self.patch(PVC, claim, {"spec": {"volumeAttributesClassName": self(name)}})
        await self.create(an_attributes_class(self(name), parameters={"class": name}, driverName=self.driver))
        await self.shown(
            PVC,
            claim,
            lambda body: body["status"].get("currentVolumeAttributesClassName") == self(name),
            f"has class {name}",
        )

    async def serve_snapshots(self) -> None:
        await install(self.users)
        await self.until(lambda: self.users.serves(CONTENTS), what="the kinds of snapshots are served")
        await self.until(self._can_be_watched, what="what was listed of the snapshots' kinds can be watched")

    async def _can_be_watched(self) -> bool:
        """A server begins to remember the changes of a new kind a moment later: a watch from a list of before is told
        to list again.
        """

        async def goes_on(kind: Kind[Any]) -> bool:
            version = (await self.users.list(kind)).resource_version
            try:
                async for _ in self.users.watch(kind, resource_version=version, timeout_s=1):
                    pass
            except Gone:
                return False
            return True

        return all(await asyncio.gather(goes_on(VOLUME_SNAPSHOTS), goes_on(VOLUME_SNAPSHOT_CLASSES), goes_on(CONTENTS)))

    async def photographed(self, pv: str) -> None:
        """What the snapshot controller writes for a snapshot of the volume: it is made, and deleted."""
        await self.create(a_snapshot_class(self("snapclass"), driver=self.driver))
        spec = {"driver": self.driver, "volumeSnapshotClassName": self("snapclass")}
        content = a_new_content(self("content"), snapshot=self("snap"), volume=f"vol-{pv}", **spec)
        await self.create({**content, "metadata": {**content["metadata"], "finalizers": [CONTENT_FINALIZER]}})
        made = await self.shown(
            CONTENTS, self("content"), lambda body: (body.get("status") or {}).get("readyToUse"), "is ready"
        )
        assert {made["status"]["snapshotHandle"]} == set(self.backend.snapshots)
        await self.patch(CONTENTS, self("content"), {"metadata": {"annotations": {BEING_DELETED: "yes"}}})
        await self.remove(CONTENTS, self("content"))
        await self.gone(CONTENTS, self("content"))
        assert {} == self.backend.snapshots

    async def photographed_by_a_user(self, base: str) -> None:
        """A snapshot of the claim is made, and deleted."""
        await self.create(a_snapshot_class(self("snapclass"), driver=self.driver))
        snapshot = a_new_snapshot(self("snap"), claim=self(f"{base}-claim"), snapshot_class=self("snapclass"))
        await self.create(snapshot)
        made = await self.shown(
            VOLUME_SNAPSHOTS, self("snap"), lambda body: (body.get("status") or {}).get("readyToUse"), "is ready"
        )
        content = made["status"]["boundVolumeSnapshotContentName"]
        assert 1 == len(self.backend.snapshots)
        await self.remove(VOLUME_SNAPSHOTS, self("snap"))
        await self.gone(VOLUME_SNAPSHOTS, self("snap"))
        await self.gone(CONTENTS, content)
        assert {} == self.backend.snapshots

    async def end_of(self, base: str, node: str) -> None:
        """The pod goes, its volume is detached; the claim goes, the volume is deleted."""
        pv = await self.volume_of(base)
        await self.remove(POD, self(base))
        await self.gone(VOLUME_ATTACHMENTS, self.attachment(pv, node))
        await self.remove(PVC, self(f"{base}-claim"))
        await self.gone(PV, pv)
        assert f"vol-{pv}" not in self.backend.volumes
        assert not self.backend.published.get(f"vol-{pv}")

    async def whole_life(self, base: str, node: str) -> None:
        await self.make_consumer(base)
        await self.in_use(base, node)
        await self.end_of(base, node)

    def program(self, config: Path, name: str, *flags: str, calls_driver: bool = True) -> Program:
        """One that has been started. name: of its log."""
        driver = (f"--csi-address={self.socket}",) if calls_driver else ()
        command = [sys.executable, "-m", "mooring.cli.mooring", "controller", f"--kubeconfig={config}", *driver]
        return Program([*command, *flags], self.folder / name, {**os.environ, "POD_NAMESPACE": self.pod_namespace})

    @contextlib.asynccontextmanager
    async def controller(self, config: Path, name: str, *flags: str) -> AsyncIterator[Program]:
        """One that runs for the block, and ends in good order unless it was killed. name: of its log."""
        program = self.program(config, name, *FLAGS, *flags)
        try:
            yield program
            assert await asyncio.to_thread(program.stop) in (0, KILLED)
            assert "unexpected" not in program.output()
        except BaseException as error:
            error.add_note(f"-- mooring controller {name}\n{program.log_tail(80)}")
            raise
        finally:
            program.kill()


def count_of(proxy: FaultProxy, verb: str, *, without: Iterable[str] = ()) -> Counter[str]:
    """How many requests there were of this verb, by resource.

    Not counted: a list of one object, by which a cache asks for the server's version before a watch.
    """
    asked = [
        one
        for one in proxy.requests
        if one.verb == verb and "1" not in parse_qs(urlsplit(one.path).query).get("limit", ())
    ]
    return Counter(one.resource for one in asked if one.resource not in without)


@contextlib.asynccontextmanager
async def a_world(
    config: Path, folder: Path, *, full: bool = False, kinds: bool = True
) -> AsyncIterator[ControllerWorld]:
    """On the API server that a kubeconfig leads to. full: the driver grows and modifies volumes, and makes snapshots;
    kinds: their kinds are served.
    """
    users = HttpCluster(load(str(config), {}), clock=LoopClock(), randomness=Random(), user_agent="tests")
    async with asyncio.timeout(110), users:
        world = ControllerWorld(users, folder, full=full)
        if full and kinds:
            await world.serve_snapshots()
        async with serving(world.backend, str(world.socket), grace_s=0):
            await world.make_class(wffc=True, reclaimPolicy="Delete", allowVolumeExpansion=True)
            yield world
