"""`mooring node-agent`: the volume side of a kubelet, for one node."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mooring.base.errors import ConfigError
from mooring.base.flagkinds import FOLDER, PAIRS, STRING, UINT
from mooring.base.flags import Parsed, flag
from mooring.cli.process import Command, Machine, Setup, run_command
from mooring.cli.settings import check_manager
from mooring.cli.tables import AsKubectlFlags, GateFlags, ManagerFlags
from mooring.node.options import ROOT, AgentOptions

if TYPE_CHECKING:
    from mooring.control.manager import Work
    from mooring.control.runtime import Runtime
    from mooring.csi.driver import A, Call, Q, Rpc
    from mooring.csi.wire_driver import WireDriver
    from mooring.node.resources import Resources

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeAgentFlags(AgentOptions, AsKubectlFlags, ManagerFlags, GateFlags):
    """root: said by root_dir."""

    root: Path = Path()
    node_name: str = flag(
        "node-name", STRING, "", "The name of the Node; made where there is none. Empty: the machine's name."
    )
    capacity: Mapping[str, str] = flag(
        "capacity",
        PAIRS,
        {},
        "The Node's resources, as in cpu=4,memory=8Gi; others come from the machine and --max-pods.",
    )
    allocatable: Mapping[str, str] = flag(
        "allocatable", PAIRS, {}, "How much of the capacity pods may use; of a resource that is not named, all."
    )
    max_pods: int = flag("max-pods", UINT, 110, "The most pods that may be on the Node.")
    root_dir: str = flag(
        "root-dir", FOLDER, ROOT, "The root folder: sockets, staged and published volumes are below it."
    )


ELECTION: Final = "leader-election"
"""Begins the names of the flags of an election, which the table of all managers has."""


def _check(parsed: Parsed[NodeAgentFlags]) -> None:
    check_manager(parsed)
    flags = parsed.flags
    if flags.node_name and (not _NAME.fullmatch(flags.node_name) or len(flags.node_name) > 253):
        raise ConfigError(
            f"node-name: {flags.node_name!r} is no name of a Node: lower-case letters, digits, dashes and dots"
        )
    if not flags.root_dir.startswith("/"):
        raise ConfigError(f"root-dir: {flags.root_dir!r} is no absolute path, as in /var/lib/kubelet")
    _resources(flags)
    given = sorted(name for name in parsed.given if name.startswith(ELECTION))
    if given:
        raise ConfigError(f"{given[0]}: a node has one agent, which needs no election; remove the flag")


def _resources(flags: NodeAgentFlags) -> Resources:
    """Raises ConfigError."""
    from mooring.node.resources import (
        machine_resources,
        resources_of,
    )  # here, so that --version and --help need not load it

    return resources_of(machine_resources(Path(flags.root_dir)), flags.max_pods, flags.capacity, flags.allocatable)


COMMAND: Final[Command[NodeAgentFlags]] = Command(
    NodeAgentFlags,
    check=_check,
    about="Registers CSI drivers on one node and mounts the volumes of its pods, as the kubelet does. It runs no "
    "containers.",
    unused=(ELECTION,),
    example="mooring node-agent --kubeconfig ./state/kubeconfig --node-name n1 \\\n  --root-dir /tmp/n1",
)


def run(argv: Sequence[str], prog: str, machine: Machine | None = None) -> int:
    """argv: the words after `mooring node-agent`. Gives the exit code."""
    return run_command(COMMAND, argv, prog, lambda setup: _serve(setup, machine or Machine()))


def _serve(setup: Setup[NodeAgentFlags], machine: Machine) -> int:
    from mooring.cli.manager import run_manager  # here, so that --version and --help need not load it

    name = setup.flags.node_name or machine.host_name().lower()
    return run_manager("mooring-node-agent", setup, machine, lambda runtime: _agent(runtime, name, setup))


def _agent(runtime: Runtime, name: str, setup: Setup[NodeAgentFlags]) -> Work:
    from mooring.node.agent import AgentSockets, NodeAgent

    flags = setup.flags
    options = setup.options(AgentOptions, node_name=name, root=Path(flags.root_dir), resources=_resources(flags))
    sockets = AgentSockets(driver=traced_client(runtime)) if flags.tracing else None
    return NodeAgent(runtime, options, sockets=sockets)


def traced_client(runtime: Runtime) -> type[WireDriver]:
    """Return a client of drivers whose calls are in the traces of the work on this runtime; the agent meets its drivers
    later.
    """
    from mooring.control.tracing.ports import traced_call
    from mooring.control.tracing.steps import Tracing
    from mooring.csi.wire_driver import WireDriver

    steps = runtime.steps
    assert isinstance(steps, Tracing)
    tracing = steps

    class TracedWireDriver(WireDriver):
        async def invoke(self, rpc: Rpc[Q, A], request: Q, call: Call) -> A:
            return await traced_call(tracing, super().invoke, rpc, request, call)

    return TracedWireDriver
