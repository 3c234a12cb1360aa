"""`csi-provisioner`: external-provisioner by its name, its flags and its exit codes. `mooring provisioner` is the same
program.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from mooring.base.errors import ConfigError
from mooring.base.flagkinds import BOOL, FILE, STRING
from mooring.base.flags import Parsed, Section, Spellings, flag
from mooring.cli import election
from mooring.cli.attributes_classes import is_without_classes
from mooring.cli.border import entered
from mooring.cli.election import namespace_of_pod
from mooring.cli.limits import check_call_times, check_not_negative, check_workers
from mooring.cli.process import Command, Machine, Setup, run_command
from mooring.cli.settings import check_common
from mooring.cli.tables import BURST, RATE, REMOVED, LogLengthFlags, SidecarFlags
from mooring.sidecars.provisioner.options import CapacityOptions, NodeOptions, ProvisionerOptions, Rules

if TYPE_CHECKING:
    from mooring.cli.sidecar import Context, Sidecar, SidecarWork
    from mooring.kube.cluster import Cluster

SPELLINGS: Final[Spellings] = {
    "capacity-controller-deployment-mode": {"central": "--enable-capacity"},
    "enable-capacity": {"central": "--enable-capacity", "immediate-binding": "--capacity-for-immediate-binding"},
}
"""Flags of external-provisioner before 3.0, whose README still has them. Differs from external-provisioner 6.3,
which refuses them.
"""

_LIMITS: Final = frozenset({"kube-api-capacity-qps", "kube-api-capacity-burst"})
_UUID_LENGTH_MAX: Final = 32


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProvisionerFlags(Rules, NodeOptions, CapacityOptions, ProvisionerOptions, LogLengthFlags, SidecarFlags):
    """node_name, namespace: never said by flags."""

    node_name: str = ""
    namespace: str = ""
    kubeconfig: str = flag(
        "kubeconfig", FILE, "", "Path to the kubeconfig file; $KUBECONFIG takes precedence. Neither: the pod's own."
    )
    master: str = flag("master", STRING, "", "URL of the API server, in place of the one that the kubeconfig names.")
    enable_capacity: bool = flag(
        "enable-capacity", BOOL, False, "Publish the driver's capacity as CSIStorageCapacity objects."
    )
    kube_api_capacity_qps: float = flag(
        "kube-api-capacity-qps",
        RATE,
        1.0,
        "Requests a second about capacity. No limit, unless kube-api-capacity-burst is set: then 1.",
    )
    kube_api_capacity_burst: int = flag(
        "kube-api-capacity-burst",
        BURST,
        5,
        "Requests at once about capacity. No limit, unless kube-api-capacity-qps is set: then 5.",
    )
    node_deployment: bool = flag(
        "node-deployment", BOOL, False, "Serve the local volumes of the node named by $NODE_NAME."
    )
    enable_pprof: bool = flag("enable-pprof", BOOL, False, "There are no Go profiles here.", Section.COMPATIBLE)


def main() -> int:
    return entered(sys.argv[0], lambda: run(sys.argv[1:], sys.argv[0]))


def run(argv: Sequence[str], prog: str, machine: Machine | None = None) -> int:
    """Runs until it is told to end; gives the exit code. argv: the words after the name. prog: the name as typed, for
    --version.
    """
    around = machine or Machine()
    command = dataclasses.replace(COMMAND, check_first=lambda parsed: _check_node(parsed.flags, around))
    return run_command(command, argv, prog, lambda setup: _serve(setup, around))


def check(parsed: Parsed[ProvisionerFlags]) -> None:
    """Raises ConfigError for values that can be read but not used."""
    check_common(parsed)
    flags = parsed.flags
    counts = {
        "worker-threads": flags.worker_threads,
        "cloning-protection-threads": flags.cloning_protection_threads,
        "capacity-threads": flags.threads,
    }
    check_workers(counts)
    check_call_times(flags, capacity_poll_interval=flags.poll_interval_s)
    delays_s = {
        "snapshot-orphan-sweep-interval": flags.snapshot_orphan_sweep_interval_s,
        "node-deployment-base-delay": flags.base_delay_s,
        "node-deployment-max-delay": flags.max_delay_s,
    }
    check_not_negative(delays_s)
    length = flags.volume_name_uuid_length
    if length != -1 and not 1 <= length <= _UUID_LENGTH_MAX:
        raise ConfigError(f"volume-name-uuid-length: must be -1, or between 1 and {_UUID_LENGTH_MAX}; got {length}")
    if flags.kube_api_capacity_qps > 0 and flags.kube_api_capacity_burst <= 0:
        raise ConfigError("kube-api-capacity-burst: must be greater than 0 when kube-api-capacity-qps is")
    if flags.owner_level < -1:
        raise ConfigError(f"capacity-ownerref-level: must be -1 or more, got {flags.owner_level}")


def _check_node(flags: ProvisionerFlags, machine: Machine) -> None:
    """Raises ConfigError."""
    if flags.node_deployment and not machine.environ.get("NODE_NAME"):
        raise ConfigError("node-deployment: the environment variable NODE_NAME must name the node")


COMMAND: Final[Command[ProvisionerFlags]] = Command(
    ProvisionerFlags,
    removed=REMOVED,
    check=check,
    spellings=SPELLINGS,
    about="Makes and deletes the volumes of one CSI driver, in the place of external-provisioner: in a pod, beside "
    "the driver.",
    example="csi-provisioner --csi-address=/run/csi/socket --leader-election \\\n  --http-endpoint=:8080",
    drop_in=True,
)


def _serve(setup: Setup[ProvisionerFlags], machine: Machine) -> int:
    from mooring.cli.sidecar import run_sidecar  # here, so that --version and --help need not load it

    kubeconfig = machine.environ.get("KUBECONFIG") or setup.flags.kubeconfig  # as upstream, in this sidecar alone
    setup = dataclasses.replace(setup, flags=dataclasses.replace(setup.flags, kubeconfig=kubeconfig))
    return run_sidecar(sidecar(setup, machine), setup, machine)


def sidecar(setup: Setup[ProvisionerFlags], machine: Machine) -> Sidecar[ProvisionerFlags]:
    """The provisioner's part of the sidecar. Raises ConfigError."""
    from mooring.cli.sidecar import Sidecar

    given = options(setup, machine)
    found: dict[str, Any] = {
        "classes": True,
        "host": machine.host_name(),
        "namespace": election.namespace(setup.flags, machine),
    }

    async def ask(cluster: Cluster) -> None:
        found["classes"] = not await is_without_classes(setup.flags.feature_gates, cluster)

    return Sidecar(
        name="csi-provisioner",
        starting="Starting provisioner controller",
        lock_prefix="",
        probe_timeout_s=setup.flags.timeout_s,
        log_length_max=setup.flags.max_grpc_log_length,
        server=setup.flags.master,
        make_work=lambda context: _provisioner(context, given, found),
        ask=ask,
    )


def _provisioner(
    context: Context[ProvisionerFlags], given: ProvisionerOptions, found: Mapping[str, Any]
) -> SidecarWork:
    """found: what the machine says, and what was asked before the driver was connected, by names of their own."""
    from mooring.control.events import EventRecorder
    from mooring.sidecars.provisioner.controller import Provisioner
    from mooring.sidecars.provisioner.intents.journal import Journal, JournalMetrics
    from mooring.sidecars.provisioner.intents.lease_codec import JournalLocation

    runtime, driver_name = context.runtime, context.info.name
    cluster, clock, randomness = runtime.cluster, runtime.clock, runtime.randomness
    if not found["classes"]:
        given = dataclasses.replace(given, rules=dataclasses.replace(given.rules, volume_attributes_class=False))
    identity = f"{found['host']}_{randomness.uid()}"
    events = EventRecorder(cluster, f"{driver_name}_{identity}", clock=clock, randomness=randomness)
    place = JournalLocation(found["namespace"], driver_name, given.node.node_name if given.node else "")
    intents = Journal(cluster, place, identity, clock, runtime.metrics.once(JournalMetrics))
    return Provisioner(runtime, context.driver, context.info, given, events, intents=intents, caches=context.caches)


def options(setup: Setup[ProvisionerFlags], machine: Machine) -> ProvisionerOptions:
    """With rules, capacity and node, as the pod's surroundings have them, too. Raises ConfigError."""
    return setup.options(
        ProvisionerOptions,
        rules=setup.options(Rules),
        capacity=_capacity(setup, machine) if setup.flags.enable_capacity else None,
        node=_node(setup, machine) if setup.flags.node_deployment else None,
    )


def _capacity(setup: Setup[ProvisionerFlags], machine: Machine) -> CapacityOptions:
    flags, pod_name = setup.flags, machine.environ.get("POD_NAME", "")
    namespace = machine.environ.get("NAMESPACE") or namespace_of_pod(
        machine
    )  # the first is upstream's, the second its README's
    if not namespace:
        raise ConfigError(
            "enable-capacity: the environment variable POD_NAMESPACE (or NAMESPACE) must name the pod's namespace"
        )
    if not pod_name and flags.owner_level >= 0:
        raise ConfigError(
            "enable-capacity: the environment variable POD_NAME must name the pod, or set --capacity-ownerref-level=-1"
        )
    qps = flags.kube_api_capacity_qps if _LIMITS & setup.given else None
    return setup.options(
        CapacityOptions, namespace=namespace, pod_name=pod_name, qps=qps, burst=flags.kube_api_capacity_burst
    )


def _node(setup: Setup[ProvisionerFlags], machine: Machine) -> NodeOptions:
    _check_node(setup.flags, machine)
    return setup.options(NodeOptions, node_name=machine.environ["NODE_NAME"])


if __name__ == "__main__":
    sys.exit(main())
