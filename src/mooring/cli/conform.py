"""`mooring conform`: whether a CSI driver, in any language, keeps the rules of the book.

| exit code | when |
|---|---|
| 0 | the driver kept every rule |
| 1 | it broke one, something could not be deleted, a check could not go on, or the run did not come to its end |
| 2 | a command line that is wrong, or no driver that answers |
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import difflib
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from mooring.base.border import refused_as
from mooring.base.errors import ConfigError
from mooring.base.flagkinds import BOOL, DURATION, FILE, FOLDER, word_of
from mooring.base.flags import Parsed, UsageError, flag, options_from
from mooring.base.folders import check_utf8
from mooring.cli.driver_run import OPTIONS
from mooring.cli.limits import check_positive
from mooring.cli.people import check_output, run_for_people, words_and_flags
from mooring.cli.process import Command
from mooring.cli.tables import ProcessFlags
from mooring.conform.options import ACCESS_TYPES, NODES, Options

if TYPE_CHECKING:
    from mooring.conform.runner import Report
    from mooring.csi.driver_form import CommandLine, Form
    from mooring.mounts.namespace import MountSpace

KEPT, BROKEN, WRONG_USE = 0, 1, 2
OUTPUTS: Final = ("text", "json", "junit", "tap")

_EXIT_CODES: Final = """
Exit codes: 0 the driver kept every rule; 1 it broke one, something could not
be deleted, or the run did not come to its end; 2 the command line is wrong, or
no driver answers.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConformFlags(Options, ProcessFlags):
    output: str = flag("output", word_of(*OUTPUTS), "text", "text, json, junit or tap.")
    o: str = flag("o", word_of(*OUTPUTS), "", "The same as --output.")
    list_checks: bool = flag("list", BOOL, False, "List the checks and the rules that they belong to; ask nothing.")
    connect_timeout_s: float = flag(
        "connect-timeout", DURATION, 60.0, "How long the driver may take to serve its socket, and to be built."
    )
    options: Mapping[str, str] = flag(
        "option", OPTIONS, {}, "For module:Class: an argument of the constructor, as in folder=/data."
    )
    secrets_file: str = flag(
        "secrets-file", FILE, "", "A YAML file with the secrets of each call, in the form that csi-sanity has."
    )
    data_folder: str = flag(
        "data-folder",
        FOLDER,
        "",
        "Where the driver keeps its volumes: a small empty disk is mounted there for this run alone, so that "
        "it can be full or read-only.",
    )
    driver_log: str = flag("driver-log", FILE, "", "A file that gets the output of the driver; this run must start it.")
    staging_folder: str = flag(
        "staging-folder", FOLDER, "", "Where staging_target_path is made; the driver must see it. Empty: in /tmp."
    )
    target_folder: str = flag(
        "target-folder", FOLDER, "", "Where target_path is made; the driver must see it. Empty: in /tmp."
    )


def _check(parsed: Parsed[ConformFlags]) -> None:
    flags = parsed.flags
    check_output(flags.o or flags.output, *OUTPUTS)
    check_positive({"timeout": flags.timeout_s, "connect-timeout": flags.connect_timeout_s}, "60s")
    if len(set(flags.node_names)) != 2 or len(flags.node_names) != 2 or "" in flags.node_names:
        raise ConfigError("node-name: name two nodes, as in --node-name n1 --node-name n2", exit_code=WRONG_USE)
    if not flags.volume_mib:
        raise ConfigError("volume-mib: must be greater than zero, as in 1024", exit_code=WRONG_USE)
    if flags.access_type not in ACCESS_TYPES:
        raise ConfigError(
            f"access-type: must be {' or '.join(ACCESS_TYPES)}, got {flags.access_type!r}", exit_code=WRONG_USE
        )


COMMAND: Final[Command[ConformFlags]] = Command(
    ConformFlags,
    check=_check,
    epilog=_EXIT_CODES,
    about="Tells whether a CSI driver keeps the rules of CSI, and what Kubernetes does where it does not: all that "
    "csi-sanity asks, "
    "lost answers, calls at the same time, kill -9. The driver is a socket, a command with {socket} in it, or "
    "module:Class.",
    example="mooring conform unix:///csi/csi.sock\nmooring conform './my-driver --endpoint unix://{socket}'",
)


def run(argv: Sequence[str], prog: str) -> int:
    """argv: the words after `mooring conform`. Gives the exit code."""
    words, rest = words_and_flags(ConformFlags, argv, 1)
    return run_for_people(COMMAND, rest, prog, lambda flags: _conform(flags, words))


def _conform(flags: ConformFlags, words: Sequence[str]) -> int:
    if flags.list_checks:
        return listed(sys.stdout, flags.o or flags.output)
    if len(words) != 1:
        raise UsageError("name one driver: mooring conform unix:///csi.sock, 'COMMAND {socket}' or module:Class")
    from mooring.csi.driver_form import ReferenceDriver, Socket, parse_form
    from mooring.mounts.namespace import MountSpace, enter_private_mounts

    try:
        form = parse_form(words[0], flags.options)
    except ConfigError as error:
        raise ConfigError(str(error), exit_code=WRONG_USE) from None
    if isinstance(form, ReferenceDriver):
        raise UsageError("name one driver: the name is empty")
    check_names(flags.only)
    if isinstance(form, Socket) and flags.node_names != NODES:
        raise ConfigError("node-name: this run has not started the driver, which is on one node", exit_code=WRONG_USE)
    is_elsewhere = isinstance(form, Socket)  # its mounts are made where it runs
    space = MountSpace() if is_elsewhere else enter_private_mounts()
    return asyncio.run(_session(flags, form, space))


def listed(stdout: TextIO, output: str) -> int:
    from mooring.conform.checks.all import CHECKS
    from mooring.inspect.printing import as_json

    if output == "json":
        fields = ("name", "about", "needs", "sanity")
        stdout.write(
            as_json([{"rule": one.rule.number, **{name: getattr(one, name) for name in fields}} for one in CHECKS])
        )
        return KEPT
    if output != "text":
        raise UsageError(f"--list is text or json, and {output} was asked for")
    for check in CHECKS:
        stdout.write(f"{check.rule.number}  {check.name:<44} {check.about}\n")
    return KEPT


def check_names(names: Sequence[str]) -> None:
    """Raises ConfigError for a name that no check has."""
    from mooring.conform.checks.all import CHECKS

    if unknown := sorted(set(names) - {check.name for check in CHECKS}):
        near = difflib.get_close_matches(unknown[0], [check.name for check in CHECKS], 1)
        hint = f"; did you mean {near[0]}?" if near else "; mooring conform --list names them"
        raise ConfigError(f"only: there is no check {unknown[0]!r}{hint}", exit_code=WRONG_USE)


async def _session(flags: ConformFlags, form: Form, space: MountSpace) -> int:
    from mooring.base.stopping import terminals_end, unless_stopped
    from mooring.conform.report import as_junit, as_tap, as_text, as_values
    from mooring.conform.runner import Report
    from mooring.csi.driver_form import Socket
    from mooring.inspect.printing import as_json
    from mooring.wire.grpc.socket_file import check_length

    report, output = Report(), flags.o or flags.output
    address = ""
    home = Path(tempfile.mkdtemp(prefix="conform-"))
    try:
        command = command_of(form)
        if command is not None:
            try:
                check_length(home / "second.sock")  # the longest
            except ConfigError as error:
                raise ConfigError(f"TMPDIR: {error}", exit_code=WRONG_USE) from None
        path = Path(form.path) if isinstance(form, Socket) else home / "csi.sock"
        address = f"unix://{path}" if isinstance(form, Socket) else ""  # a driver of this run's own ends with it
        await unless_stopped(_asked(flags, home, path, command, space, report), *terminals_end())
    finally:
        _remove(home, space)
    forms: dict[str, Callable[[Report, str], str]] = {"text": as_text, "junit": as_junit, "tap": as_tap}
    forms["json"] = lambda one, by: as_json(as_values(one, by))
    sys.stdout.write(forms[output](report, address))
    return KEPT if report.is_good else BROKEN


def _remove(home: Path, space: MountSpace) -> None:
    """Removes the run's own folder. Where mounts are this process' own, those that the driver has left there go first;
    nothing is removed through a mount, since a volume may be behind it.
    """
    from mooring.mounts.system import ToolFailed, run
    from mooring.mounts.targets import mount_table, plain
    from mooring.mounts.trees import remove_tree

    with contextlib.suppress(ToolFailed, OSError):
        for mount in reversed(mount_table().below(str(plain(home)))) if space.is_private else ():
            run("umount", "--lazy", mount.point)
        remove_tree(home)


def command_of(form: Form) -> CommandLine | None:
    """The command that runs the driver, None for one that runs already. A class is run as any program is: it can be
    killed.
    """
    from mooring.csi.driver_form import SOCKET, CommandLine, PythonClass

    if isinstance(form, PythonClass):
        given = [f"--option={name}={text}" for name, text in form.options.items()]
        run_class = (
            sys.executable,
            "-m",
            "mooring.cli.mooring",
            "driver",
            "run",
            form.words,
            f"--endpoint=unix://{SOCKET}",
        )
        return CommandLine((*run_class, *given))
    return form if isinstance(form, CommandLine) else None


async def _asked(
    flags: ConformFlags, home: Path, path: Path, command: CommandLine | None, space: MountSpace, report: Report
) -> None:
    """Fills the report. Raises ConfigError for a driver that does not answer."""
    from mooring.base.clock import LoopClock
    from mooring.conform.checks.all import CHECKS
    from mooring.conform.disk import Disk
    from mooring.conform.driver_process import DriverProcess
    from mooring.conform.report import line
    from mooring.conform.runner import Result
    from mooring.conform.session import asking, judge, shares_mounts

    clock, options = LoopClock(), _options(flags, home)  # before a driver is started
    progress = sys.stdout if (flags.o or flags.output) == "text" else sys.stderr

    def on_result(result: Result) -> None:
        progress.write(f"{line(result)}\n")
        progress.flush()

    def on_progress(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()

    disk = Disk(flags.data_folder) if flags.data_folder else None
    if disk is not None and (command is None or not space.is_private):
        why = space.obstacle or "this run must start the driver, so give a command or a class"
        raise ConfigError(f"data-folder: no disk can be mounted for the driver alone: {why}", exit_code=WRONG_USE)
    if flags.driver_log:
        _make_log(flags.driver_log, command)
    async with AsyncExitStack() as stack:
        program = None
        if command is not None:
            if disk is not None:
                stack.callback(disk.unmount)
                disk.mount()
            log = Path(flags.driver_log) if flags.driver_log else home / "driver.log"
            node = flags.node_names[0]
            program = DriverProcess(command, path, node, log, patience_s=flags.connect_timeout_s, clock=clock)
            stack.push_async_callback(program.close)
            await program.start()
            await program.serves()
        sees = shares_mounts(path) if command is None else space.can_mount
        try:
            asker = await stack.enter_async_context(
                asking(path, options, clock, sees=sees, program=program, connect_s=flags.connect_timeout_s)
            )
        except ConfigError as error:
            words = program.last_words() if program is not None else ""
            raise ConfigError(f"{error}{words}", exit_code=WRONG_USE) from None
        asker.disk = disk
        asker.tells(lambda text: on_progress(f"        {asker.check}: {text}\n"))
        await judge(asker, CHECKS, clock, report, on_result)


def _make_log(path: str, command: CommandLine | None) -> None:
    """An empty file. Raises ConfigError."""
    if command is None:
        raise ConfigError(
            "driver-log: this run has not started the driver, so it does not get its output", exit_code=WRONG_USE
        )
    with refused_as(f"driver-log: {path!r} can't be written", exit_code=WRONG_USE):
        Path(path).write_bytes(b"")


def _options(flags: ConformFlags, home: Path) -> Options:
    """Raises ConfigError."""
    staging = Path(flags.staging_folder).absolute() if flags.staging_folder else home / "staging"
    targets = Path(flags.target_folder).absolute() if flags.target_folder else home / "pods"
    for folder in (staging, targets):
        check_utf8(folder, exit_code=WRONG_USE)
    return options_from(
        Options,
        flags,
        {},
        staging=staging,
        targets=targets,
        secrets=read_secrets(flags.secrets_file) if flags.secrets_file else {},
    )


def read_secrets(path: str) -> dict[str, dict[str, str]]:
    """The secrets of each call, by its method. Raises ConfigError, with no secret in it."""
    import yaml

    from mooring.base.json_text import TooDeep
    from mooring.base.yaml_text import from_yaml, line_of
    from mooring.conform.options import SECRETS

    with refused_as(f"secrets-file: {path!r} can't be read", exit_code=WRONG_USE):
        text = Path(path).read_text(encoding="utf-8")
    try:
        found = from_yaml(text) or {}
    except (ValueError, yaml.YAMLError) as error:
        reason = str(error) if isinstance(error, TooDeep) else f"it is no YAML{line_of(error)}"
        raise ConfigError(f"secrets-file: {path!r} can't be read: {reason}", exit_code=WRONG_USE) from None
    if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()):
        raise ConfigError(
            f"secrets-file: {path!r} must have a map for each call, as CreateVolumeSecret", exit_code=WRONG_USE
        )
    if unknown := sorted(map(str, found.keys() - set(SECRETS.values()))):
        raise ConfigError(f"secrets-file: {unknown[0]!r} is none of {', '.join(SECRETS.values())}", exit_code=WRONG_USE)
    return {method: {str(k): str(v) for k, v in found[key].items()} for method, key in SECRETS.items() if key in found}
