"""The common ground of the demo's steps: the plane as they see it, what they look at, and the timeline."""

from __future__ import annotations

from typing import Any, Final

from mooring.api.core import NODES
from mooring.csi.driver import Driver
from mooring.dev.options import Patience
from mooring.dev.plane import Plane
from mooring.dev.pod_folder import MountsAtFirst, PodFolder
from mooring.dev.polling import Polling
from mooring.dev.story import Story
from mooring.kube.cluster import Cluster, Patch, PatchType
from mooring.mounts.namespace import MountSpace

NODE_NAMES: Final = ("n1", "n2")
PATIENCE: Final = Patience(grace_s=2.0)
"""Not upstream's 50 s, for which nobody would wait here."""
CLASS: Final = "demo-class"
NAMESPACE: Final = "default"

CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION: Final = "kubernetes.io/pv-protection"
PROVISIONING: Final = "external-provisioner.volume.kubernetes.io/finalizer"


class Stage:
    """cluster: a client over HTTP; driver: a connection of the demo's own; space: where this process mounts. fs_type: of the file
    systems that volumes are; "" where they are folders, which have no size.
    """

    def __init__(self, plane: Plane, cluster: Cluster, driver: Driver, space: MountSpace, story: Story, *, fs_type: str) -> None:
        assert plane.nodes is not None
        self.driver_name, self.nodes = plane.driver_name, plane.nodes
        self.cluster, self.story = cluster, story
        self.fs_type = fs_type
        self.polling = Polling(plane, cluster, driver, story)
        self.mounts = MountsAtFirst(space, self.polling, story)
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
