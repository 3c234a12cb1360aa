"""The parts that every controller of the provisioner is built from, handed on as one."""

from __future__ import annotations

import dataclasses

from mooring.control.events import EventRecorder
from mooring.control.runtime import Runtime
from mooring.control.secrets import SecretCache
from mooring.csi.driver import Driver
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.sidecars.provisioner.caches import ProvisionerCaches
from mooring.sidecars.provisioner.options import ProvisionerOptions


@dataclasses.dataclass(frozen=True, slots=True)
class Environment:
    """caches: may be asked for handlers until they run. events: of the driver's source."""

    runtime: Runtime
    driver: Driver
    capabilities: DriverCapabilities
    options: ProvisionerOptions
    caches: ProvisionerCaches
    events: EventRecorder
    secrets: SecretCache
