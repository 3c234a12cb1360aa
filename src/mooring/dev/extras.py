"""The parts of a plane that a driver needs for more than volumes that come and go: growth, classes of attributes, snapshots."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from mooring.controllers.resizer.node_growth import grows_on_nodes
from mooring.csi.driver_capabilities import DriverCapabilities, capabilities_of
from mooring.csi.session import Session

_CALL_S_MAX: Final = 5.0


@dataclasses.dataclass(frozen=True, slots=True)
class Extras:
    """What the driver can, and whether snapshots are wanted. grows_on_nodes: there alone, without the controller."""

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
        return "GetPluginCapabilities does not say CONTROLLER_SERVICE"
    return "" if driver.creates else "ControllerGetCapabilities does not say CREATE_DELETE_VOLUME"
