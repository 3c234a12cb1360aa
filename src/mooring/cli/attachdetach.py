"""`mooring attachdetach`: attaches and detaches the volumes of pods, in place of kube-controller-manager's own
controller.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from mooring.base.errors import ConfigError
from mooring.base.flagkinds import BOOL, DURATION, LABELS, STRING
from mooring.base.flags import Parsed, Section, flag
from mooring.cli.limits import check_not_negative, check_workers
from mooring.cli.process import Command, Machine, Setup, run_command
from mooring.cli.settings import check_manager
from mooring.cli.tables import BURST, RATE, WARM_STANDBY, AsKubectlFlags, ManagerFlags
from mooring.cluster.attachdetach.options import AttachDetachOptions

if TYPE_CHECKING:
    from mooring.control.caches import Caches
    from mooring.control.manager import Work
    from mooring.control.runtime import Runtime

_WORKERS_MAX: Final = 1000
_SYNC_S_MIN: Final = 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class AttachDetachFlags(AttachDetachOptions, AsKubectlFlags, ManagerFlags):
    """Names and defaults are kube-controller-manager's, also where the other controllers of Mooring have a
    sidecar's.
    """

    kube_api_qps: float = flag(
        "kube-api-qps",
        RATE,
        20.0,
        "Requests a second to the API server. No limit, unless kube-api-burst is set: then 20.",
        Section.CLUSTER,
    )
    kube_api_burst: int = flag(
        "kube-api-burst",
        BURST,
        30,
        "Requests at once to the API server. No limit, unless kube-api-qps is set: then 30.",
        Section.CLUSTER,
    )
    sync_period_s: float = flag(
        "attach-detach-reconcile-sync-period",
        DURATION,
        60.0,
        "Changes of attachments are seen at once.",
        Section.COMPATIBLE,
    )
    disable_sync: bool = flag(
        "disable-attach-detach-reconcile-sync", BOOL, False, "There are no rounds.", Section.COMPATIBLE
    )
    leader_election: bool = flag("leader-elect", BOOL, True, "Work only while holding a Lease.", Section.ELECTION)
    leader_election_namespace: str = flag(
        "leader-elect-resource-namespace", STRING, "kube-system", "Namespace of the Lease.", Section.ELECTION
    )
    lock_name: str = flag(
        "leader-elect-resource-name",
        STRING,
        "mooring-attachdetach",
        "Name of the Lease. kube-controller-manager holds another one, so this Lease does not keep the two apart.",
        Section.ELECTION,
    )
    lease_duration_s: float = flag(
        "leader-elect-lease-duration",
        DURATION,
        15.0,
        "How long others wait before they take a lost Lease.",
        Section.ELECTION,
    )
    renew_deadline_s: float = flag(
        "leader-elect-renew-deadline", DURATION, 10.0, "How long the leader tries to renew its Lease.", Section.ELECTION
    )
    retry_period_s: float = flag(
        "leader-elect-retry-period", DURATION, 2.0, "How long to wait between tries.", Section.ELECTION
    )
    election_labels: Mapping[str, str] = flag(
        "leader-elect-labels", LABELS, {}, "Labels of the Lease, as key:value,key2:value2.", Section.ELECTION
    )
    warm_standby: bool = flag("leader-elect-warm-standby", BOOL, True, WARM_STANDBY, Section.ELECTION)


def check(parsed: Parsed[AttachDetachFlags]) -> None:
    check_manager(parsed)
    flags = parsed.flags
    if flags.sync_period_s < _SYNC_S_MIN:
        raise ConfigError(
            "duration time must be greater than one second as set via command line option reconcile-sync-loop-period"
        )
    check_not_negative({"force-detach-after": flags.force_after_s})
    check_workers({"workers": flags.workers}, _WORKERS_MAX)
    if not flags.lock_name:
        raise ConfigError("leader-elect-resource-name: must not be empty")


COMMAND: Final[Command[AttachDetachFlags]] = Command(
    AttachDetachFlags,
    check=check,
    about="Attaches and detaches the volumes of pods, in place of kube-controller-manager's own controller, which is "
    "switched off there "
    "with --controllers=*,-persistentvolume-attach-detach-controller.",
    example="mooring attachdetach --kubeconfig ./state/kubeconfig --leader-elect=false",
)


def run(argv: Sequence[str], prog: str, machine: Machine | None = None) -> int:
    """argv: the words after `mooring attachdetach`. Gives the exit code."""
    return run_command(COMMAND, argv, prog, lambda setup: _serve(setup, machine or Machine()))


def _serve(setup: Setup[AttachDetachFlags], machine: Machine) -> int:
    from mooring.cli.manager import run_manager  # here, so that --version and --help need not load it

    name = "mooring-attachdetach"
    return run_manager(name, setup, machine, lambda runtime: make_work(setup, runtime), lock_name=setup.flags.lock_name)


def make_work(setup: Setup[AttachDetachFlags], runtime: Runtime, caches: Caches | None = None) -> Work:
    """The controller for one term. caches: a share of the process', None for its own."""
    from mooring.cluster.attachdetach.controller import AttachDetach

    return AttachDetach(runtime, setup.options(AttachDetachOptions), caches=caches)
