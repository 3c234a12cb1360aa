"""The common ground of the demo's steps: the plane as they see it, the file that a pod writes, the file systems that
can grow here, and the timeline.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final

from mooring.api.core import NODES
from mooring.base.clock import Clock
from mooring.csi.driver import Driver
from mooring.dev.options import Patience
from mooring.dev.plane import Plane
from mooring.dev.polling import MountsAtFirst, PodFolder, Polling
from mooring.dev.story import Story
from mooring.driver.hostpath.node import images
from mooring.kube.cluster import Cluster, Patch, PatchType
from mooring.mounts import filesystems, loops
from mooring.mounts.namespace import MountSpace
from mooring.mounts.system import ToolFailed, missing_tools

NODE_NAMES: Final = ("n1", "n2")
PATIENCE: Final = Patience(grace_s=2.0)
"""Not upstream's 50 s, for which nobody would wait here."""
CLASS: Final = "demo-class"
NAMESPACE: Final = "default"

CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION: Final = "kubernetes.io/pv-protection"
PROVISIONING: Final = "external-provisioner.volume.kubernetes.io/finalizer"


class Stage:
    """cluster: a client over HTTP; driver: a connection of the demo's own; space: where this process mounts. fs_type:
    of the file systems that volumes are; "" where they are folders, which have no size.
    """

    def __init__(
        self, plane: Plane, cluster: Cluster, driver: Driver, space: MountSpace, story: Story, *, fs_type: str
    ) -> None:
        assert plane.nodes is not None
        self.driver_name, self.nodes = plane.driver_name, plane.nodes
        self.cluster, self.story = cluster, story
        self.fs_type = fs_type
        self.polling = Polling(plane, cluster, driver, story)
        self.mounts = MountsAtFirst(self.polling, story)
        self.folders = {name: PodFolder(root, space, self.polling, story) for name, root in plane.nodes.roots.items()}
        self.timeline: list[tuple[float, str]] = []

    def moment(self, text: str) -> None:
        """Goes into the timeline."""
        self.timeline.append((self.story.elapsed_s, text))

    def expect(self, what: str, expected: object, found: object) -> None:
        """Raises DemoFailed when they differ."""
        self.polling.expect(what, expected, found)

    async def check_node(self, name: str, volumes: list[str]) -> None:
        """The Node's status names these volumes as attached, and as in use."""
        status = (await self.cluster.get(NODES, name)).status
        self.expect(f"volumesAttached of {name}", volumes, sorted(one.name for one in status.volumes_attached or ()))
        self.expect(f"volumesInUse of {name}", volumes, sorted(status.volumes_in_use or ()))
        what = "attached and in use" if volumes else "nothing attached, nothing in use"
        self.story.checked(f"the status of {name} says so, too: {what}")

    async def taints(self, name: str) -> list[dict[str, Any]]:
        return list((await self.cluster.get(NODES.whole(), name))["spec"].get("taints") or ())

    async def patch_node(self, name: str, spec: dict[str, Any]) -> None:
        await self.cluster.patch(NODES, name, Patch(PatchType.MERGE, {"spec": spec}))


NAME: Final = "diary.txt"
_PAUSE_S: Final = 0.005


class Diary:
    """lines: so many were written; each has its number."""

    def __init__(self, clock: Clock) -> None:
        self.lines = 0
        self._clock = clock

    @contextlib.asynccontextmanager
    async def kept(self, folder: Path) -> AsyncGenerator[None, None]:
        """It is written to as long as the block runs. Raises OSError when that fails."""
        async with asyncio.TaskGroup() as group:
            writing = group.create_task(self._write(folder / NAME), name="demo/diary")
            yield
            writing.cancel()

    async def more(self, count: int) -> None:
        """Returns when so many more lines are written."""
        wanted = self.lines + count
        while self.lines < wanted:
            await self._clock.sleep(_PAUSE_S)

    def is_in(self, folder: Path) -> bool:
        """True when every line is there, and nothing else."""
        path = folder / NAME
        return path.exists() and path.read_text(encoding="utf-8").split() == [
            str(number + 1) for number in range(self.lines)
        ]

    async def _write(self, path: Path) -> None:
        with path.open("a", encoding="utf-8") as file:
            while True:
                file.write(f"{self.lines + 1}\n")
                file.flush()
                self.lines += 1
                await self._clock.sleep(_PAUSE_S)


_TRIAL_BYTES: Final = 1 << 20
_SYS_RESOURCE: Final = 24
"""The number of CAP_SYS_RESOURCE, without which no ext4 grows while it is mounted; an xfs does."""


def growing_type(space: MountSpace, folder: Path) -> tuple[str, str]:
    """The type, "" for none, and the obstacle then. folder: for a trial."""
    if not space.can_mount:
        return "", space.obstacle
    if refusal := _refused_device(folder / "trial"):
        return "", f"no loop device can be had: {refusal}"
    refusals = []
    for fs_type in ("ext4", "xfs"):
        if not (refusal := _refused(fs_type)):
            return fs_type, ""
        refusals.append(f"{fs_type}: {refusal}")
    return "", "; ".join(refusals)


def _refused(fs_type: str) -> str:
    if missing := missing_tools((*filesystems.tools_for(fs_type), images.FREEZER)):
        return f"this machine has no {' and no '.join(missing)}"
    if fs_type == "ext4" and not _has_capability(_SYS_RESOURCE):
        return "this process has no CAP_SYS_RESOURCE, without which it does not grow while it is mounted"
    return ""


def _has_capability(number: int) -> bool:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    held = next((line.split()[1] for line in lines if line.startswith("CapEff:")), "0")
    return bool(int(held, 16) >> number & 1)


def _refused_device(file: Path) -> str:
    try:
        with file.open("wb") as opened:
            opened.truncate(_TRIAL_BYTES)
        loops.device(file)
        loops.release(file)
    except (OSError, ToolFailed) as error:
        return str(error)
    finally:
        file.unlink(missing_ok=True)
    return ""
