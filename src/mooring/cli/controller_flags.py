"""The flags of `mooring controller`: those of the process once, and those of each component under its own program's
names.

A component's flag keeps its name; where two components have one of the same name, or the name says nothing outside of
its program, it has the component's before it: `--attacher-timeout`, `--provisioner-timeout`. A component's flags that
do nothing are left out.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

from mooring.base.errors import ConfigError
from mooring.base.flagkinds import BOOL, FlagKind
from mooring.base.flags import Flag, Parsed, Section, flag, flags_of, gate, gates_of
from mooring.cli import (
    attachdetach,
    binder,
    csi_attacher,
    csi_provisioner,
    csi_resizer,
    csi_snapshotter,
    snapshot_controller,
)
from mooring.cli.attachdetach import AttachDetachFlags
from mooring.cli.binder import BinderFlags
from mooring.cli.csi_attacher import AttacherFlags
from mooring.cli.csi_provisioner import ProvisionerFlags
from mooring.cli.csi_resizer import ResizerFlags
from mooring.cli.csi_snapshotter import SnapshotterFlags
from mooring.cli.process import Setup
from mooring.cli.settings import check_common
from mooring.cli.snapshot_controller import SnapshotControllerFlags
from mooring.cli.tables import AsKubectlFlags, LogLengthFlags, ManagerFlags, SidecarFlags
from mooring.cluster.nodehealth.options import NodeHealthOptions

F = TypeVar("F", bound=ManagerFlags)

ATTACHER: Final = "attacher"
PROVISIONER: Final = "provisioner"
RESIZER: Final = "resizer"
SNAPSHOTTER: Final = "snapshotter"
SNAPSHOT_CONTROLLER: Final = "snapshot-controller"
ATTACHDETACH: Final = "attachdetach"
BINDER: Final = "binder"
NODEHEALTH: Final = "nodehealth"
WORKLOADS: Final = "workloads"


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeHealthFlags(NodeHealthOptions, ManagerFlags):
    """The flags of node health as a program."""


def check_nodehealth(parsed: Parsed[NodeHealthFlags]) -> None:
    """Raises ConfigError for values that can be read but not used."""
    flags = parsed.flags
    for name, seconds in (
        ("node-monitor-grace-period", flags.node_monitor_grace_period_s),
        ("node-startup-grace-period", flags.node_startup_grace_period_s),
    ):
        if seconds <= 0:
            raise ConfigError(f"{name}: must be greater than zero, as in 50s")
    for name, rate in (
        ("node-eviction-rate", flags.node_eviction_rate),
        ("secondary-node-eviction-rate", flags.secondary_node_eviction_rate),
    ):
        if not 0 <= rate < float("inf"):
            raise ConfigError(f"{name}: must not be negative, got {rate:g}")
    if not 0 <= flags.unhealthy_zone_threshold <= 1:
        raise ConfigError(f"unhealthy-zone-threshold: must be between 0 and 1, got {flags.unhealthy_zone_threshold:g}")


def _nothing(_: Parsed[ManagerFlags]) -> None:
    """There is nothing to check."""


@dataclasses.dataclass(frozen=True, slots=True)
class Component(Generic[F]):
    """One controller that can be enabled. module: its own, loaded before anything runs. kept: flags of its own election
    that it has beside the process'.
    """

    name: str
    module: str
    table: type[F]
    check: Callable[[Parsed[F]], None]
    calls_driver: bool = False
    kept: frozenset[str] = frozenset()


COMPONENTS: Final[Mapping[str, Component[Any]]] = {
    one.name: one
    for one in (
        Component(
            ATTACHER, "mooring.sidecars.attacher.controller", AttacherFlags, csi_attacher.check, calls_driver=True
        ),
        Component(
            PROVISIONER,
            "mooring.sidecars.provisioner.controller",
            ProvisionerFlags,
            csi_provisioner.check,
            calls_driver=True,
        ),
        Component(RESIZER, "mooring.sidecars.resizer.controller", ResizerFlags, csi_resizer.check, calls_driver=True),
        Component(
            SNAPSHOTTER,
            "mooring.sidecars.snapshotter.controller",
            SnapshotterFlags,
            csi_snapshotter.check,
            calls_driver=True,
        ),
        Component(
            SNAPSHOT_CONTROLLER,
            "mooring.cluster.snapshots.controller",
            SnapshotControllerFlags,
            snapshot_controller.check,
        ),
        Component(
            ATTACHDETACH,
            "mooring.cluster.attachdetach.controller",
            AttachDetachFlags,
            attachdetach.check,
            kept=frozenset({"leader-elect-resource-name", "leader-elect-resource-namespace"}),
        ),
        Component(BINDER, "mooring.cluster.binder.controller", BinderFlags, binder.check),
        Component(NODEHEALTH, "mooring.cluster.nodehealth.controller", NodeHealthFlags, check_nodehealth),
        Component(WORKLOADS, "mooring.cluster.workloads.controller", ManagerFlags, _nothing),
    )
}


def _read_names(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


_NAMES: Final[FlagKind[tuple[str, ...]]] = FlagKind("name,...", _read_names, show=",".join)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProcessWideFlags(AsKubectlFlags, LogLengthFlags, SidecarFlags):
    """The flags that all components have in common."""

    enable: tuple[str, ...] = flag(
        "enable", _NAMES, (), f"The controllers that run. There are: {', '.join(COMPONENTS)}."
    )
    lease_each: bool = flag(
        "leader-election-lease-each",
        BOOL,
        False,
        "A Lease for each controller, of the name that it has as a program of its own, in place of one for all.",
        Section.ELECTION,
    )


_SHARED: Final = frozenset(field.name for field in dataclasses.fields(ProcessWideFlags))
_DROPPED: Final = frozenset({"master"})
"""--kubeconfig says it."""
_VAGUE: Final = frozenset({"controllers"})
"""Names that say nothing outside of their program."""
_USELESS: Final = (Section.COMPATIBLE, Section.UNAVAILABLE)


def _rows_of(component: Component[Any]) -> Iterator[Flag]:
    """The flags that are the component's own."""
    for row in flags_of(component.table).values():
        if row.name in component.kept or (
            row.field not in _SHARED and row.name not in _DROPPED and row.section not in _USELESS
        ):
            yield row


def _named() -> Mapping[str, Mapping[str, Flag]]:
    """The own flags of each component, by their names here."""
    own = {name: tuple(_rows_of(component)) for name, component in COMPONENTS.items()}
    count = Counter(row.name for rows in own.values() for row in rows)
    return {
        name: {f"{name}-{row.name}" if count[row.name] > 1 or row.name in _VAGUE else row.name: row for row in rows}
        for name, rows in own.items()
    }


OWN: Final = _named()
"""By component: each flag as its program has it, by its name here."""


def _field(component: str, row: Flag) -> str:
    return f"{component.replace('-', '_')}_{row.field}"


_GATES: Final = {name: one for component in COMPONENTS.values() for name, one in gates_of(component.table).items()}

ControllerFlags: Final[type[ProcessWideFlags]] = dataclasses.make_dataclass(
    "ControllerFlags",
    [
        *((f"gate_{name}", bool, gate(name, one.stage, one.default)) for name, one in _GATES.items()),
        *(
            (_field(component, row), Any, flag(name, row.kind, row.default, f"{component}: {row.text}", row.section))
            for component, rows in OWN.items()
            for name, row in rows.items()
        ),
    ],
    bases=(ProcessWideFlags,),
    frozen=True,
    kw_only=True,
)
"""The whole table. The fields of a component begin with its name; `setup_of` gives them to it."""


def setup_of(component: Component[F], setup: Setup[ProcessWideFlags]) -> Setup[F]:
    """The command line as the component's own program would have read it."""
    return Setup(setup.prog, _flags_of(component, setup.flags), _given_to(component, setup.given), setup.gates)


def _flags_of(component: Component[F], flags: ProcessWideFlags) -> F:
    own = {row.field: getattr(flags, _field(component.name, row)) for row in OWN[component.name].values()}
    fields = {field.name for field in dataclasses.fields(component.table)}
    return component.table(**{name: getattr(flags, name) for name in _SHARED & fields} | own)


def _given_to(component: Component[Any], given: Collection[str]) -> frozenset[str]:
    own = OWN[component.name]
    return frozenset(own[name].name if name in own else name for name in given)


def enabled(flags: ProcessWideFlags) -> tuple[Component[Any], ...]:
    """Raises ConfigError for names that nothing has, for none, and for one that is named twice."""
    there_are = f"there are {', '.join(COMPONENTS)}"
    if not flags.enable:
        raise ConfigError(
            f"enable: name the controllers that are to run, as in --enable=attacher,provisioner; {there_are}"
        )
    for name, count in Counter(flags.enable).items():
        if name not in COMPONENTS:
            raise ConfigError(f"enable: {name!r} is not known; {there_are}")
        if count > 1:
            raise ConfigError(f"enable: {name} is named twice")
    return tuple(component for name, component in COMPONENTS.items() if name in flags.enable)


def check(parsed: Parsed[ProcessWideFlags]) -> None:
    """Raises ConfigError for values that can be read but not used, by the process or by one of its components."""
    chosen = enabled(parsed.flags)
    check_common(parsed)
    _check_meant_for(parsed, {component.name for component in chosen})
    if not any(component.calls_driver for component in chosen):
        for name in ("csi-address", "exit-on-lost-connection", "max-grpc-log-length"):
            if name in parsed.given:
                raise ConfigError(f"{name}: of the controllers that are enabled none calls a driver; drop it")
    if parsed.flags.lease_each and not parsed.flags.leader_election:
        raise ConfigError("leader-election-lease-each: needs --leader-election")
    for component in chosen:
        of_its_own = Parsed(_flags_of(component, parsed.flags), _given_to(component, parsed.given), (), (), False)
        try:
            component.check(of_its_own)
        except ConfigError as error:
            raise ConfigError(f"{component.name}: {error}", exit_code=error.exit_code) from None


def _check_meant_for(parsed: Parsed[ProcessWideFlags], chosen: Collection[str]) -> None:
    for component, rows in OWN.items():
        unused = sorted(rows.keys() & parsed.given)
        if component not in chosen and unused:
            raise ConfigError(f"{unused[0]}: is a flag of {component}, which is not enabled")
