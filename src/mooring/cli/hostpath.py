"""`mooring driver hostpath`: the reference driver as a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mooring.base.errors import ConfigError
from mooring.base.flags import Parsed, options_from
from mooring.cli.hostpath_flags import PEER_NAMES, HostPathFlags
from mooring.cli.people import run_for_people
from mooring.cli.process import Command
from mooring.driver.hostpath.options import HostpathOptions

if TYPE_CHECKING:
    from mooring.driver.hostpath.driver import HostPath
    from mooring.driver.hostpath.layout import Segments, StorageLimits

NODE_SEGMENT: Final = "topology.hostpath.csi/node"
"""The key of a node's own place, as in csi-driver-host-path."""


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
    if flags.attach_max < -1:
        raise ConfigError(f"attach-limit: must not be below -1, got {flags.attach_max}")
    if flags.volumes_per_node < 0:
        raise ConfigError(f"max-volumes-per-node: must not be negative, got {flags.volumes_per_node}")
    if "" in flags.capacity and len(flags.capacity) > 1:
        raise ConfigError("capacity: give each size a kind, as in fast=10Gi, or one size without")
    if flags.topology and flags.own_places:
        raise ConfigError("enable-topology: give either this or topology")
    if strangers := sorted(flags.node_endpoints.keys() - set(flags.node_ids)):
        raise ConfigError(f"node-endpoint: there is no node {strangers[0]!r}: name it with node-id too")
    if not (flags.endpoint or os.environ.get("CSI_ENDPOINT")):
        raise ConfigError(
            "endpoint: required, as in --endpoint=unix:///run/csi.sock or CSI_ENDPOINT=unix:///run/csi.sock"
        )


COMMAND: Final[Command[HostPathFlags]] = Command(
    HostPathFlags,
    check=_check,
    about="Serves the reference driver on a socket: volumes are folders, files and file systems, for any sidecar to "
    "work with.",
    example="mooring driver hostpath --endpoint unix:///tmp/csi.sock --state ./volumes \\\n  --node-id node-1",
)


def run(argv: Sequence[str], prog: str) -> int:
    """argv: the words after `mooring driver hostpath`. Gives the exit code."""
    return run_for_people(COMMAND, [_own_name(word) for word in argv], prog, lambda flags: asyncio.run(_serve(flags)))


def _own_name(word: str) -> str:
    """A flag under its own name, where csi-driver-host-path has another."""
    name, equals, value = word.lstrip("-").partition("=")
    return f"--{PEER_NAMES[name]}{equals}{value}" if word.startswith("-") and name in PEER_NAMES else word


async def _serve(flags: HostPathFlags) -> int:
    from mooring.base.stopping import stop_signals
    from mooring.driver.hostpath.observed import Observation
    from mooring.driver.server import check_identity, serving_at

    with _driver(flags) as driver, stop_signals(signal.SIGHUP, signal.SIGQUIT) as stop:
        check_identity(driver)
        async with AsyncExitStack() as stack:
            observation = await stack.enter_async_context(
                Observation(flags.faults, flags.call_log, secrets=flags.call_log_secrets)
            )
            if flags.http_endpoint:
                await stack.enter_async_context(observation.told_on(flags.http_endpoint, driver.state_dump))
            endpoint = flags.endpoint or os.environ["CSI_ENDPOINT"]
            await stack.enter_async_context(serving_at(observation.of(driver, endpoint), endpoint))
            for node_id, node_endpoint in flags.node_endpoints.items():
                node = observation.of(driver.node(node_id), node_endpoint)
                await stack.enter_async_context(serving_at(node, node_endpoint))
            await stop.wait()
    return 0


def _driver(flags: HostPathFlags) -> HostPath:
    from mooring.base.randomness import Random
    from mooring.driver.capabilities import Capability, NodeCapability
    from mooring.driver.hostpath.driver import DRIVER_NAME, HostPath
    from mooring.driver.hostpath.node.mount_mode import MountMode

    return HostPath(
        Path(flags.state),
        node_ids=flags.node_ids,
        randomness=Random(),
        name=flags.driver_name or DRIVER_NAME,
        limits=_limits(flags),
        options=_options(flags),
        attach=flags.attach,
        topology=_topology(flags),
        without=[Capability.Type.Value(name) for name in _lacking(flags)],
        without_on_nodes=[NodeCapability.Type.Value(name) for name in _lacking_on_nodes(flags)],
        group_snapshots=flags.group_snapshots,
        mutable_names=flags.mutable_names,
        snapshot_delay_s=flags.snapshot_delay_s,
        mount_mode=MountMode(Path(flags.state).resolve(), flags.mounts),
    )


def _options(flags: HostPathFlags) -> HostpathOptions:
    volumes, volume_bytes = (
        flags.attach_max or flags.volumes_per_node,
        flags.node_volume_bytes_max or flags.volume_bytes_max,
    )
    return options_from(HostpathOptions, flags, {}, volumes_per_node=volumes, node_volume_bytes_max=volume_bytes)


def _limits(flags: HostPathFlags) -> StorageLimits:
    from mooring.driver.hostpath.layout import StorageLimits

    kinds = {kind: size for kind, size in flags.capacity.items() if kind}
    return StorageLimits(
        capacity_bytes=flags.capacity.get("", 0),
        kinds=kinds,
        volume_bytes_max=flags.volume_bytes_max,
        attach_max=max(0, flags.attach_max),
    )


def _topology(flags: HostPathFlags) -> dict[str, Segments]:
    return (
        {node_id: {NODE_SEGMENT: node_id} for node_id in flags.node_ids} if flags.own_places else dict(flags.topology)
    )


def _lacking(flags: HostPathFlags) -> list[str]:
    """The controller's capabilities that flags have switched off."""
    expands = flags.expand and not flags.no_controller_expansion
    switches = {"EXPAND_VOLUME": expands, "LIST_SNAPSHOTS": flags.list_snapshots, "MODIFY_VOLUME": flags.modify}
    return [*flags.without, *(name for name, is_on in switches.items() if not is_on)]


def _lacking_on_nodes(flags: HostPathFlags) -> list[str]:
    return [*flags.without_on_nodes, *(["EXPAND_VOLUME"] if not flags.expand or flags.no_node_expansion else [])]
