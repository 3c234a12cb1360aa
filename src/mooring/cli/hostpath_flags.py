"""The flags of `mooring driver hostpath`, and the kinds of their values: sizes, topology, capabilities."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Final

from mooring.api.quantity import Quantity, nearest_quantity, parse_quantity
from mooring.base.flagkinds import BOOL, DURATION, FILE, FOLDER, INT, NAMES, SOCKET, STRING, FlagKind
from mooring.base.flags import Section, flag
from mooring.cli.tables import ProcessFlags
from mooring.driver.hostpath.options import HostpathOptions

PEER_NAMES: Final[Mapping[str, str]] = {
    "statedir": "state",
    "nodeid": "node-id",
    "drivername": "driver-name",
    "maxvolumespernode": "max-volumes-per-node",
    "enable-attach": "attach",
    "node-expand-required": "enable-volume-expansion",
}
"""Flags of csi-driver-host-path that have another name here; both are taken."""


def _read_bytes(text: str) -> int:
    near = nearest_quantity(text)
    try:
        size = parse_quantity(text)
    except ValueError:
        raise ValueError(f"did you mean {near}?" if near else "no quantity") from None
    if not size.is_whole or not 0 < size.whole < 2**63:
        raise ValueError(
            "not a whole number of bytes above zero" + (f"; did you mean {near}?" if near not in ("", text) else "")
        )
    return size.whole


def _show_bytes(value: int) -> str:
    return str(Quantity(Decimal(value), "binary"))


def _read_capacity(text: str) -> dict[str, int]:
    kind, _, size = text.rpartition("=")
    if "=" in text and not kind:
        raise ValueError("the kind before = is missing")
    return {kind: _read_bytes(size)}


def _read_topology(text: str) -> dict[str, dict[str, str]]:
    node_id, colon, segments = text.rpartition(":")
    pairs = [pair.partition("=") for pair in segments.split(",")]
    if not colon or any(not key or not equals for key, equals, _ in pairs):
        raise ValueError("parse error")
    return {node_id: {key: value for key, _, value in pairs}}


def _read_endpoint(text: str) -> dict[str, str]:
    node_id, equals, endpoint = text.partition("=")
    if not (node_id and equals and endpoint):
        raise ValueError("parse error")
    return {node_id: endpoint}


def _capabilities(whose: str, known: Collection[str], example: str) -> FlagKind[tuple[str, ...]]:
    """Names among those that are known. whose: for the hint."""

    def read(text: str) -> tuple[str, ...]:
        names = tuple(text.split(","))
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ValueError(f"there is no {unknown[0]!r}")
        return names

    hint = f"{whose} capabilities by CSI's names, as in {example}, separated by commas"
    return FlagKind("capability", read, hint, lambda _: "", merge=lambda one, more: (*one, *more))


def _one_of(*words: str) -> FlagKind[str]:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError("parse error")
        return text

    return FlagKind("word", read, f"one of {', '.join(words)}")


CAPABILITIES: Final = (
    "CREATE_DELETE_VOLUME",
    "PUBLISH_UNPUBLISH_VOLUME",
    "LIST_VOLUMES",
    "GET_CAPACITY",
    "CREATE_DELETE_SNAPSHOT",
    "LIST_SNAPSHOTS",
    "CLONE_VOLUME",
    "PUBLISH_READONLY",
    "EXPAND_VOLUME",
    "LIST_VOLUMES_PUBLISHED_NODES",
    "VOLUME_CONDITION",
    "GET_VOLUME",
    "SINGLE_NODE_MULTI_WRITER",
    "MODIFY_VOLUME",
    "GET_SNAPSHOT",
)
"""The capabilities of the reference driver's controller, by the names of CSI. Here, so that flags are read without
the driver.
"""

_NODE_CAPABILITIES: Final = (
    "STAGE_UNSTAGE_VOLUME",
    "GET_VOLUME_STATS",
    "EXPAND_VOLUME",
    "VOLUME_CONDITION",
    "SINGLE_NODE_MULTI_WRITER",
)
"""The same for its nodes; VOLUME_MOUNT_GROUP has a flag of its own."""

_BYTES: Final[FlagKind[int]] = FlagKind("quantity", _read_bytes, "bytes as a quantity, as in 10Gi or 500M", _show_bytes)
_CAPACITY: Final[FlagKind[Mapping[str, int]]] = FlagKind(
    "[kind=]quantity",
    _read_capacity,
    "bytes as a quantity, as in 10Gi or fast=10Gi",
    lambda _: "",
    merge=lambda one, more: {**one, **more},
)
TOPOLOGY: Final[FlagKind[Mapping[str, Mapping[str, str]]]] = FlagKind(
    "node:key=value,...",
    _read_topology,
    "a node's segments, as in node-1:topology.kubernetes.io/zone=a",
    lambda _: "",
    merge=lambda one, more: {**one, **more},
)
_ENDPOINTS: Final[FlagKind[Mapping[str, str]]] = FlagKind(
    "node=endpoint",
    _read_endpoint,
    "a node and its socket, as in node-2=unix:///run/node-2.sock",
    lambda _: "",
    merge=lambda one, more: {**one, **more},
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class HostPathFlags(HostpathOptions, ProcessFlags):
    """The reference driver's flags; where csi-driver-host-path has one for the same thing, its name is taken too."""

    endpoint: str = flag(
        "endpoint",
        SOCKET,
        "",
        "The socket to serve on, as in unix:///run/csi.sock or tcp://127.0.0.1:7654. Empty: $CSI_ENDPOINT.",
    )
    node_endpoints: Mapping[str, str] = flag(
        "node-endpoint",
        _ENDPOINTS,
        {},
        "The socket of another node's service; may be given for each node. The first node is served on --endpoint too.",
    )
    state: str = flag(
        "state", FOLDER, "", "The folder for volumes and state. Made when it is missing. (Also: --statedir.)"
    )
    node_ids: tuple[str, ...] = flag(
        "node-id", NAMES, (), "A node that volumes can be published on; may be given more than once. (Also: --nodeid.)"
    )
    driver_name: str = flag(
        "driver-name", STRING, "", "The driver's name. Empty: hostpath.csi.mooring. (Also: --drivername.)"
    )
    mounts: str = flag(
        "mounts",
        _one_of("auto", "mount", "link"),
        "auto",
        "How volumes come to paths: mount (needs root), link (symbolic links, for any user), or auto: mount "
        "where that is allowed.",
    )
    capacity: Mapping[str, int] = flag(
        "capacity",
        _CAPACITY,
        {"": 1 << 40},
        "The most that all volumes together may have; with topology, in each place. With KIND= before it: "
        "those of one kind of "
        "storage, which a class names in its parameter kind; may be given more than once. Default 1Ti of one kind.",
    )
    volume_bytes_max: int = flag("max-volume-size", _BYTES, 1 << 40, "One volume has this size at the most.")
    node_volume_bytes_max: int = flag(
        "max-volume-size-node",
        dataclasses.replace(_BYTES, show=lambda _: ""),
        0,
        "NodeExpandVolume refuses more than this, so that expansion fails on the node. Default: as --max-volume-size.",
    )
    attach_max: int = flag(
        "attach-limit",
        INT,
        0,
        "The most volumes on one node, also in NodeGetInfo; 0 is no limit. With -1 there is none, and "
        "NodeGetInfo reports another "
        "number from 1 to 10 at each call.",
    )
    topology: Mapping[str, Mapping[str, str]] = flag(
        "topology",
        TOPOLOGY,
        {},
        "A node's topology; given for each node, all with the same keys. A volume then lives in one place.",
    )
    own_places: bool = flag(
        "enable-topology", BOOL, False, "Each node is a place of its own: topology.hostpath.csi/node=ID."
    )
    expand: bool = flag("enable-volume-expansion", BOOL, True, "Expand volumes. (Also: --node-expand-required.)")
    no_controller_expansion: bool = flag("disable-controller-expansion", BOOL, False, "Expand volumes on nodes alone.")
    no_node_expansion: bool = flag("disable-node-expansion", BOOL, False, "Expand volumes by the controller alone.")
    list_snapshots: bool = flag("enable-list-snapshots", BOOL, True, "List snapshots.")
    group_snapshots: bool = flag("enable-group-snapshots", BOOL, True, "Take snapshots of groups of volumes.")
    modify: bool = flag(
        "enable-controller-modify-volume", BOOL, False, "Take mutable parameters, at creation and later."
    )
    mutable_names: tuple[str, ...] = flag(
        "accepted-mutable-parameter-names",
        NAMES,
        (),
        "The mutable parameters that the driver accepts, separated by commas. None: any.",
    )
    without: tuple[str, ...] = flag(
        "without",
        _capabilities("controller", CAPABILITIES, "CLONE_VOLUME"),
        (),
        "Controller capabilities to leave out; may be given more than once.",
    )
    without_on_nodes: tuple[str, ...] = flag(
        "without-on-nodes",
        _capabilities("node", _NODE_CAPABILITIES, "GET_VOLUME_STATS"),
        (),
        "Node capabilities to leave out; may be given more than once.",
    )
    snapshot_delay_s: float = flag("snapshot-delay", DURATION, 0.0, "How long new snapshots are not ready to use.")
    faults: str = flag(
        "faults", FILE, "", "A JSON file of faults on purpose, read again when it changes; see docs/hostpath.md."
    )
    call_log: str = flag(
        "call-log", FILE, "", "A file that each call is appended to, as a line of JSON without secrets."
    )
    call_log_secrets: bool = flag("call-log-secrets", BOOL, False, "Write secrets into the call log.")
    http_endpoint: str = flag(
        "http-endpoint",
        STRING,
        "",
        "The TCP address for /metrics, /healthz and /state, as in :8080. Empty: none.",
        Section.DIAGNOSTICS,
    )
