"""The flags of `mooring driver hostpath`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from mooring.base.flagkinds import BOOL, DURATION, INT, NAMES, STRING
from mooring.base.flags import Section, flag
from mooring.cli.hostpath_kinds import (
    BYTES,
    CAPABILITIES,
    CAPACITY,
    ENDPOINTS,
    NODE_CAPABILITIES,
    TOPOLOGY,
    capabilities,
    one_of,
)
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class HostPathFlags(HostpathOptions, ProcessFlags):
    """The reference driver's flags; where csi-driver-host-path has one for the same thing, its name is taken too."""

    endpoint: str = flag(
        "endpoint", STRING, "", "The socket to serve on, as in unix:///run/csi.sock or tcp://127.0.0.1:7654. Empty: $CSI_ENDPOINT."
    )
    node_endpoints: Mapping[str, str] = flag(
        "node-endpoint",
        ENDPOINTS,
        {},
        "The socket of another node's service; may be given for each node. The first node is served on --endpoint too.",
    )
    state: str = flag("state", STRING, "", "The folder for volumes and state. Made when it is missing. (Also: --statedir.)")
    node_ids: tuple[str, ...] = flag(
        "node-id", NAMES, (), "A node that volumes can be published on; may be given more than once. (Also: --nodeid.)"
    )
    driver_name: str = flag("driver-name", STRING, "", "The driver's name. Empty: hostpath.csi.mooring. (Also: --drivername.)")
    mounts: str = flag(
        "mounts",
        one_of("auto", "mount", "link"),
        "auto",
        "How volumes come to paths: mount (needs root), link (symbolic links, for any user), or auto: mount where that is allowed.",
    )
    capacity: Mapping[str, int] = flag(
        "capacity",
        CAPACITY,
        {"": 1 << 40},
        "The most that all volumes together may have; with topology, in each place. With KIND= before it: those of one kind of "
        "storage, which a class names in its parameter kind; may be given more than once. Default 1Ti of one kind.",
    )
    volume_bytes_max: int = flag("max-volume-size", BYTES, 1 << 40, "One volume has this size at the most.")
    node_volume_bytes_max: int = flag(
        "max-volume-size-node",
        dataclasses.replace(BYTES, show=lambda _: ""),
        0,
        "NodeExpandVolume refuses more than this, so that expansion fails on the node. Default: as --max-volume-size.",
    )
    attach_max: int = flag(
        "attach-limit",
        INT,
        0,
        "The most volumes on one node, also in NodeGetInfo; 0 is no limit. With -1 there is none, and NodeGetInfo reports another "
        "number from 1 to 10 at each call.",
    )
    topology: Mapping[str, Mapping[str, str]] = flag(
        "topology", TOPOLOGY, {}, "A node's topology; given for each node, all with the same keys. A volume then lives in one place."
    )
    own_places: bool = flag("enable-topology", BOOL, False, "Each node is a place of its own: topology.hostpath.csi/node=ID.")
    expand: bool = flag("enable-volume-expansion", BOOL, True, "Expand volumes. (Also: --node-expand-required.)")
    no_controller_expansion: bool = flag("disable-controller-expansion", BOOL, False, "Expand volumes on nodes alone.")
    no_node_expansion: bool = flag("disable-node-expansion", BOOL, False, "Expand volumes by the controller alone.")
    list_snapshots: bool = flag("enable-list-snapshots", BOOL, True, "List snapshots.")
    group_snapshots: bool = flag("enable-group-snapshots", BOOL, True, "Take snapshots of groups of volumes.")
    modify: bool = flag("enable-controller-modify-volume", BOOL, False, "Take mutable parameters, at creation and later.")
    mutable_names: tuple[str, ...] = flag(
        "accepted-mutable-parameter-names", NAMES, (), "The mutable parameters that the driver accepts, separated by commas. None: any."
    )
    without: tuple[str, ...] = flag(
        "without",
        capabilities("controller", CAPABILITIES, "CLONE_VOLUME"),
        (),
        "Controller capabilities to leave out; may be given more than once.",
    )
    without_on_nodes: tuple[str, ...] = flag(
        "without-on-nodes",
        capabilities("node", NODE_CAPABILITIES, "GET_VOLUME_STATS"),
        (),
        "Node capabilities to leave out; may be given more than once.",
    )
    snapshot_delay_s: float = flag("snapshot-delay", DURATION, 0.0, "How long new snapshots are not ready to use.")
    faults: str = flag("faults", STRING, "", "A JSON file of faults on purpose, read again when it changes; see docs/hostpath.md.")
    call_log: str = flag("call-log", STRING, "", "A file that each call is appended to, as a line of JSON without secrets.")
    call_log_secrets: bool = flag("call-log-secrets", BOOL, False, "Write secrets into the call log.")
    http_endpoint: str = flag(
        "http-endpoint", STRING, "", "The TCP address for /metrics, /healthz and /state, as in :8080. Empty: none.", Section.DIAGNOSTICS
    )
