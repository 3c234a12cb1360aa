"""`mooring replay`: runs a record of the flight recorder again, and prints each decision with its reason. Needs no cluster and no driver.

With `--driver` it asks a driver what the record asked one: a flight record, or one of `mooring proxy` (`cli/replay_driver.py`).

| exit code | when |
|---|---|
| 0 | it came to the record's end, or to the decision that was asked for |
| 1 | the replay departs from the record |
| 2 | a command line that is wrong, or a file that is no record |
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from mooring.base.errors import ConfigError
from mooring.base.flagkinds import DURATION, STRING, UINT, word_of
from mooring.base.flags import Parsed, UsageError, flag
from mooring.base.text import visible_lines
from mooring.cli.limits import check_positive
from mooring.cli.people import check_output, run_for_people, width_of, words_and_flags
from mooring.cli.process import Command, Machine, Setup
from mooring.cli.tables import ProcessFlags

if TYPE_CHECKING:
    from mooring.cli.sidecar import Sidecar
    from mooring.control.flight.entries import Header
    from mooring.control.manager import Work
    from mooring.control.runtime import Runtime
    from mooring.csi.driver import Driver
    from mooring.inspect.replay.course import Make
    from mooring.inspect.replay.director import Decided, Director
    from mooring.inspect.replay.free import FreeDirector

DEPARTED: Final = 1
OUTPUTS: Final = ("text", "json")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReplayFlags(ProcessFlags):
    at: int = flag("at", UINT, 0, "Stop at the decision of this number and show all that was known then.")
    until: int = flag("until", UINT, 0, "Print the decisions up to this number, and stop.")
    driver: str = flag(
        "driver", STRING, "", "A driver's socket, as in unix:///csi/csi.sock: is asked what the record asked."
    )
    secrets_file: str = flag(
        "secrets-file", STRING, "", "With --driver: a file with the secrets that the record's calls had."
    )
    timeout_s: float = flag("timeout", DURATION, 60.0, "With --driver: how long it may take to answer a call.")
    output: str = flag("output", word_of(*OUTPUTS), "text", "text, or json: one line for each decision or call.")
    o: str = flag("o", word_of(*OUTPUTS), "", "The same as --output.")


def _check(parsed: Parsed[ReplayFlags]) -> None:
    flags = parsed.flags
    check_output(flags.o or flags.output, *OUTPUTS)
    check_positive({"timeout": flags.timeout_s}, "60s")
    for name in ("secrets-file", "timeout"):
        if name in parsed.given and not flags.driver:
            raise ConfigError(f"{name}: is for --driver")
    for name in ("at", "until"):
        if name in parsed.given and flags.driver:
            raise ConfigError(f"{name}: counts decisions, and --driver shows calls: give one of the two")


COMMAND: Final[Command[ReplayFlags]] = Command(
    ReplayFlags,
    check=_check,
    epilog="\nExit codes: 0 it came to the record's end, or to the decision asked for; 1 the\nreplay departs from the record, or the "
    "driver answers otherwise; 2 the command\nline or the file is wrong.\n",
    about="Runs a record of the flight recorder again: the very controllers, in virtual time, on what came in then. Prints each decision "
    "with its reason. Needs no cluster. With --driver it asks a driver what the record asked.",
    example="mooring replay --at=17 mooring-flight-csi-attacher-1-1.gz",
)


def run(argv: Sequence[str], prog: str) -> int:
    """argv: the words after `mooring replay`: the file, and flags. Gives the exit code."""
    words, flags = words_and_flags(ReplayFlags, argv)
    return run_for_people(COMMAND, flags, prog, lambda given: _replay(words, given, prog))


def _replay(words: Sequence[str], flags: ReplayFlags, prog: str) -> int:
    if len(words) != 1:
        raise UsageError("name one file: mooring replay FILE")
    if flags.driver:
        from mooring.cli import replay_driver

        return replay_driver.replay(Path(words[0]), flags, prog)
    from mooring.inspect.replay.course import Stopped, replayed
    from mooring.inspect.replay.record import read
    from mooring.inspect.replay.render import as_line, ending, heading, line, state, values

    record, is_json, width = read(Path(words[0])), (flags.o or flags.output) == "json", width_of(sys.stdout)
    last, began = flags.at or flags.until, record.entries[0].t if record.entries else 0.0
    make = make_of(record.header)

    def look(decided: Decided, director: Director | FreeDirector) -> None:
        if is_json:
            sys.stdout.write(f"{as_line(values(decided, began))}\n")
        elif not flags.at:
            say(line(decided, began, width))
        if last and decided.number >= last:
            if flags.at and not is_json:
                say(state(decided, director, began, width))
            raise Stopped

    if not is_json:
        say(f"{heading(record)}\n")
    found = replayed(record, make, look)
    if last and len(found.decisions) >= last and not found.departure:
        return 0
    if flags.at and not found.departure:
        raise UsageError(f"--at={flags.at}: the record ends after {len(found.decisions)} decisions")
    if not is_json or found.departure:
        say(f"\n{ending(record, found)}", sys.stderr if is_json else sys.stdout)
    return DEPARTED if found.departure else 0


def say(text: str, stream: TextIO | None = None) -> None:
    """Writes lines; what a file from somebody else holds can't command a terminal."""
    (stream or sys.stdout).write(f"{visible_lines(text)}\n")


def make_of(header: Header) -> Make:
    """How the record's program is made. Raises ConfigError for a program that this version can't replay."""
    found = PROGRAMS.get(header.program)
    if found is None:
        raise ConfigError(f"{header.program!r} can't be replayed; there are {', '.join(PROGRAMS)}", exit_code=2)
    return found(header)


def _setup(table: type[Any], header: Header) -> Setup[Any]:
    fields = {field.name: field for field in dataclasses.fields(table)}
    said = {name: value for name, value in header.options.get("flags", {}).items() if name in fields}
    made = table(**{name: tuple(value) if isinstance(value, list) else value for name, value in said.items()})
    return Setup(header.program, made, frozenset(header.options.get("given", ())), header.options.get("gates", {}))


def machine_of(header: Header) -> Machine:
    """The record's, of which nothing else is known: this one's files say nothing about it."""
    return Machine(environ=header.options.get("environ", {}), host_name=lambda: "", service_account=Path(os.devnull))


def _sidecar(module: str, table: str, *, with_machine: bool = False) -> Callable[[Header], Make]:
    def make_of(header: Header) -> Make:
        import importlib

        program = importlib.import_module(f"mooring.cli.{module}")
        setup = _setup(getattr(program, table), header)
        return _beside_driver(
            program.sidecar(setup, machine_of(header)) if with_machine else program.sidecar(setup), setup, header
        )

    return make_of


def _beside_driver(sidecar: Sidecar[Any], setup: Setup[Any], header: Header) -> Make:
    from mooring.cli.sidecar import Context
    from mooring.csi.capabilities import DriverInfo

    _learn(sidecar.found, header.options.get("found", {}))
    told: dict[str, Any] = {
        name: frozenset(one) if isinstance(one, list) else one for name, one in header.driver.items()
    }
    info = DriverInfo(**told)
    return lambda runtime, driver: sidecar.works_of(Context(setup, runtime, driver, info)).works[0].make_work()


def _learn(found: dict[str, Any], told: Mapping[str, Any]) -> None:
    """Fills in what a program had learnt; one of several sidecars has a part for each of them, under its name."""
    for name, one in told.items():
        if isinstance(found.get(name), dict):
            _learn(found[name], one)
        else:
            found[name] = one


def _together(header: Header) -> Make:
    from mooring.cli.controller import NAME
    from mooring.cli.controller_flags import ControllerFlags
    from mooring.cli.controller_parts import Together

    setup = _setup(ControllerFlags, header)
    if setup.flags.lease_each:
        raise ConfigError("a record of controllers with --leader-election-lease-each can't be replayed", exit_code=2)
    together = Together(NAME, setup, machine_of(header))
    if header.driver:
        return _beside_driver(together.sidecar(), setup, header)
    return lambda runtime, _: together.works(runtime).works[0].make_work()


def _manager(module: str, table: str) -> Callable[[Header], Make]:
    """A program without a driver."""

    def make_of(header: Header) -> Make:
        import importlib

        program = importlib.import_module(f"mooring.cli.{module}")
        setup = _setup(getattr(program, table), header)

        def make(runtime: Runtime, _: Driver) -> Work:
            work: Work = program.make_work(setup, runtime)
            return work

        return make

    return make_of


PROGRAMS: Final[Mapping[str, Callable[[Header], Make]]] = {
    "csi-attacher": _sidecar("csi_attacher", "AttacherFlags"),
    "csi-provisioner": _sidecar("csi_provisioner", "ProvisionerFlags", with_machine=True),
    "csi-resizer": _sidecar("csi_resizer", "ResizerFlags"),
    "csi-snapshotter": _sidecar("csi_snapshotter", "SnapshotterFlags", with_machine=True),
    "snapshot-controller": _manager("snapshot_controller", "SnapshotControllerFlags"),
    "mooring-attachdetach": _manager("attachdetach", "AttachDetachFlags"),
    "mooring-binder": _manager("binder", "BinderFlags"),
    "mooring-controller": _together,
}
"""By the program's name in the record."""
