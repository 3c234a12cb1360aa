"""`mooring completion`: the script by which a shell completes commands, flags and values. Made of the flags' tables, by
shtab.

For names of the cluster the script asks `mooring completion namespaces`, with the words of the line, which may name a
kubeconfig.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mooring.base.flagkinds import FILE, FILES, FOLDER, NAMESPACE, SOCKET
from mooring.base.flags import Flag, Section, UsageError, flags_of
from mooring.cli.people import check_completion_parts, run_for_people
from mooring.cli.process import Command, Machine
from mooring.cli.tables import ProcessFlags

SHELLS: Final = ("bash", "zsh", "fish")

TABLES: Final[Mapping[str, str]] = {
    "apiserver": "apiserver:ApiServerFlags",
    "apiserver backup": "apiserver:BackupFlags",
    "apiserver restore": "apiserver:RestoreFlags",
    "attachdetach": "attachdetach:AttachDetachFlags",
    "attacher": "csi_attacher:AttacherFlags",
    "binder": "binder:BinderFlags",
    "call": "call:CallFlags",
    "cluster-registrar": "cluster_registrar:ClusterRegistrarFlags",
    "completion": "tables:ProcessFlags",
    "conform": "conform:ConformFlags",
    "controller": "controller_flags:ControllerFlags",
    "demo": "demo:DemoFlags",
    "dev": "dev:DevFlags",
    "dev kill-node": "dev_power:PowerFlags",
    "dev revive-node": "dev_power:PowerFlags",
    "doctor": "doctor:DoctorFlags",
    "driver": "",
    "driver hostpath": "hostpath_flags:HostPathFlags",
    "driver new": "driver:NewFlags",
    "driver run": "driver_run:RunFlags",
    "fence": "fence:FenceFlags",
    "livenessprobe": "livenessprobe_program:ProbeFlags",
    "node-agent": "node_agent:NodeAgentFlags",
    "orphans": "orphans:OrphansFlags",
    "provisioner": "csi_provisioner:ProvisionerFlags",
    "proxy": "proxy:ProxyFlags",
    "registrar": "registrar_program:RegistrarFlags",
    "resizer": "csi_resizer:ResizerFlags",
    "snapshot-controller": "snapshot_controller:SnapshotControllerFlags",
    "snapshotter": "csi_snapshotter:SnapshotterFlags",
    "timeline": "timeline:TimelineFlags",
    "unfence": "unfence:UnfenceFlags",
    "unstick": "unstick:UnstickFlags",
    "why": "why:WhyFlags",
}
"""Each command with its words: the table of its flags, "" for one that has none. A command with words of its own
stands before those.
"""

NAMESPACES: Final = "namespaces"
"""In place of a shell: prints the names of the cluster's namespaces."""
FIELDS: Final = "fields"
"""In place of a shell, with the words of `mooring call`: prints the names of the calls, or the fields of the one
that the words name.
"""
CHECKS: Final = "checks"
"""In place of a shell: prints the names of conform's checks."""
ASKS_S_MAX: Final = 3.0
"""Whoever has pressed the tab key waits for it."""

_ASKED: Final = dict.fromkeys(SHELLS, "_mooring_namespaces") | {"fish": "(_mooring_namespaces)"}
_OF_CALLS: Final = dict.fromkeys(SHELLS, "_mooring_fields") | {"fish": "(_mooring_fields)"}
_OF_CHECKS: Final = dict.fromkeys(SHELLS, "_mooring_checks") | {"fish": "(_mooring_checks)"}
_FUNCTIONS: Final[Mapping[str, str]] = {
    "bash": """
_mooring_namespaces() {
  compgen -W "$(mooring completion namespaces "${COMP_WORDS[@]:1}" 2>/dev/null)" -- "$1"
}
_mooring_fields() {
  compgen -W "$(mooring completion fields "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null | grep -v =.)" -- "$1"
}
_mooring_checks() {
  compgen -W "$(mooring completion checks 2>/dev/null)" -- "$1"
}
""",
    "zsh": """
_mooring_namespaces() {
  local -a names=(${(f)"$(mooring completion namespaces "${(@)words[2,-1]}" 2>/dev/null)"})
  compadd "$@" -a names
}
_mooring_fields() {
  local -a names=(${(f)"$(mooring completion fields "${(@)words[2,CURRENT-1]}" 2>/dev/null)"})
  local -a fields=(${(M)names:#*[=.]})
  if [[ $PREFIX == *=* ]]; then compadd "$@" -a names
  elif (( $#fields )); then compadd "$@" -S "" -a fields; else compadd "$@" -a names; fi
}
_mooring_checks() {
  local -a names=(${(f)"$(mooring completion checks 2>/dev/null)"})
  compadd "$@" -a names
}
""",
    "fish": """
function _mooring_namespaces
  mooring completion namespaces (commandline -opc)[2..] 2>/dev/null
end
function _mooring_fields
  mooring completion fields (commandline -opc)[2..] 2>/dev/null
end
function _mooring_checks
  mooring completion checks 2>/dev/null
end
""",
}
_BASH_END: Final = """
# bash takes --output=json for three words; what completes it wants the value after a blank.
_mooring() {
  local word place=0 words=()
  for word in "${COMP_WORDS[@]:0:COMP_CWORD}"; do [ "$word" = = ] || words+=("$word"); done
  word="${COMP_WORDS[COMP_CWORD]}"
  [ "$word" = = ] && word=""
  place=${#words[@]}
  local COMP_WORDS=("${words[@]}" "$word") COMP_CWORD=$place
  _shtab_mooring
  # A field's value follows at once.
  [[ "${COMPREPLY[0]}" == *[=.] ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -o bashdefault -F _mooring mooring
"""
_ZSH_LONG: Final = re.compile(r'^(\s+"--[a-z0-9-]+)(\[.*\]:[^:"]+:)', re.MULTILINE)
_ZSH_SHORT: Final = re.compile(r'\{(-[a-z]),(--[a-z])\}("\[.*\]:[^:"]+:)')
"""Flags with a value: zsh completes one behind "=" only where the flag's name says so."""
_IDLE: Final = (Section.COMPATIBLE, Section.UNAVAILABLE)

COMMAND: Final[Command[ProcessFlags]] = Command(
    ProcessFlags,
    about="Prints the script by which a SHELL (bash, zsh or fish) completes the commands of mooring, their flags, "
    "forms of output, and the "
    "namespaces of the cluster.",
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
    if argv[:1] == [NAMESPACES]:
        return _print_namespaces(argv[1:], prog)
    if argv[:1] == [FIELDS]:
        return _print_fields(argv[1:])
    if argv[:1] == [CHECKS]:
        return _print_checks()
    words = [] if not argv or argv[0].startswith("-") else [argv[0]]
    return run_for_people(COMMAND, argv[len(words) :], prog, lambda _: _print(*words))


def _print(shell: str = "") -> int:
    if shell not in SHELLS:
        raise UsageError(f"give one SHELL of {', '.join(SHELLS)}" + (f", not {shell!r}" if shell else ""))
    check_completion_parts()
    import shtab  # here, since few installations have it

    script = shtab.complete(parser(), shell, preamble=_FUNCTIONS[shell])
    if shell == "bash":
        script += _BASH_END
    elif shell == "zsh":
        script = _ZSH_LONG.sub(r"\1=\2", _ZSH_SHORT.sub(r"{\1=,\2=}\3", script))
    sys.stdout.write(f"{script}\n")
    return 0


def _print_namespaces(words: Sequence[str], prog: str) -> int:
    """words: of the line that is being completed."""
    from mooring.cli.people import answer_of

    return run_for_people(COMMAND, (), prog, lambda _: answer_of(_namespaces(_kubeconfig_in(words)), prog, 1))


def _print_fields(words: Sequence[str]) -> int:
    """words: of the line that is being completed, as in `call CreateVolume name=a`."""
    from mooring.conform.call.names import BY_NAME, enums_in, paths_in

    rpc = next((BY_NAME[word] for word in words if word in BY_NAME), None)
    if rpc is None:
        found = list(BY_NAME)
    else:
        enums = dict(enums_in(rpc.request_type.DESCRIPTOR))
        of_last = enums.get(words[-1].removesuffix("="), ())  # bash has the name and the value as words of their own
        found = list(
            of_last
            or (
                *paths_in(rpc.request_type.DESCRIPTOR),
                *(f"{path}={one}" for path, names in enums.items() for one in names),
            )
        )
    sys.stdout.write("".join(f"{one}\n" for one in found))
    return 0


def _print_checks() -> int:
    from mooring.conform.checks.all import CHECKS

    sys.stdout.write("".join(f"{check.name}\n" for check in CHECKS))
    return 0


async def _namespaces(kubeconfig: str) -> int:
    import asyncio

    from mooring.api.core import NAMESPACES as KIND
    from mooring.base.clock import LoopClock
    from mooring.cli.clusters import client_for_people

    try:
        async with (
            asyncio.timeout(ASKS_S_MAX),
            client_for_people("mooring-completion", kubeconfig, Machine(), clock=LoopClock()) as users,
        ):
            found = await users.list(KIND)
    except TimeoutError:
        return 1
    sys.stdout.write("".join(f"{one.metadata.name}\n" for one in found.items))
    return 0


def _kubeconfig_in(words: Sequence[str]) -> str:
    """The value of --kubeconfig, "" where the line has none. bash has its "=" as a word."""
    for place, word in enumerate(words):
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("-") and name == "kubeconfig":
            return value if equals else next((one for one in words[place + 1 :] if one != "="), "")
    return ""


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
            _add(made, row, _OF_CHECKS if (path, row.name) == ("conform", "only") else None)
        if path == "completion":
            made.add_argument("shell", choices=SHELLS)
        if path == "call":
            words: Any = made.add_argument("field", nargs="*")
            words.complete = _OF_CALLS
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


def _add(made: argparse.ArgumentParser, row: Flag, values: Mapping[str, str] | None) -> None:
    """values: the function that prints them, by shell; None for a flag whose kind says enough."""
    import shtab

    text = _escaped(row.text.partition("\n")[0])
    if row.kind.bare is not None:
        made.add_argument(f"--{row.name}", action="store_true", help=text)
        return
    names = (f"-{row.name}", f"--{row.name}") if len(row.name) == 1 else (f"--{row.name}",)
    action: Any = made.add_argument(*names, metavar=row.kind.word, choices=row.kind.choices or None, help=text)
    if row.kind is FOLDER:
        action.complete = shtab.DIRECTORY
    if any(row.kind is kind for kind in (FILE, FILES, SOCKET)):
        action.complete = shtab.FILE
    if row.kind is NAMESPACE:
        action.complete = _ASKED
    if values is not None:
        action.complete = values


def _escaped(text: str) -> str:
    """argparse fills in what follows a percent sign."""
    return text.replace("%", "%%")
