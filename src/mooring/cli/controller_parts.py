"""The works of `mooring controller`: each controller on a share of the same caches, under one Lease or under its
own.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mooring.base.errors import ConfigError
from mooring.cli import (
    attachdetach,
    binder,
    csi_attacher,
    csi_provisioner,
    csi_resizer,
    csi_snapshotter,
    snapshot_controller,
)
from mooring.cli.controller_flags import (
    ATTACHDETACH,
    ATTACHER,
    BINDER,
    COMPONENTS,
    NODEHEALTH,
    PROVISIONER,
    RESIZER,
    SNAPSHOT_CONTROLLER,
    SNAPSHOTTER,
    WORKLOADS,
    NodeHealthFlags,
    ProcessWideFlags,
    enabled,
    setup_of,
)
from mooring.cli.process import Machine, Setup
from mooring.control.caches import Caches
from mooring.control.manager import Managers, Work
from mooring.control.program.terms import LeasedWork, LeasedWorks
from mooring.control.runtime import Runtime

if TYPE_CHECKING:
    from mooring.cli.sidecar import Context, Sidecar
    from mooring.csi.capabilities import DriverInfo
    from mooring.csi.driver import Driver
    from mooring.kube.cluster import Cluster

Make = Callable[[Caches], Work]


@dataclasses.dataclass(frozen=True, slots=True)
class ControllerPart:
    """One controller. make: one for each term, on a share of the caches. lock_name, namespace: of its Lease, if it has
    one of its own.
    """

    make: Make
    lock_name: str
    starting: str = "Starting"
    namespace: str = ""


class OneWork(Managers):
    """All parts under one Lease."""

    def driver_returned(self) -> None:
        """The driver was away and is back, unchanged: what failed meanwhile may be tried at once."""
        from mooring.cli.sidecar import CallsDriver

        for member in self.members.values():
            if isinstance(member, CallsDriver):
                member.driver_returned()


class Together:
    """name: of the program, and the beginning of its Lease's. Raises ConfigError for flags that a part can't use on
    this machine.
    """

    def __init__(self, name: str, setup: Setup[ProcessWideFlags], machine: Machine) -> None:
        self._name, self._setup, self._machine = name, setup, machine
        components = enabled(setup.flags)
        for component in components:
            importlib.import_module(component.module)  # now: later the loop would stand still for that
        self._enabled = frozenset(component.name for component in components)
        self._sidecars: Mapping[str, Sidecar[Any]] = {
            name: self._sidecar_of(name)
            for name in (ATTACHER, PROVISIONER, RESIZER, SNAPSHOTTER)
            if name in self._enabled
        }

    def _sidecar_of(self, name: str) -> Sidecar[Any]:
        setup = self._setup_of(name)
        match name:
            case "attacher":
                return csi_attacher.sidecar(setup)
            case "provisioner":
                return csi_provisioner.sidecar(setup, self._machine)
            case "resizer":
                return csi_resizer.sidecar(setup)
        return csi_snapshotter.sidecar(setup, self._machine)

    def _setup_of(self, name: str) -> Setup[Any]:
        return setup_of(COMPONENTS[name], self._setup)

    def sidecar(self) -> Sidecar[ProcessWideFlags]:
        """The process as one sidecar of its driver."""
        from mooring.cli.sidecar import Sidecar

        return Sidecar(
            name=self._name,
            lock_prefix=f"{self._name}-",
            probe_timeout_s=max(one.probe_timeout_s for one in self._sidecars.values()),
            log_length_max=self._setup.flags.max_grpc_log_length,
            as_kubectl=True,
            ask=self._ask,
            check_driver=self._check_driver,
            works=self._works_beside_driver,
        )

    async def _ask(self, cluster: Cluster) -> None:
        for one in self._sidecars.values():
            await one.ask(cluster)

    async def _check_driver(self, driver: Driver, info: DriverInfo) -> None:
        """Raises ConfigError, with the name of the part that can't work with this driver."""
        for name, one in self._sidecars.items():
            try:
                await one.check_driver(driver, info)
            except ConfigError as error:
                raise ConfigError(f"{name}: {error}", exit_code=error.exit_code) from None

    def works(self, runtime: Runtime) -> LeasedWorks:
        """Those of a process without a driver."""
        return self._works(self._name, runtime, self._parts_without_driver(runtime))

    def _works_beside_driver(self, context: Context[ProcessWideFlags]) -> LeasedWorks:
        parts = {name: self._part_of(one, name, context) for name, one in self._sidecars.items()}
        return self._works(
            f"{self._name}-{context.info.name}", context.runtime, parts | self._parts_without_driver(context.runtime)
        )

    def _part_of(self, sidecar: Sidecar[Any], name: str, context: Context[ProcessWideFlags]) -> ControllerPart:
        setup = self._setup_of(name)

        def make(caches: Caches) -> Work:
            return sidecar.make_work(dataclasses.replace(context, setup=setup, caches=caches))

        return ControllerPart(make, sidecar.lock_prefix + context.info.name, sidecar.starting)

    def _parts_without_driver(self, runtime: Runtime) -> dict[str, ControllerPart]:
        found: dict[str, ControllerPart] = {}
        if ATTACHDETACH in self._enabled:
            setup = self._setup_of(ATTACHDETACH)
            found[ATTACHDETACH] = ControllerPart(
                lambda caches: attachdetach.make_work(setup, runtime, caches),
                setup.flags.lock_name,
                namespace=setup.flags.leader_election_namespace,
            )
        if BINDER in self._enabled:
            found[BINDER] = ControllerPart(
                lambda caches: binder.make_work(self._setup_of(BINDER), runtime, caches), "mooring-binder"
            )
        if SNAPSHOT_CONTROLLER in self._enabled:
            snapshots = self._setup_of(SNAPSHOT_CONTROLLER)
            found[SNAPSHOT_CONTROLLER] = ControllerPart(
                lambda caches: snapshot_controller.make_work(snapshots, runtime, caches), snapshot_controller.LOCK_NAME
            )
        if NODEHEALTH in self._enabled:
            found[NODEHEALTH] = ControllerPart(
                lambda caches: _node_health(self._setup_of(NODEHEALTH), runtime, caches), "mooring-nodehealth"
            )
        if WORKLOADS in self._enabled:
            found[WORKLOADS] = ControllerPart(lambda caches: _workloads(runtime, caches), "mooring-workloads")
        return found

    def _works(self, lock_name: str, runtime: Runtime, parts: Mapping[str, ControllerPart]) -> LeasedWorks:
        if not self._setup.flags.lease_each:
            return LeasedWorks(
                (LeasedWork(self._name, lock_name, _one_ahead(lambda: _all_of(parts, Caches(runtime, self._name)))),)
            )
        caches = Caches(runtime, self._name)
        return LeasedWorks(
            tuple(_leased_work(name, part, caches) for name, part in parts.items()), beside=caches.follow
        )


def _all_of(parts: Mapping[str, ControllerPart], caches: Caches) -> OneWork:
    return OneWork(caches, {name: part.make(caches.share()) for name, part in parts.items()})


def _leased_work(name: str, part: ControllerPart, caches: Caches) -> LeasedWork:
    return LeasedWork(
        name, part.lock_name, _one_ahead(lambda: part.make(caches.share())), part.starting, namespace=part.namespace
    )


def _one_ahead(make: Callable[[], Work]) -> Callable[[], Work]:
    """The first work is made at once: what it has to load does not use up the time of a Lease, and shared caches know
    what to keep before any of them works.
    """
    waiting = [make()]
    return lambda: waiting.pop() if waiting else make()


def _node_health(setup: Setup[NodeHealthFlags], runtime: Runtime, caches: Caches) -> Work:
    from mooring.cluster.nodehealth.controller import NodeHealth
    from mooring.cluster.nodehealth.options import NodeHealthOptions

    return NodeHealth(runtime, setup.options(NodeHealthOptions), caches=caches)


def _workloads(runtime: Runtime, caches: Caches) -> Work:
    from mooring.cluster.workloads.controller import Workloads

    return Workloads(runtime, caches=caches)
