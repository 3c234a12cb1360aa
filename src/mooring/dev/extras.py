"""The parts of a plane that a driver needs for more than creating and deleting volumes: growth, classes of attributes,
snapshots.

The kinds of snapshots are the definitions in `crds/`, created at the first start and brought up to date later. An
annotation marks each definition that Mooring made. One that is there without it is somebody else's, and stays as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from importlib import resources
from typing import Any, Final

import msgspec

from mooring.api.definitions import CUSTOM_RESOURCE_DEFINITIONS
from mooring.apiserver.bodies.yamlbody import parse_yaml
from mooring.csi.driver_capabilities import DriverCapabilities, capabilities_of
from mooring.csi.session import Session
from mooring.kube.cluster import Cluster
from mooring.kube.errors import NotFound
from mooring.sidecars.resizer.controller import grows_on_nodes

_CALL_S_MAX: Final = 5.0
NO_CONTROLLER: Final = "GetPluginCapabilities does not say CONTROLLER_SERVICE"
"""So nobody asks what the controller can do."""


class Extras(msgspec.Struct, frozen=True):
    """The driver's further abilities, and whether snapshots are wanted. grows_on_nodes: there alone, without the
    controller.
    """

    grows: bool = False
    grows_on_nodes: bool = False
    modifies: bool = False
    makes_snapshots: bool = False
    makes_group_snapshots: bool = False
    wants_snapshots: bool = True
    no_provisioner: str = ""
    """Why no volumes are made, "" where they are."""

    @property
    def resizes(self) -> bool:
        """True where there is work for a resizer."""
        return self.grows or self.modifies

    @property
    def snapshots(self) -> bool:
        return self.makes_snapshots and self.wants_snapshots

    @property
    def group_snapshots(self) -> bool:
        return self.snapshots and self.makes_group_snapshots

    def absent(self) -> Iterator[str]:
        """A line for each part that is not there."""
        if self.no_provisioner:
            yield f"No provisioner: {self.no_provisioner}. Claims stay Pending."
        if self.no_provisioner == NO_CONTROLLER:
            yield f"No resizer, no snapshotter: {NO_CONTROLLER}."
            return
        if not self.resizes:
            yield "No resizer: the driver neither grows nor modifies volumes."
        if not self.makes_snapshots:
            yield "No snapshot controller, no snapshotter: the driver makes no snapshots."
        elif not self.wants_snapshots:
            yield "No snapshot controller, no snapshotter: --snapshots=false."
        elif not self.makes_group_snapshots:
            yield "No group snapshots: the driver makes none."


async def extras_of(session: Session, *, wants_snapshots: bool) -> Extras:
    """session: started. Raises DriverError."""
    driver = capabilities_of(session.info)
    on_nodes = driver.has_controller and not driver.expands and await grows_on_nodes(session.driver, _CALL_S_MAX)
    return Extras(
        driver.expands or on_nodes,
        on_nodes,
        driver.modifies,
        driver.snapshots,
        driver.group_snapshots,
        wants_snapshots,
        no_provisioner(driver),
    )


def no_provisioner(driver: DriverCapabilities) -> str:
    """Why no volumes are made, "" where they are."""
    if not driver.has_controller:
        return NO_CONTROLLER
    return "" if driver.creates else "ControllerGetCapabilities does not say CREATE_DELETE_VOLUME"


DIGEST: Final = "mooring.dev/definition"
"""The annotation with the digest of the definition as it was made."""
_FILES: Final = ("volumesnapshotclasses.yaml", "volumesnapshotcontents.yaml", "volumesnapshots.yaml")
_GROUP_FILES: Final = (
    "volumegroupsnapshotclasses.yaml",
    "volumegroupsnapshotcontents.yaml",
    "volumegroupsnapshots.yaml",
)


def definitions(*, groups: bool = True) -> Iterator[dict[str, Any]]:
    """With their digests. groups: the kinds of group snapshots, too."""
    folder = resources.files("mooring.dev") / "crds"
    for name in _FILES + (_GROUP_FILES if groups else ()):
        content = (folder / name).read_bytes()
        definition = parse_yaml(content)
        definition["metadata"]["annotations"][DIGEST] = hashlib.sha256(content).hexdigest()[:16]
        yield definition


async def install(cluster: Cluster, *, groups: bool = True) -> None:
    """The server serves the kinds once this has returned."""
    for definition in definitions(groups=groups):
        name = definition["metadata"]["name"]
        try:
            there = await cluster.get(CUSTOM_RESOURCE_DEFINITIONS, name)
        except NotFound:
            await cluster.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
            continue
        digest, ours = (one["metadata"].get("annotations", {}).get(DIGEST) for one in (there, definition))
        if digest is not None and digest != ours:
            await cluster.replace(CUSTOM_RESOURCE_DEFINITIONS, _updated(there, definition))


def _updated(there: dict[str, Any], definition: dict[str, Any]) -> dict[str, Any]:
    """With what others have written on it."""
    annotations = {**there["metadata"].get("annotations", {}), **definition["metadata"]["annotations"]}
    return {**there, "metadata": {**there["metadata"], "annotations": annotations}, "spec": definition["spec"]}
