"""`mooring completion`: the script by which a shell completes commands and flags. Made of the flags' tables, by shtab."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mooring.base.flags import Flag, Section, UsageError, flags_of
from mooring.cli.people import check_completion_parts, run_for_people
from mooring.cli.process import Command
from mooring.cli.tables import ProcessFlags

SHELLS: Final = ("bash", "zsh", "fish")

TABLES: Final[Mapping[str, str]] = {
    "apiserver": "apiserver:ApiServerFlags",
    "apiserver backup": "apiserver:BackupFlags",
    "apiserver restore": "apiserver:RestoreFlags",
    "attachdetach": "attachdetach:AttachDetachFlags",
    "attacher": "csi_attacher:AttacherFlags",
    "binder": "binder:BinderFlags",
    "cluster-registrar": "cluster_registrar:ClusterRegistrarFlags",
    "completion": "tables:ProcessFlags",
    "controller": "controller_flags:ControllerFlags",
    "demo": "demo:DemoFlags",
    "dev": "dev:DevFlags",
    "dev kill-node": "dev_power:PowerFlags",
    "dev revive-node": "dev_power:PowerFlags",
    "doctor": "doctor:DoctorFlags",
    "driver": "",
    "driver hostpath": "hostpath_flags:HostPathFlags",
    "driver new": "driver_new:NewFlags",
    "driver run": "driver_run:RunFlags",
    "fence": "fence:FenceFlags",
    "livenessprobe": "livenessprobe_program:ProbeFlags",
    "node-agent": "node_agent:NodeAgentFlags",
    "orphans": "orphans:OrphansFlags",
    "provisioner": "csi_provisioner:ProvisionerFlags",
    "record": "record:RecordFlags",
    "registrar": "registrar_program:RegistrarFlags",
    "release": "release:ReleaseFlags",
    "replay": "replay:ReplayFlags",
    "resizer": "csi_resizer:ResizerFlags",
    "snapshot-controller": "snapshot_controller:SnapshotControllerFlags",
    "snapshotter": "csi_snapshotter:SnapshotterFlags",
    "timeline": "timeline:TimelineFlags",
    "unfence": "unfence:UnfenceFlags",
    "unstick": "unstick:UnstickFlags",
    "why": "why:WhyFlags",
}
"""Each command with its words: the table of its flags, "" for one that has none. A command with words of its own stands before those."""

_FILES: Final = frozenset({"csi-address", "kubeconfig"})
_FOLDERS: Final = frozenset({"flight-recorder-dir", "folder", "root-dir", "state"})
_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "logging-format": ("text", "json"),
    "o": ("table", "json"),
    "output": ("text", "json", "yaml"),
}
_IDLE: Final = (Section.COMPATIBLE, Section.UNAVAILABLE)

COMMAND: Final[Command[ProcessFlags]] = Command(
    ProcessFlags,
    about="Prints the script by which a SHELL (bash, zsh or fish) completes the commands and flags of mooring.",
    example="mooring completion bash",
    epilog="""
Where shells look for it:
  bash  eval "$(mooring completion bash)" in ~/.bashrc
  zsh   mooring completion zsh > a folder of $fpath, as _mooring
  fish  mooring completion fish > ~/.config/fish/completions/mooring.fish
""",
)


def run(argv: Sequence[str], prog: str) -> int:
    """argv: the words after `mooring completion`. Gives the exit code."""
    words = [] if not argv or argv[0].startswith("-") else [argv[0]]
    return run_for_people(COMMAND, argv[len(words) :], prog, lambda _: _print(*words))


def _print(shell: str = "") -> int:
    if shell not in SHELLS:
        raise UsageError(f"give one SHELL of {', '.join(SHELLS)}" + (f", not {shell!r}" if shell else ""))
    check_completion_parts()
    import shtab  # here, since few installations have it

    sys.stdout.write(shtab.complete(parser(), shell) + "\n")
    return 0


def parser() -> argparse.ArgumentParser:
    """All commands and their flags as argparse knows them, for others to read: our own are read by `base.flags`."""
    from mooring.cli.mooring import COMMANDS

    top = argparse.ArgumentParser(prog="mooring", add_help=False)
    below: dict[str, Any] = {"": top.add_subparsers()}
    for path, place in TABLES.items():
        parent, _, word = path.rpartition(" ")
        text = COMMANDS[word][1] if not parent else ""
        made = below[parent].add_parser(word, help=_escaped(text), add_help=False)
        for row in _rows(place):
            _add(made, row)
        if path == "completion":
            made.add_argument("shell", choices=SHELLS)
        if any(other.startswith(f"{path} ") for other in TABLES):
            below[path] = made.add_subparsers()
    return top


def _rows(place: str) -> list[Flag]:
    if not place:
        return []
    module, _, name = place.partition(":")
    found = importlib.import_module(f"mooring.cli.{module}")
    table: type[Any] = getattr(found, name)
    command: Command[Any] | None = getattr(found, "COMMAND", None)
    unused = command.unused if command is not None and command.table is table else ()
    return [row for row in flags_of(table).values() if row.section not in _IDLE and not row.name.startswith(unused)]


def _add(made: argparse.ArgumentParser, row: Flag) -> None:
    import shtab

    text = _escaped(row.text.partition("\n")[0])
    if row.kind.bare is not None:
        made.add_argument(f"--{row.name}", action="store_true", help=text)
        return
    action: Any = made.add_argument(f"--{row.name}", metavar=row.kind.word, choices=_VALUES.get(row.name), help=text)
    if row.name in _FILES | _FOLDERS:
        action.complete = shtab.DIRECTORY if row.name in _FOLDERS else shtab.FILE


def _escaped(text: str) -> str:
    """argparse fills in what follows a percent sign."""
    return text.replace("%", "%%")
