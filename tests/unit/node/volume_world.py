"""The volumes of one node on the embedded server, with a scripted driver and a fake mount table, in virtual time.

The tests play the controllers: `attach` makes the VolumeAttachment and the entry in the Node's status.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS
from mooring.api.meta import Kind
from mooring.api.pods import PODS
from mooring.api.volume_names import attachment_name, unique_name
from mooring.control.caches import Caches
from mooring.control.manager import Manager
from mooring.control.slim import always
from mooring.csi.in_process import InProcessDriver
from mooring.csi.wire_driver import WireDriver
from mooring.mounts import targets
from mooring.node import drivers as plugin_drivers
from mooring.node.drivers import Drivers
from mooring.node.layout import KubeletLayout
from mooring.node.options import AgentOptions
from mooring.node.volumes.controller import NodeVolumes
from mooring.node.volumes.state import folders
from mooring.node.volumes.state.desired import CLAIM
from tests.support.builders import CONTAINER, Json, a_bound_claim, a_csi_driver, a_node, a_pod, a_pv, an_attached_va
from tests.support.cluster_world import ClusterWorld
from tests.support.fake_mounts import FakeMounts
from tests.support.node_driver import CAPABILITIES, NodeDriver
from tests.support.recording import RecordingCluster
from tests.support.token_issuer import TokenIssuer

NODE = "n"
METADATA = {"devicePath": "/dev/sdz"}


class RegisteredDriver(InProcessDriver):
    """With the end that a connection has."""

    async def close(self) -> None:
        pass

    async def close_after_calls(self) -> None:
        await self.close()


@dataclasses.dataclass(frozen=True)
class Bound:
    """A claim of `default` and its PersistentVolume, of one name."""

    name: str
    handle: str
    driver: str

    @property
    def unique(self) -> str:
        return unique_name(self.driver, self.handle)

    @property
    def attachment(self) -> str:
        return attachment_name(self.driver, self.handle, NODE)


class VolumesWorld(ClusterWorld):
    """root: the node's root folder. driver: `d1`, registered at the start. node: what is tested, while an agent
    runs.
    """

    node: NodeVolumes

    def __init__(self, folder: Path, mounts: FakeMounts) -> None:
        super().__init__()
        self.wait_s, self.look_s = 300.0, 0.05
        self.tokens = TokenIssuer(self.users, self.clock)
        self.cluster = RecordingCluster(self.tokens, self.story)
        self.layout, self.mounts = KubeletLayout(folder / "root"), mounts
        self.driver = NodeDriver(mounts, story=self.story)
        self.drivers = Drivers()
        self.full: list[str] = []
        self.mounts_max, self.attaches = 0, False
        self._pod_count = 0

    # -- the agent

    @asynccontextmanager
    async def agent(self, *, is_registered: bool = True, watches_claims: bool = False) -> AsyncIterator[None]:
        """Runs as in the agent; cancelled at the end, as by kill -9."""
        if await self.find(NODES, NODE) is None:
            await self.create(a_node(NODE))
        self.drivers = Drivers()
        caches = Caches(self.runtime, "test")
        node = self.node = NodeVolumes(
            self.runtime,
            caches,
            AgentOptions(NODE, self.layout.root, mounts_max=self.mounts_max, controller_attaches=not self.attaches),
            self.drivers,
            self.recorder,
            self.full.append,
        )

        if watches_claims:
            node.pods.watch_claims(caches.of(PERSISTENT_VOLUME_CLAIMS, keeps=always(CLAIM)))

        async def prepare() -> None:
            await node.prepare(await self.cluster.get(NODES, NODE))

        async def orphans() -> None:
            await caches.synced()
            node.start()
            await node.pod_folders.remove_orphans()

        manager = Manager(
            caches,
            *node.workers,
            prepare=prepare,
        )
        manager.beside("in-use", node.in_use.controller)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.drivers.close)
            await stack.enter_async_context(self.running(manager.run(), orphans()))
            if is_registered:
                await self.register()
            yield

    async def register(self, driver: NodeDriver | None = None, client: RegisteredDriver | None = None) -> None:
        driver = driver or self.driver
        wire = cast(WireDriver, client or RegisteredDriver(driver, clock=self.clock))
        await self.drivers.put(plugin_drivers.RegisteredDriver(driver.name, Path("/s"), "/e", (1, 0, 0), wire))

    # -- what users and controllers do

    async def volume(
        self,
        name: str = "vol",
        *,
        driver: str = "d1",
        handle: str = "",
        modes: tuple[str, ...] = ("ReadWriteOnce",),
        mode: str = "Filesystem",
        attached: bool = True,
        claim: Mapping[str, Any] | None = None,
        pv: Mapping[str, Any] | None = None,
        **csi: Any,
    ) -> Bound:
        """claim, pv: further fields of their specs. csi: of its csi source."""
        bound = Bound(name, handle or f"handle-{name}", driver)
        made = await self.create(
            a_bound_claim(name, name, modes=modes, sc=None, volumeMode=mode, uid=None, **(claim or {}))
        )
        source = {"csi": {"driver": driver, "volumeHandle": bound.handle, **csi}}
        await self.create(a_pv(name, source=source, modes=modes, claim=made, volumeMode=mode, **(pv or {})))
        if attached:
            await self.attach(bound)
        return bound

    async def attach(self, volume: Bound, status: Mapping[str, Any] | None = None) -> None:
        """As the attacher and the attach/detach controller do. status: in place of the attachment's own."""
        status = status or {"attached": True, "attachmentMetadata": METADATA}
        await self.create(an_attached_va(volume.attachment, volume.name, NODE, attacher=volume.driver, status=status))
        await self.list_as_attached(volume)

    async def list_as_attached(self, *volumes: Bound) -> None:
        """In the Node's status, beside those that are there."""
        if await self.find(NODES, NODE) is None:
            await self.create(a_node(NODE))
        present = (await self.get(NODES, NODE))["status"].get("volumesAttached") or []
        entries = [{"name": volume.unique, "devicePath": ""} for volume in volumes]
        await self.patch(NODES, NODE, {"status": {"volumesAttached": [*present, *entries]}}, subresource="status")

    async def no_attach(self, **spec: Any) -> None:
        """A CSIDriver for `d1` whose volumes are not attached."""
        await self.create(a_csi_driver("d1", **{"attachRequired": False, **spec}))

    async def pod(
        self, *volumes: Bound, name: str = "", devices: bool = False, read_only: bool = False, **spec: Any
    ) -> Json:
        """One that uses these volumes, on the node."""
        self._pod_count += 1
        claims = [
            {"name": one.name, "persistentVolumeClaim": {"claimName": one.name, "readOnly": read_only}}
            for one in volumes
        ]
        spec = {"volumes": claims, **spec}
        names = [one["name"] for one in spec["volumes"]]
        uses: Json = {"volumeDevices": [{"name": one, "devicePath": f"/dev/{one}"} for one in names]}
        if not devices:
            uses = {"volumeMounts": [{"name": one, "mountPath": f"/{one}"} for one in names]}
        body = a_pod(name or f"pod{self._pod_count}", node=NODE, **{"containers": [{**CONTAINER, **uses}], **spec})
        return await self.create(body)

    async def running_pod(self, *volumes: Bound, **more: Any) -> Json:
        made = await self.pod(*volumes, **more)
        return await self.shown(PODS, made["metadata"]["name"], lambda pod: pod["status"]["phase"] == "Running", "runs")

    async def delete_pod(self, pod: Json) -> None:
        await self.delete(PODS, pod["metadata"]["name"])

    async def remove_now(self, kind: Kind[Any], name: str) -> None:
        """Whatever its finalizers say."""
        await self.patch(kind, name, {"metadata": {"finalizers": None}})
        await self.remove(kind, name)

    async def patch_claim(self, name: str, status: Mapping[str, Any]) -> Json:
        return await self.patch(PERSISTENT_VOLUME_CLAIMS, name, {"status": status}, subresource="status")

    # -- what is seen

    async def in_use(self) -> list[str]:
        return list((await self.get(NODES, NODE))["status"].get("volumesInUse") or [])

    async def until_calls(self, *methods: str) -> None:
        """The calls for volumes, in this order and no others."""

        async def are() -> bool:
            return list(methods) == self.driver.calls_for_volumes()

        await self.until(are, what=f"calls {methods}")

    async def until_called(self, method: str, times: int = 1) -> None:
        async def is_called() -> bool:
            return len(self.driver.made(method)) >= times

        await self.until(is_called, what=f"{times} of {method}")

    async def until_told(self, pod: Json, text: str, reason: str = "FailedMount") -> str:
        """The first event about the pod with this text."""

        async def told() -> str:
            events = await self.events(pod["metadata"]["name"])
            return next((message for _, because, message, _ in events if because == reason and text in message), "")

        found: str = await self.until(told, what=f"event {text!r}")
        return found

    def request(self, method: str, number: int = -1) -> Any:
        """Of a call; of the last one by default."""
        return self.driver.made(method)[number].request

    def target(self, pod: Json, volume: str) -> Path:
        return self.layout.target(pod["metadata"]["uid"], volume)

    def staging(self, volume: Bound) -> Path:
        return self.layout.staging(volume.driver, volume.handle)

    def record(self, folder: Path) -> dict[str, str] | None:
        return folders.read_record(folder)

    def left(self) -> list[str]:
        """Every file and folder below the root that belongs to a volume or a pod."""
        top = (self.layout.pods, self.layout.csi)
        return sorted(
            str(path.relative_to(self.layout.root))
            for folder in top
            for path in folder.rglob("*")
            if not _is_frame(path)
        )

    def seen(self) -> str:
        return f"calls: {[call.method for call in self.driver.calls if call.method != CAPABILITIES]}, {super().seen()}"


def _is_frame(path: Path) -> bool:
    """Folders that stay: of a driver, and of all raw devices."""
    frames = ("csi/d1", "csi/volumeDevices", "volumeDevices/staging", "volumeDevices/publish")
    return path.is_dir() and "/".join(path.parts[-2:]) in frames


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VolumesWorld:
    """Its mount table is a fake one."""
    mounts = FakeMounts(tmp_path / "mountinfo")
    monkeypatch.setattr(targets, "MOUNTINFO", mounts.file)
    return VolumesWorld(tmp_path, mounts)
