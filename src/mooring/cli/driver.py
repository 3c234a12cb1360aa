"""`mooring driver hostpath`: the reference driver as a process of its own, for a sidecar of anybody's."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mooring.api.quantity import Quantity, nearest_quantity, parse_quantity
from mooring.base.errors import ConfigError
from mooring.base.flagkinds import BOOL, DURATION, INT, STRING, FlagKind
from mooring.base.flags import Parsed, UsageError, flag
from mooring.cli.people import run_for_people
from mooring.cli.process import Command
from mooring.cli.tables import ProcessFlags

if TYPE_CHECKING:
    from mooring.driver.layout import Limits

USAGE: Final = "usage: mooring driver hostpath [flags]; mooring driver hostpath --help lists them\n"


def _read_bytes(text: str) -> int:
    near = nearest_quantity(text)
    try:
        size = parse_quantity(text)
    except ValueError:
        raise ValueError(f"did you mean {near}?" if near else "no quantity") from None
    if not size.is_whole or not 0 < size.whole < 2**63:
        raise ValueError("not a whole number of bytes above zero" + (f"; did you mean {near}?" if near not in ("", text) else ""))
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


def _read_capabilities(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in CAPABILITIES]
    if unknown:
        raise ValueError(f"there is no {unknown[0]!r}")
    return names


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
"""The capabilities of the reference driver's controller, by the names of CSI. Here, so that flags are read without the driver."""

_BYTES: Final[FlagKind[int]] = FlagKind("quantity", _read_bytes, "bytes as a quantity, as in 10Gi or 500M", _show_bytes)
_CAPACITY: Final[FlagKind[Mapping[str, int]]] = FlagKind(
    "[kind=]quantity", _read_capacity, "bytes as a quantity, as in 10Gi or fast=10Gi", lambda _: "", merge=lambda one, more: {**one, **more}
)
TOPOLOGY: Final[FlagKind[Mapping[str, Mapping[str, str]]]] = FlagKind(
    "node:key=value,...",
    _read_topology,
    "a node's segments, as in node-1:topology.kubernetes.io/zone=a",
    lambda _: "",
    merge=lambda one, more: {**one, **more},
)
_CAPABILITIES: Final[FlagKind[tuple[str, ...]]] = FlagKind(
    "capability",
    _read_capabilities,
    "controller capabilities by CSI's names, as in CLONE_VOLUME, separated by commas",
    lambda _: "",
    merge=lambda one, more: (*one, *more),
)
NAMES: Final[FlagKind[tuple[str, ...]]] = FlagKind(
    "name", lambda text: tuple(text.split(",")), "names, separated by commas", lambda _: "", merge=lambda one, more: (*one, *more)
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class HostPathFlags(ProcessFlags):
    """The reference driver's flags; where csi-driver-host-path has one for the same thing, its name is taken too."""

    endpoint: str = flag("endpoint", STRING, "", "The unix socket to serve on, as in unix:///run/csi.sock. Empty: $CSI_ENDPOINT.")
    state: str = flag("state", STRING, "", "The folder for volumes and state. Made when it is missing.")
    node_ids: tuple[str, ...] = flag("node-id", NAMES, (), "A node that volumes can be published on; may be given more than once.")
    driver_name: str = flag("driver-name", STRING, "", "The name that the driver goes by. Empty: hostpath.csi.mooring.")
    capacity: Mapping[str, int] = flag(
        "capacity",
        _CAPACITY,
        {"": 1 << 40},
        "All volumes together have this size at the most, with topology those of each place. With KIND= before it: those of one kind of "
        "storage, which a class names in its parameter kind; may be given more than once. Default 1Ti of one kind.",
    )
    volume_bytes_max: int = flag("max-volume-size", _BYTES, 1 << 40, "One volume has this size at the most.")
    attach_max: int = flag("attach-limit", INT, 0, "Volumes on one node at the most; 0 is no limit.")
    attach: bool = flag("attach", BOOL, True, "Publish volumes on nodes. Write --attach=false for a driver that needs no attach.")
    topology: Mapping[str, Mapping[str, str]] = flag(
        "topology", TOPOLOGY, {}, "A node's topology; given for each node, all with the same keys. Volumes live in one place then."
    )
    expand: bool = flag("enable-volume-expansion", BOOL, True, "Expand volumes.")
    list_snapshots: bool = flag("enable-list-snapshots", BOOL, True, "List snapshots.")
    modify: bool = flag("enable-controller-modify-volume", BOOL, False, "Take mutable parameters, at creation and later.")
    mutable_names: tuple[str, ...] = flag(
        "accepted-mutable-parameter-names", NAMES, (), "The mutable parameters that there are, separated by commas. None: any."
    )
    without: tuple[str, ...] = flag("without", _CAPABILITIES, (), "Controller capabilities to leave out; may be given more than once.")
    snapshot_delay_s: float = flag("snapshot-delay", DURATION, 0.0, "How long new snapshots are not ready to use.")


def _check(parsed: Parsed[HostPathFlags]) -> None:
    flags = parsed.flags
    if not flags.state:
        raise ConfigError("state: required, the folder for volumes and state")
    if not flags.node_ids or "" in flags.node_ids:
        raise ConfigError("node-id: required, the name of at least one node, as in --node-id=node-1")
    if "" in flags.mutable_names:
        raise ConfigError("accepted-mutable-parameter-names: an empty name is among them")
    if flags.snapshot_delay_s < 0:
        raise ConfigError(f"snapshot-delay: must not be negative, got {flags.snapshot_delay_s:g}s")
    if flags.attach_max < 0:
        raise ConfigError(f"attach-limit: must not be negative, got {flags.attach_max}")
    if "" in flags.capacity and len(flags.capacity) > 1:
        raise ConfigError("capacity: give each size a kind, as in fast=10Gi, or one size without")
    if not (flags.endpoint or os.environ.get("CSI_ENDPOINT")):
        raise ConfigError("endpoint: required, as in --endpoint=unix:///run/csi.sock or CSI_ENDPOINT=unix:///run/csi.sock")


COMMAND: Final[Command[HostPathFlags]] = Command(
    HostPathFlags,
    check=_check,
    about="Serves the reference driver on a unix socket: volumes are folders and files, for a sidecar of anybody's to work with.",
    example="mooring driver hostpath --endpoint unix:///tmp/csi.sock --state ./volumes \\\n  --node-id node-1",
)


def run(argv: Sequence[str], prog: str) -> int:
    """argv: the words after `mooring driver`. Gives the exit code."""
    if argv[:1] != ["hostpath"]:
        if argv[:1] in (["--help"], ["-h"], ["-help"]):
            sys.stdout.write(USAGE)
            return 0
        sys.stderr.write(f"{prog}: {argv[0]!r} is not known: there is hostpath\n{USAGE}" if argv else USAGE)
        return UsageError("").exit_code
    return run_for_people(COMMAND, argv[1:], f"{prog} hostpath", lambda flags: asyncio.run(_serve(flags)))


async def _serve(flags: HostPathFlags) -> int:
    from mooring.base.randomness import Random
    from mooring.base.stopping import stop_signals
    from mooring.driver.capabilities import Capability
    from mooring.driver.hostpath import DRIVER_NAME, HostPath
    from mooring.driver.server import serving

    driver = HostPath(
        Path(flags.state),
        node_ids=flags.node_ids,
        randomness=Random(),
        name=flags.driver_name or DRIVER_NAME,
        limits=_limits(flags),
        attach=flags.attach,
        topology=flags.topology,
        without=[Capability.Type.Value(name) for name in _lacking(flags)],
        mutable_names=flags.mutable_names,
        snapshot_delay_s=flags.snapshot_delay_s,
    )
    with driver, stop_signals() as stop:
        async with serving(driver, flags.endpoint or os.environ["CSI_ENDPOINT"]):
            await stop.wait()
    return 0


def _limits(flags: HostPathFlags) -> Limits:
    from mooring.driver.layout import Limits

    kinds = {kind: size for kind, size in flags.capacity.items() if kind}
    return Limits(
        capacity_bytes=flags.capacity.get("", 0), kinds=kinds, volume_bytes_max=flags.volume_bytes_max, attach_max=flags.attach_max
    )


def _lacking(flags: HostPathFlags) -> list[str]:
    """The capabilities that flags have switched off."""
    switches = {"EXPAND_VOLUME": flags.expand, "LIST_SNAPSHOTS": flags.list_snapshots, "MODIFY_VOLUME": flags.modify}
    return [*flags.without, *(name for name, is_on in switches.items() if not is_on)]
