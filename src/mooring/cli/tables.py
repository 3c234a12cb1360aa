"""The flags that sidecars share, as tables to inherit from; names and defaults are upstream's. `SidecarFlags` has all
of them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Final

from mooring.base.errors import ConfigError
from mooring.base.flagkinds import (
    BOOL,
    DURATION,
    FILE,
    FLOAT,
    GATES,
    INT,
    LABELS,
    SOCKET,
    STRING,
    FlagKind,
    GateStage,
    word_of,
)
from mooring.base.flags import Former, Section, flag, gate
from mooring.base.log import parse_vmodule


def _read_vmodule(text: str) -> str:
    try:
        parse_vmodule(text)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    return text


_VMODULE: Final[FlagKind[str]] = FlagKind("pattern=N,...", _read_vmodule)
_UNSET_SIZE: Final[FlagKind[str]] = FlagKind("quantity", str)
RATE: Final = dataclasses.replace(FLOAT, show=lambda _: "")
BURST: Final = dataclasses.replace(INT, show=lambda _: "")
"""For limits that do not hold unless one of their flags is given: upstream's default would be no truth in the usage."""


WARM_STANDBY: Final = "Fill the caches while another replica leads: the work goes on sooner when it ends."

CONNECT_S_MAX: Final = 30.0
"""How long the Go sidecars of today wait for a driver's socket."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProcessFlags:
    """The flags of every command."""

    version: bool = flag("version", BOOL, False, "Show version.", Section.LOG)
    v: int = flag("v", INT, 0, "Log level: 2 shows steps, 4 reasons, 5 CSI calls.", Section.LOG)
    vmodule: str = flag("vmodule", _VMODULE, "", "Levels of single files, as in queue=4,lease=2.", Section.LOG)
    logging_format: str = flag("logging-format", word_of("text", "json"), "text", "text or json.", Section.LOG)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DropInFlags:
    """Flags of the Go programs, needed only by their drop-in replacements."""

    automaxprocs: bool = flag(
        "automaxprocs", BOOL, False, "One event loop needs no limit of threads.", Section.COMPATIBLE
    )
    log_flush_s: float = flag(
        "log-flush-frequency", DURATION, 5.0, "Each log line is written at once.", Section.COMPATIBLE
    )
    log_text_split_stream: bool = flag("log-text-split-stream", BOOL, False, "Alpha.", Section.UNAVAILABLE)
    log_text_info_buffer_size: str = flag("log-text-info-buffer-size", _UNSET_SIZE, "", "Alpha.", Section.UNAVAILABLE)
    log_json_split_stream: bool = flag("log-json-split-stream", BOOL, False, "Alpha.", Section.UNAVAILABLE)
    log_json_info_buffer_size: str = flag("log-json-info-buffer-size", _UNSET_SIZE, "", "Alpha.", Section.UNAVAILABLE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MetricsAddressFlags:
    metrics_address: str = flag(
        "metrics-address",
        STRING,
        "",
        "(deprecated) As http-endpoint, for metrics alone. Set only one of the two.",
        Section.DIAGNOSTICS,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class GateFlags:
    """The text is made of the gates of the whole table."""

    feature_gates: Mapping[str, bool] = flag("feature-gates", GATES, {}, "")


@dataclasses.dataclass(frozen=True, kw_only=True)
class LeaseGateFlags(GateFlags):
    """release: a Lease is released at the end whatever this says, as upstream does with the gate."""

    release: bool = gate("ReleaseLeaderElectionOnExit", GateStage.ALPHA, False)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AddressFlags:
    csi_address: str = flag(
        "csi-address", SOCKET, "/run/csi/socket", "The gRPC endpoint of the CSI driver: a unix socket."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class DriverFlags(AddressFlags):
    connection_timeout_s: float = flag(
        "connection-timeout",
        DURATION,
        CONNECT_S_MAX,
        "How long to wait for the CSI driver's socket at the start; then the program ends.",
    )
    exit_on_lost_connection: bool = flag(
        "exit-on-lost-connection",
        BOOL,
        False,
        "Exit whenever the CSI driver is lost, as the Go sidecars do, not only when another driver comes back.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterFlags:
    kubeconfig: str = flag(
        "kubeconfig", FILE, "", "Absolute path to the kubeconfig file. Empty: the service account of the pod."
    )
    kube_api_qps: float = flag(
        "kube-api-qps",
        RATE,
        5.0,
        "Requests a second to the API server. No limit, unless kube-api-burst is set: then 5.",
        Section.CLUSTER,
    )
    kube_api_burst: int = flag(
        "kube-api-burst",
        BURST,
        10,
        "Requests at once to the API server. No limit, unless kube-api-qps is set: then 10.",
        Section.CLUSTER,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class AsKubectlFlags:
    """The flag of commands that find their cluster as kubectl does."""

    kubeconfig: str = flag(
        "kubeconfig", FILE, "", "Path to the kubeconfig file. Empty: $KUBECONFIG, ~/.kube/config, or the pod's own."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LogLengthFlags:
    max_grpc_log_length: int = flag(
        "max-grpc-log-length", INT, -1, "The most characters of a gRPC response in the log; -1 is no limit."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class DiagnosticsFlags:
    http_endpoint: str = flag(
        "http-endpoint",
        STRING,
        "",
        "The TCP address where the HTTP server for diagnostics, including metrics and health checks, listens "
        "(example: :8080). "
        "Empty: no server.",
        Section.DIAGNOSTICS,
    )
    metrics_path: str = flag(
        "metrics-path", STRING, "/metrics", "The HTTP path where metrics are exposed.", Section.DIAGNOSTICS
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TracingFlags:
    """Mooring's own: no Go program has it. Everything else about traces is said by OpenTelemetry's variables."""

    tracing: bool = flag(
        "tracing",
        BOOL,
        False,
        "Send OpenTelemetry traces to the collector that OTEL_EXPORTER_OTLP_ENDPOINT names; needs the extra otel.",
        Section.DIAGNOSTICS,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ElectionFlags:
    leader_election: bool = flag("leader-election", BOOL, False, "Enable leader election.", Section.ELECTION)
    leader_election_namespace: str = flag(
        "leader-election-namespace",
        STRING,
        "",
        "Namespace of the Lease. Empty: $POD_NAMESPACE, else the namespace of the pod.",
        Section.ELECTION,
    )
    lease_duration_s: float = flag(
        "leader-election-lease-duration",
        DURATION,
        15.0,
        "How long others wait before they take a lost Lease.",
        Section.ELECTION,
    )
    renew_deadline_s: float = flag(
        "leader-election-renew-deadline",
        DURATION,
        10.0,
        "How long the leader tries to renew its Lease.",
        Section.ELECTION,
    )
    retry_period_s: float = flag(
        "leader-election-retry-period", DURATION, 5.0, "How long to wait between tries.", Section.ELECTION
    )
    election_labels: Mapping[str, str] = flag(
        "leader-election-labels", LABELS, {}, "Labels of the Lease, as key:value,key2:value2.", Section.ELECTION
    )
    warm_standby: bool = flag("leader-election-warm-standby", BOOL, True, WARM_STANDBY, Section.ELECTION)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ManagerFlags(ProcessFlags, ClusterFlags, DiagnosticsFlags, TracingFlags, ElectionFlags):
    """The flags of every controller, with a driver or without."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SidecarFlags(ManagerFlags, DropInFlags, MetricsAddressFlags, LeaseGateFlags, DriverFlags):
    """Everything that attacher, provisioner, resizer and snapshotter have in common."""


_KLOG: Final[Mapping[str, bool]] = {
    "add_dir_header": False,
    "alsologtostderr": False,
    "log_backtrace_at": True,
    "log_dir": True,
    "log_file": True,
    "log_file_max_size": True,
    "logtostderr": False,
    "one_output": False,
    "skip_headers": False,
    "skip_log_headers": False,
    "stderrthreshold": True,
}
"""klog's former flags, and whether each needs a value."""

_BY_CSI_DRIVER: Final = "the CSIDriver object of the driver says it"
_BY_DRIVER: Final = "the driver itself says its name"
REMOVED: Final[Mapping[str, Former]] = {
    **{name: Former(has_value) for name, has_value in _KLOG.items()},
    "csiTimeout": Former(True, now="--timeout={}"),
    "driver_requires_attachment": Former(False, _BY_CSI_DRIVER),
    "enable_leader_election": Former(False, now="--leader-election={}"),
    "leader_election_identity": Former(True, "the identity is the name of the pod"),
    "leader_election_type": Former(True, "a Lease is used"),
    "pod_info_mount_version": Former(True, _BY_CSI_DRIVER),
    "provisioner": Former(True, _BY_DRIVER),
    "snapshotter": Former(True, _BY_DRIVER),
}
"""Flags of former releases of the Go sidecars that manifests still have. Accepted with a warning; today's Go sidecars
exit with 2.
"""

REMOVED_OF_SNAPSHOTS: Final[Mapping[str, Former]] = {
    **REMOVED,
    "enable_volume_group_snapshots": Former(False, now="--feature-gates=CSIVolumeGroupSnapshot={}"),
}

ALPHA_LOGGING: Final[Mapping[str, str]] = {
    "log-text-split-stream": "log_text_split_stream",
    "log-text-info-buffer-size": "log_text_info_buffer_size",
    "log-json-split-stream": "log_json_split_stream",
    "log-json-info-buffer-size": "log_json_info_buffer_size",
}
"""Flags and their fields. Refused (exit code 1) unless they say what holds anyway, as upstream without its gate
LoggingAlphaOptions.
"""

_NOTHING: Final = re.compile(r"[+-]?0*\.?0*([eE][+-]?\d+|[numkMGTPE]|[KMGTPE]i)?", re.ASCII)


def is_off(value: bool | str) -> bool:
    """True for false and for a quantity of nothing, however it is written."""
    return not value if isinstance(value, bool) else bool(_NOTHING.fullmatch(value)) and "0" in value
