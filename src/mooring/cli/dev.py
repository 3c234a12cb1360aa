"""`mooring dev`: an API server, a driver, the controllers and the nodes' agents in one process, until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from mooring.api.names import dns_subdomain
from mooring.base.errors import ConfigError
from mooring.base.flagkinds import BOOL, INT, STRING
from mooring.base.flags import Parsed, flag
from mooring.cli.driver_run import OPTIONS
from mooring.cli.hostpath_kinds import NAMES, TOPOLOGY
from mooring.cli.people import check_server_parts, run_for_people, say_gone, story_log
from mooring.cli.process import Command
from mooring.cli.tables import ProcessFlags

if TYPE_CHECKING:
    from mooring.mounts.namespace import MountSpace

_READ_BYTES: Final = 4096


@contextlib.contextmanager
def on_enter(terminal: TextIO | None, act: Callable[[], None]) -> Iterator[bool]:
    """Calls act at each Enter. Gives False without a terminal, or in its background, where reading would stop the process (SIGTTIN)."""
    if terminal is None or not terminal.isatty() or not _is_in_front(terminal.fileno()):
        yield False
        return
    loop, descriptor = asyncio.get_running_loop(), terminal.fileno()

    def read() -> None:
        if _is_in_front(descriptor) and _line(descriptor):
            act()
        else:
            loop.remove_reader(descriptor)

    loop.add_reader(descriptor, read)
    try:
        yield True
    finally:
        loop.remove_reader(descriptor)


def _is_in_front(descriptor: int) -> bool:
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:
        return True  # not the terminal that rules over this process


def _line(descriptor: int) -> bytes:
    """b"" at its end. A terminal gives whole lines."""
    try:
        return os.read(descriptor, _READ_BYTES)
    except OSError:
        return b""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DevFlags(ProcessFlags):
    state: str = flag(
        "state",
        STRING,
        "",
        "A folder that keeps objects, volumes, certificates and the kubeconfig. Empty: they vanish at the end.",
    )
    port: int = flag("port", INT, 0, "The API server's port; 0 takes that of the folder's last start, or a free one.")
    driver: str = flag(
        "driver",
        STRING,
        "",
        "Your own driver: module:Class, a command with {socket} in it (and {node}), or unix:///path/of.sock. Empty: the reference driver.",
    )
    options: Mapping[str, str] = flag(
        "option", OPTIONS, {}, "An argument for a driver that is a class, as in folder=/data; may be given more than once."
    )
    nodes: int = flag("nodes", INT, 0, "How many nodes to make: node-1, node-2 and so on. 0: three, and one for your own driver.")
    node_ids: tuple[str, ...] = flag("node-id", NAMES, (), "A node to make, by its name; may be given more than once, in place of --nodes.")
    volumes: tuple[str, ...] = flag(
        "volume",
        NAMES,
        (),
        "A PersistentVolume to make, with a volume of 1 GiB; may be given more than once.",
    )
    topology: Mapping[str, Mapping[str, str]] = flag(
        "topology",
        TOPOLOGY,
        {},
        "A node's topology; given for each node, all with the same keys. Volumes live in one place then. "
        "Your own driver tells its topology itself.",
    )
    examples: bool = flag("examples", BOOL, False, "Print claims and a pod to try, as a shell script, and end.")
    default_class: bool = flag("default-class", BOOL, False, "Make the driver's class that of claims that name none.")


def _check(parsed: Parsed[DevFlags]) -> None:
    if not 0 <= parsed.flags.port <= 65535:
        raise ConfigError(f"port: must be between 0 and 65535, got {parsed.flags.port}")
    for name, texts in (("node-id", parsed.flags.node_ids), ("volume", parsed.flags.volumes)):
        for text in texts:
            if dns_subdomain(text):
                raise ConfigError(f"{name}: {text!r} can't be an object's name: take lower case letters, digits, - and .")

    _check_nodes(parsed.flags)


def _check_nodes(flags: DevFlags) -> None:
    from mooring.dev.driver_form import Reference, Socket, parse_form

    form = parse_form(flags.driver, flags.options)
    if flags.node_ids and flags.nodes:
        raise ConfigError("nodes: --nodes makes node-1, node-2 and so on, and --node-id names them: give one of the two")
    if not 0 <= flags.nodes <= NODES_MAX:
        raise ConfigError(f"nodes: must be between 1 and {NODES_MAX}, or 0 for the usual number; got {flags.nodes}")
    if len(names := _nodes(flags)) > 1 and isinstance(form, Socket):
        raise ConfigError(f"driver: one socket is one node's, and there are {len(names)}: take --nodes=1")
    if flags.topology and not isinstance(form, Reference):
        raise ConfigError("topology: it is the reference driver's; your own driver tells its topology in NodeGetInfo")


NODES_MAX: Final = 100

COMMAND: Final[Command[DevFlags]] = Command(
    DevFlags,
    check=_check,
    about="Runs an API server, a driver, provisioner, binder, scheduler, attacher and the agents of some nodes on this machine, until "
    "Ctrl-C, and shows all that they do. Pods get their volumes mounted; nothing runs in them.",
    example="mooring dev --driver './my-driver --endpoint unix://{socket}'",
)


def _nodes(flags: DevFlags) -> tuple[str, ...]:
    """Their names."""
    usual = 1 if flags.driver else 3
    return tuple(dict.fromkeys(flags.node_ids)) or tuple(f"node-{number + 1}" for number in range(flags.nodes or usual))


def run(argv: Sequence[str], prog: str) -> int:
    """argv: the words after `mooring dev`. Gives the exit code."""
    return run_for_people(COMMAND, argv, prog, lambda flags: _examples(flags) if flags.examples else _run(flags, prog))


def _examples(flags: DevFlags) -> int:
    check_server_parts()
    from mooring.dev.seed_objects import class_name, examples

    kubeconfig = str(Path(flags.state).absolute() / "kubeconfig") if flags.state else ""
    sys.stdout.write(examples(class_name(reference=not flags.driver), kubeconfig))
    return 0


def _examples_command(flags: DevFlags, prog: str) -> str:
    """To be pasted: with the way to the program, and what the examples need to know."""
    path = Path(sys.argv[0])
    typed = f"{shlex.quote(str(path))}{prog.removeprefix('mooring')}" if path.name == "mooring" else prog
    state = f" --state={shlex.quote(flags.state)}" if flags.state else ""
    driver = f" --driver={shlex.quote(flags.driver)}" if flags.driver else ""
    return f"{typed} --examples{state}{driver}"


def _run(flags: DevFlags, prog: str) -> int:
    """Enters the mount namespace first, while this process has one thread: grpc and the event loop start others."""
    check_server_parts()
    from mooring.dev.driver_form import Socket, parse_form
    from mooring.mounts.namespace import MountSpace, enter_private_mounts

    is_elsewhere = isinstance(parse_form(flags.driver), Socket)  # mounts are made where that driver runs: we must see them
    space = MountSpace() if is_elsewhere else enter_private_mounts()
    return asyncio.run(_dev(flags, prog, space))


async def _dev(flags: DevFlags, prog: str, space: MountSpace) -> int:
    from mooring.base.clock import LoopClock
    from mooring.base.randomness import Random
    from mooring.base.stopping import stop_signals
    from mooring.dev.driver_form import parse_form
    from mooring.dev.run import DevOptions, run_dev
    from mooring.dev.screen import screen_for
    from mooring.dev.story import Story

    clock = LoopClock()
    with screen_for(sys.stdout, lambda: say_gone(prog, "it goes on until Ctrl-C")) as screen, stop_signals() as stop:
        story = Story(screen, clock)
        with story_log(story, flags):
            await run_dev(
                DevOptions(
                    flags.state,
                    parse_form(flags.driver, flags.options),
                    _nodes(flags),
                    flags.topology,
                    flags.volumes,
                    flags.default_class,
                    flags.port,
                ),
                space,
                story=story,
                clock=clock,
                randomness=Random(),
                stop=stop,
                examples=_examples_command(flags, prog),
                on_enter=lambda act: on_enter(sys.stdin, act),
            )
    return 0
