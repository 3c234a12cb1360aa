"""`csi-provisioner`: external-provisioner by its name, its flags and its exit codes. `mooring provisioner` is the same program."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from mooring.base.errors import ConfigError
from mooring.base.flagkinds import BOOL, DURATION, GATES, INT, STRING, UINT, Gate, Stage, gates_help
from mooring.base.flags import Parsed, Section, Spellings, flag
from mooring.cli.attributes_classes import GATE, is_without_classes
from mooring.cli.election import namespace_of_pod
from mooring.cli.limits import check_call_times, check_not_negative, check_workers
from mooring.cli.process import Command, Machine, Setup, run_command
from mooring.cli.settings import check_common
from mooring.cli.tables import BURST, RATE, REMOVED, SidecarFlags

if TYPE_CHECKING:
    from mooring.cli.sidecar import Context, Sidecar, Work
    from mooring.controllers.provisioner.options import CapacityOptions, NodeOptions, ProvisionerOptions
    from mooring.kube.cluster import Cluster

KNOWN_GATES: Final[Mapping[str, Gate]] = {
    "CrossNamespaceVolumeDataSource": Gate(Stage.ALPHA, False),
    "ReleaseLeaderElectionOnExit": Gate(Stage.ALPHA, False),
    "Topology": Gate(Stage.GA, True),
    GATE: Gate(Stage.GA, True),
}

SPELLINGS: Final[Spellings] = {
    "capacity-controller-deployment-mode": {"central": "--enable-capacity"},
    "enable-capacity": {"central": "--enable-capacity", "immediate-binding": "--capacity-for-immediate-binding"},
}
"""Of external-provisioner before 3.0, whose README still has them. Differs from external-provisioner 6.3, which refuses them."""

_LIMITS: Final = frozenset({"kube-api-capacity-qps", "kube-api-capacity-burst"})
_UUID_LENGTH_MAX: Final = 32


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProvisionerFlags(SidecarFlags):
    feature_gates: Mapping[str, bool] = flag("feature-gates", GATES, {}, gates_help(KNOWN_GATES))
    kubeconfig: str = flag("kubeconfig", STRING, "", "Path to the kubeconfig file; $KUBECONFIG goes before it. Neither: the pod's own.")
    master: str = flag("master", STRING, "", "URL of the API server, in place of the one that the kubeconfig names.")
    timeout_s: float = flag("timeout", DURATION, 10.0, "Timeout for waiting for creation or deletion of a volume.")
    worker_threads: int = flag("worker-threads", UINT, 100, "How many volumes are created, and how many deleted, at once at the most.")
    retry_interval_start_s: float = flag(
        "retry-interval-start", DURATION, 1.0, "Initial retry interval of failed provisioning or deletion. It doubles with each failure."
    )
    retry_interval_max_s: float = flag("retry-interval-max", DURATION, 300.0, "Maximum retry interval of failed provisioning or deletion.")
    volume_name_prefix: str = flag("volume-name-prefix", STRING, "pvc", "Prefix of the name of a created volume.")
    volume_name_uuid_length: int = flag(
        "volume-name-uuid-length", INT, -1, "Characters of the claim's uid in the name of a created volume; -1 takes it as it is."
    )
    default_fstype: str = flag("default-fstype", STRING, "", "The filesystem type of volumes whose StorageClass names none.")
    extra_create_metadata: bool = flag(
        "extra-create-metadata", BOOL, False, "Tell the driver the names of claim and volume, as parameters of CreateVolume."
    )
    strict_topology: bool = flag("strict-topology", BOOL, False, "With a selected node, ask for a volume there and nowhere else.")
    immediate_topology: bool = flag(
        "immediate-topology", BOOL, True, "Without a selected node, ask for a volume anywhere in the cluster; false: say nothing of places."
    )
    controller_publish_readonly: bool = flag(
        "controller-publish-readonly", BOOL, False, "Mark volumes that are for many readers alone as read-only."
    )
    prevent_volume_mode_conversion: bool = flag(
        "prevent-volume-mode-conversion", BOOL, True, "Refuse to restore a snapshot in another volume mode, unless its content allows it."
    )
    cloning_protection_threads: int = flag("cloning-protection-threads", UINT, 1, "Workers that release the sources of clones.")
    snapshot_orphan_sweep_interval_s: float = flag(
        "snapshot-orphan-sweep-interval", DURATION, 300.0, "How often snapshots that no claim needs any more are released; 0 is never."
    )
    enable_capacity: bool = flag("enable-capacity", BOOL, False, "Publish the driver's capacity as CSIStorageCapacity objects.")
    capacity_threads: int = flag("capacity-threads", UINT, 1, "How many GetCapacity calls run at once at the most.")
    capacity_poll_interval_s: float = flag("capacity-poll-interval", DURATION, 60.0, "How often all capacity is asked for again.")
    capacity_for_immediate_binding: bool = flag(
        "capacity-for-immediate-binding", BOOL, False, "Publish capacity for classes with immediate binding, too."
    )
    capacity_ownerref_level: int = flag(
        "capacity-ownerref-level", INT, 1, "Who owns the capacity objects: -1 nobody, 0 the pod, 1 its controller, 2 that one's, ..."
    )
    kube_api_capacity_qps: float = flag(
        "kube-api-capacity-qps", RATE, 1.0, "Requests a second about capacity. No limit, unless kube-api-capacity-burst is set: then 1."
    )
    kube_api_capacity_burst: int = flag(
        "kube-api-capacity-burst", BURST, 5, "Requests at once about capacity. No limit, unless kube-api-capacity-qps is set: then 5."
    )
    node_deployment: bool = flag("node-deployment", BOOL, False, "Serve the local volumes of the node named by $NODE_NAME.")
    node_deployment_immediate_binding: bool = flag(
        "node-deployment-immediate-binding", BOOL, True, "With node-deployment: take claims with immediate binding, too."
    )
    node_deployment_base_delay_s: float = flag(
        "node-deployment-base-delay", DURATION, 20.0, "With node-deployment: how long to wait at first before taking such a claim."
    )
    node_deployment_max_delay_s: float = flag(
        "node-deployment-max-delay", DURATION, 60.0, "With node-deployment: how long to wait at the most."
    )
    enable_pprof: bool = flag("enable-pprof", BOOL, False, "There are no Go profiles here.", Section.COMPATIBLE)
    max_grpc_log_length: int = flag("max-grpc-log-length", INT, -1, "Characters of a logged gRPC response at the most; -1 is no limit.")


def main() -> int:
    return run(sys.argv[1:], sys.argv[0])


def run(argv: Sequence[str], prog: str, machine: Machine | None = None) -> int:
    """Runs until it is told to end; gives the exit code. argv: the words after the name. prog: the name as typed, for --version."""
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
        "capacity-threads": flags.capacity_threads,
    }
    check_workers(counts)
    check_call_times(flags, capacity_poll_interval=flags.capacity_poll_interval_s)
    delays_s = {
        "snapshot-orphan-sweep-interval": flags.snapshot_orphan_sweep_interval_s,
        "node-deployment-base-delay": flags.node_deployment_base_delay_s,
        "node-deployment-max-delay": flags.node_deployment_max_delay_s,
    }
    check_not_negative(delays_s)
    length = flags.volume_name_uuid_length
    if length != -1 and not 1 <= length <= _UUID_LENGTH_MAX:
        raise ConfigError(f"volume-name-uuid-length: must be -1, or between 1 and {_UUID_LENGTH_MAX}; got {length}")
    if flags.kube_api_capacity_qps > 0 and flags.kube_api_capacity_burst <= 0:
        raise ConfigError("kube-api-capacity-burst: must be greater than 0 when kube-api-capacity-qps is")
    if flags.capacity_ownerref_level < -1:
        raise ConfigError(f"capacity-ownerref-level: must be -1 or more, got {flags.capacity_ownerref_level}")


def _check_node(flags: ProvisionerFlags, machine: Machine) -> None:
    """Raises ConfigError."""
    if flags.node_deployment and not machine.environ.get("NODE_NAME"):
        raise ConfigError("node-deployment: the environment variable NODE_NAME must name the node")


COMMAND: Final[Command[ProvisionerFlags]] = Command(
    ProvisionerFlags,
    KNOWN_GATES,
    REMOVED,
    check,
    spellings=SPELLINGS,
    about="Makes and deletes the volumes of one CSI driver, in the place of external-provisioner: in a pod, beside the driver.",
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

    options = options_of(setup, machine)

    async def ask(cluster: Cluster) -> None:
        nonlocal options
        if await is_without_classes(setup.flags.feature_gates, cluster):
            options = dataclasses.replace(options, rules=dataclasses.replace(options.rules, volume_attributes_class=False))

    return Sidecar(
        name="csi-provisioner",
        starting="Starting provisioner controller",
        lock_prefix="",
        probe_timeout_s=setup.flags.timeout_s,
        log_length_max=setup.flags.max_grpc_log_length,
        server=setup.flags.master,
        make_work=lambda context: _provisioner(context, options, machine),
        ask=ask,
    )


def _provisioner(context: Context[ProvisionerFlags], options: ProvisionerOptions, machine: Machine) -> Work:
    from mooring.cli.election import namespace
    from mooring.control.events import EventRecorder
    from mooring.controllers.provisioner.controller import Provisioner
    from mooring.controllers.provisioner.intents.journal import Journal
    from mooring.controllers.provisioner.intents.lease_codec import JournalLocation
    from mooring.controllers.provisioner.metrics import JournalMetrics

    runtime, driver_name = context.runtime, context.info.name
    cluster, clock, randomness = runtime.cluster, runtime.clock, runtime.randomness
    identity = f"{machine.host_name()}_{randomness.uid()}"
    events = EventRecorder(cluster, f"{driver_name}_{identity}", clock=clock, randomness=randomness)
    place = JournalLocation(namespace(context.setup.flags, machine), driver_name, options.node.node_name if options.node else "")
    intents = Journal(cluster, place, identity, clock, runtime.metrics.once(JournalMetrics))
    return Provisioner(runtime, context.driver, context.info, options, events, intents=intents, caches=context.caches)


def options_of(setup: Setup[ProvisionerFlags], machine: Machine) -> ProvisionerOptions:
    """The controller's options, as flags, gates and the pod's surroundings have them. Raises ConfigError."""
    from mooring.controllers.provisioner.options import ProvisionerOptions, Rules

    flags, gates = setup.flags, setup.gates
    rules = Rules(
        volume_name_prefix=flags.volume_name_prefix,
        volume_name_uuid_length=flags.volume_name_uuid_length,
        default_fstype=flags.default_fstype,
        extra_create_metadata=flags.extra_create_metadata,
        strict_topology=flags.strict_topology,
        immediate_topology=flags.immediate_topology,
        controller_publish_readonly=flags.controller_publish_readonly,
        prevent_volume_mode_conversion=flags.prevent_volume_mode_conversion,
        topology=gates["Topology"],
        volume_attributes_class=gates[GATE],
        cross_namespace_data_source=gates["CrossNamespaceVolumeDataSource"],
    )
    return ProvisionerOptions(
        rules=rules,
        timeout_s=flags.timeout_s,
        worker_threads=flags.worker_threads,
        retry_interval_start_s=min(flags.retry_interval_start_s, flags.retry_interval_max_s),
        retry_interval_max_s=flags.retry_interval_max_s,
        cloning_protection_threads=flags.cloning_protection_threads,
        snapshot_orphan_sweep_interval_s=flags.snapshot_orphan_sweep_interval_s,
        capacity=_capacity(setup, machine) if flags.enable_capacity else None,
        node=_node(flags, machine) if flags.node_deployment else None,
    )


def _capacity(setup: Setup[ProvisionerFlags], machine: Machine) -> CapacityOptions:
    from mooring.controllers.provisioner.options import CapacityOptions

    flags, pod_name = setup.flags, machine.environ.get("POD_NAME", "")
    namespace = machine.environ.get("NAMESPACE") or namespace_of_pod(machine)  # the first is upstream's, the second its README's
    if not namespace:
        raise ConfigError("enable-capacity: the environment variable POD_NAMESPACE (or NAMESPACE) must name the pod's namespace")
    if not pod_name and flags.capacity_ownerref_level >= 0:
        raise ConfigError("enable-capacity: the environment variable POD_NAME must name the pod, or set --capacity-ownerref-level=-1")
    return CapacityOptions(
        namespace=namespace,
        pod_name=pod_name,
        threads=flags.capacity_threads,
        poll_interval_s=flags.capacity_poll_interval_s,
        for_immediate_binding=flags.capacity_for_immediate_binding,
        owner_level=flags.capacity_ownerref_level,
        qps=flags.kube_api_capacity_qps if _LIMITS & setup.given else None,
        burst=flags.kube_api_capacity_burst,
    )


def _node(flags: ProvisionerFlags, machine: Machine) -> NodeOptions:
    from mooring.controllers.provisioner.options import NodeOptions

    _check_node(flags, machine)
    return NodeOptions(
        node_name=machine.environ["NODE_NAME"],
        immediate_binding=flags.node_deployment_immediate_binding,
        base_delay_s=flags.node_deployment_base_delay_s,
        max_delay_s=flags.node_deployment_max_delay_s,
    )


if __name__ == "__main__":
    sys.exit(main())
