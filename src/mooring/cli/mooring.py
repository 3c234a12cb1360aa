"""`mooring`: one command with all parts of the house as its subcommands. Each is loaded only when it is asked for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import mooring
from mooring.base.interrupts import interrupted_at_once
from mooring.cli.border import entered

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "apiserver": ("mooring.cli.apiserver", "Run the embedded API server alone, for kubectl."),
    "attachdetach": ("mooring.cli.attachdetach", "Attach pods' volumes to nodes, and detach them."),
    "attacher": ("mooring.cli.csi_attacher", "Attach and detach a driver's volumes, as csi-attacher."),
    "binder": ("mooring.cli.binder", "Bind claims to volumes and pods to nodes."),
    "call": ("mooring.cli.call", "Make a CSI call by hand, and judge its answer."),
    "cluster-registrar": ("mooring.cli.cluster_registrar", "Make the CSIDriver object of a driver."),
    "completion": ("mooring.cli.completion", "Print a script for a shell: it completes commands."),
    "conform": ("mooring.cli.conform", "Tell whether a CSI driver keeps the rules of CSI."),
    "controller": ("mooring.cli.controller", "Run several controllers in one process."),
    "demo": ("mooring.cli.demo", "See the life of a volume, step by step. Begin here."),
    "dev": ("mooring.cli.dev", "Run an API server, a driver and controllers until Ctrl-C."),
    "doctor": ("mooring.cli.doctor", "Find what is wrong with a set-up, or a release's files."),
    "driver": ("mooring.cli.driver", "Run the reference driver or your own, or begin a new one."),
    "fence": ("mooring.cli.fence", "State that a node is off, once that is proved."),
    "livenessprobe": ("mooring.cli.livenessprobe", "Answer the kubelet's liveness probes for a driver."),
    "node-agent": ("mooring.cli.node_agent", "Register drivers on a node and mount its pods' volumes."),
    "orphans": ("mooring.cli.orphans", "Find volumes without a PersistentVolume, and the reverse."),
    "provisioner": ("mooring.cli.csi_provisioner", "Make and delete a driver's volumes, as csi-provisioner."),
    "proxy": ("mooring.cli.proxy", "Stand between a driver and its callers, and make faults."),
    "registrar": ("mooring.cli.registrar", "Register a driver with the kubelet of its node."),
    "resizer": ("mooring.cli.csi_resizer", "Grow and modify a driver's volumes, as csi-resizer."),
    "snapshot-controller": (
        "mooring.cli.snapshot_controller",
        "Make and bind the contents of snapshots, of all drivers.",
    ),
    "snapshotter": ("mooring.cli.csi_snapshotter", "Make and delete a driver's snapshots, as csi-snapshotter."),
    "timeline": ("mooring.cli.timeline", "Show what happened when to an object, and its waits."),
    "unfence": ("mooring.cli.unfence", "Take back what mooring fence has stated of a node."),
    "unstick": ("mooring.cli.unstick", "Free an object from finalizers, once that is proved safe."),
    "why": ("mooring.cli.why", "Say why an object is stuck, and whose move it is."),
}
"""Each subcommand: the module whose `run(argv, prog)` it is, and what it is for."""

UPSTREAM: Final[Mapping[str, str]] = {
    "csi-attacher": "attacher",
    "csi-provisioner": "provisioner",
    "csi-resizer": "resizer",
    "csi-snapshotter": "snapshotter",
    "csi-node-driver-registrar": "registrar",
    "cluster-driver-registrar": "cluster-registrar",
}
"""The names of upstream's programs are subcommands, too."""


def main() -> int:
    return entered("mooring", lambda: run(sys.argv[1:]))


def run(argv: Sequence[str]) -> int:
    """argv: the words after `mooring`. Gives the exit code."""
    word, rest = (argv[0], list(argv[1:])) if argv else ("", [])
    named = UPSTREAM.get(word, word)
    if named in COMMANDS:
        with interrupted_at_once():
            command = importlib.import_module(COMMANDS[named][0])
        code: int = command.run(rest, f"mooring {word}")
        return code
    if word in ("version", "--version", "-version"):
        sys.stdout.write(f"mooring v{mooring.__version__}\n")
        return 0
    if word in ("help", "--help", "-help", "-h"):
        sys.stdout.write(_usage())
        return 0
    if not word:
        sys.stderr.write(_usage())
        return 2
    from mooring.base.text import meant  # needed for this message alone

    sys.stderr.write(f"mooring: there is no command {word!r}{meant(word, COMMANDS)}; mooring --help lists them\n")
    return 2


def _usage() -> str:
    lines = [f"  {name:<20}{text}" for name, (_, text) in COMMANDS.items()]
    return "\n".join(
        ["usage: mooring COMMAND [flags]", "", *lines, "", "mooring COMMAND --help lists the flags of a command.", ""]
    )


if __name__ == "__main__":
    sys.exit(main())
