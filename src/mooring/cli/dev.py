"""`mooring dev`: an API server, a driver, the controllers and the nodes' agents in one process, until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import shlex
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from mooring.api.names import dns_subdomain
from mooring.base.errors import ConfigError
from mooring.base.flagkinds import BOOL, FILE, INT, NAMES, STRING
from mooring.base.flags import Parsed, flag, options_from
from mooring.base.text import meant
from mooring.base.units import format_duration
from mooring.cli import dev_power
from mooring.cli.border import say
from mooring.cli.driver_run import OPTIONS
from mooring.cli.hostpath_flags import TOPOLOGY
from mooring.cli.limits import check_not_negative
from mooring.cli.people import check_server_parts, leave, run_for_people, say_gone, story_log
from mooring.cli.process import Command
from mooring.cli.proxy import script_in
from mooring.cli.tables import ProcessFlags
from mooring.dev.options import DevChoices, DevOptions, Patience

if TYPE_CHECKING:
    from mooring.base.clock import LoopClock
    from mooring.base.ending import Ending
    from mooring.dev.plane import Plane
    from mooring.mounts.namespace import MountSpace

_READ_BYTES: Final = 4096
GRACE_S_MIN: Final = 1.0
ZONE: Final = "topology.kubernetes.io/zone"


@contextlib.contextmanager
def on_enter(terminal: TextIO | None, act: Callable[[], None]) -> Iterator[bool]:
    """Calls act at each Enter. Gives False without a terminal, or in its background, where reading would stop the
    process (SIGTTIN).
    """
    from mooring.dev.screen import is_in_front

    if terminal is None or not terminal.isatty() or not is_in_front(terminal.fileno()):
        yield False
        return
    loop, descriptor = asyncio.get_running_loop(), terminal.fileno()

    def read() -> None:
        if is_in_front(descriptor) and _line(descriptor):
            act()
        else:
            loop.remove_reader(descriptor)

    loop.add_reader(descriptor, read)
    try:
        yield True
    finally:
        loop.remove_reader(descriptor)


def _line(descriptor: int) -> bytes:
    """b"" at its end. A terminal gives whole lines."""
    try:
        return os.read(descriptor, _READ_BYTES)
    except OSError:
        return b""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DevFlags(DevChoices, Patience, ProcessFlags):
    driver: str = flag(
        "driver",
        STRING,
        "",
        "Your own driver: module:Class, a command with {socket} in it (and {node}), or unix:///path/of.sock. "
        "Empty: the reference driver.",
    )
    options: Mapping[str, str] = flag(
        "option",
        OPTIONS,
        {},
        "An argument for a driver that is a class, as in folder=/data/{node}; may be given more than once. "
        "If none gives node_id, that is the node's name.",
    )
    nodes: int = flag(
        "nodes", INT, 0, "How many nodes to make: n1, n2 and so on. 0: three, or one for your own driver."
    )
    zones: int = flag(
        "zones",
        INT,
        0,
        "Spread the nodes over so many zones, zone-1 and so on, as --topology with "
        "topology.kubernetes.io/zone. 0: none.",
    )
    node_ids: tuple[str, ...] = flag(
        "node-id", NAMES, (), "A node to make, by its name; may be given more than once, in place of --nodes."
    )
    topology: Mapping[str, Mapping[str, str]] = flag(
        "topology",
        TOPOLOGY,
        {},
        "A node's topology; given for each node, all with the same keys. A volume then lives in one place. "
        "Your own driver reports its topology itself.",
    )
    faults: str = flag(
        "faults",
        FILE,
        "",
        "A script of faults between the driver and its callers, in YAML, as mooring proxy takes it: docs/proxy.md.",
    )
    examples: bool = flag(
        "examples", BOOL, False, "Print claims, pods and a snapshot to try, as a shell script, and end."
    )
    plain: bool = flag(
        "plain", BOOL, False, "Print only lines, also on a terminal: no tables of nodes and volumes below them."
    )
    browser: bool = flag(
        "browser",
        BOOL,
        False,
        "Serve a page on loopback that shows nodes, volumes and calls, makes faults, kills nodes, and speeds "
        "up time; print its address.",
    )


def _check(parsed: Parsed[DevFlags]) -> None:
    if not 0 <= parsed.flags.port <= 65535:
        raise ConfigError(f"port: must be between 0 and 65535, got {parsed.flags.port}")
    for name, texts in (("node-id", parsed.flags.node_ids), ("volume", parsed.flags.volumes)):
        for text in texts:
            if dns_subdomain(text):
                raise ConfigError(
                    f"{name}: {text!r} can't be an object's name: take lower case letters, digits, - and ."
                )

    script_in(parsed.flags.faults)
    _check_nodes(parsed.flags)
    _check_zones(parsed.flags)
    if parsed.flags.grace_s < GRACE_S_MIN:
        raise ConfigError(
            f"node-monitor-grace-period: must be 1s at least, got {format_duration(parsed.flags.grace_s)}"
        )
    check_not_negative({"force-detach-after": parsed.flags.force_after_s})


def _check_nodes(flags: DevFlags) -> None:
    from mooring.csi.driver_form import ReferenceDriver, Socket, parse_form

    form = parse_form(flags.driver, flags.options)
    if flags.node_ids and flags.nodes:
        raise ConfigError("nodes: --nodes makes n1, n2 and so on, and --node-id names them: give one of the two")
    if not 0 <= flags.nodes <= NODES_MAX:
        raise ConfigError(f"nodes: must be between 1 and {NODES_MAX}, or 0 for the usual number; got {flags.nodes}")
    if len(names := _nodes(flags)) > 1 and isinstance(form, Socket):
        raise ConfigError(f"driver: one socket is one node's, and there are {len(names)}: take --nodes=1")
    for name in ("topology", "zones"):
        if getattr(flags, name) and not isinstance(form, ReferenceDriver):
            raise ConfigError(
                f"{name}: of the reference driver alone; your own driver reports its topology in NodeGetInfo"
            )


def _check_zones(flags: DevFlags) -> None:
    nodes = _nodes(flags)
    if flags.zones and flags.topology:
        raise ConfigError("zones: --zones makes zones, and --topology names them: give one of the two")
    if not 0 <= flags.zones <= len(nodes):
        raise ConfigError(f"zones: each needs a node, and there are {len(nodes)}; got {flags.zones}")
    if unknown := sorted(flags.topology.keys() - {*nodes}):
        raise ConfigError(f"topology: there is no node {unknown[0]!r}, only {', '.join(nodes)}")
    if flags.topology:
        from mooring.driver.hostpath.layout import check_topology

        check_topology(nodes, flags.topology)


NODES_MAX: Final = 100

COMMAND: Final[Command[DevFlags]] = Command(
    DevFlags,
    check=_check,
    about="Runs a control plane with a driver and the agents of some nodes on this machine, until Ctrl-C, and shows "
    "calls and writes. "
    "Pods get their volumes mounted; nothing runs in them. Nodes die and come back on demand.",
    example="mooring dev --nodes 3 --zones 2\nmooring dev --driver './my-driver --endpoint unix://{socket}'",
    epilog="\nIn another terminal, with commands of their own (--help lists their flags):\n"
    "  mooring dev kill-node NODE    Cut a node's power.\n"
    "  mooring dev revive-node NODE  Switch it on again.\n",
)


def _nodes(flags: DevFlags) -> tuple[str, ...]:
    """Their names."""
    usual = 1 if flags.driver else 3
    return tuple(dict.fromkeys(flags.node_ids)) or tuple(f"n{number + 1}" for number in range(flags.nodes or usual))


def _topology(flags: DevFlags) -> Mapping[str, Mapping[str, str]]:
    """The nodes by turns in the zones."""
    if not flags.zones:
        return flags.topology
    return {node: {ZONE: f"zone-{number % flags.zones + 1}"} for number, node in enumerate(_nodes(flags))}


def run(argv: Sequence[str], prog: str) -> int:
    """argv: the words after `mooring dev`. Gives the exit code."""
    if argv and argv[0] in dev_power.COMMANDS:
        return dev_power.run(argv, prog)
    if argv and not argv[0].startswith("-"):
        say(prog, f"there is no command {argv[0]!r}{meant(argv[0], dev_power.COMMANDS)}; {prog} --help lists them")
        return 2
    return run_for_people(COMMAND, argv, prog, lambda flags: _examples(flags) if flags.examples else _run(flags, prog))


def _examples(flags: DevFlags) -> int:
    check_server_parts()
    from mooring.dev.getting_started import examples
    from mooring.dev.seed_objects import class_name

    kubeconfig = str(Path(flags.state).absolute() / "kubeconfig") if flags.state else ""
    sys.stdout.write(
        examples(
            class_name(reference=not flags.driver), kubeconfig, reference=not flags.driver, snapshots=flags.snapshots
        )
    )
    return 0


def _typed(prog: str) -> str:
    """The command as it was typed: with the way to the program."""
    path = Path(sys.argv[0])
    return f"{shlex.quote(str(path))}{prog.removeprefix('mooring')}" if path.name == "mooring" else prog


def _examples_command(flags: DevFlags, prog: str) -> str:
    """To be pasted, with what the examples need to know."""
    state = f" --state={shlex.quote(flags.state)}" if flags.state else ""
    driver = f" --driver={shlex.quote(flags.driver)}" if flags.driver else ""
    snapshots = "" if flags.snapshots else " --snapshots=false"
    return f"{_typed(prog)} --examples{state}{driver}{snapshots}"


def _run(flags: DevFlags, prog: str) -> int:
    """Until it is ended. A signal that comes before there is anything to tidy up ends the process by itself."""
    from mooring.base.ending import Ending
    from mooring.base.interrupts import interrupted_at_once

    ending = Ending()
    with interrupted_at_once():
        space = _begin(flags)
        with ending.on_signals(), asyncio.Runner(loop_factory=_loop_factory(flags)) as runner:
            code = runner.run(_dev(flags, prog, space, ending))
    leave(code)


def _begin(flags: DevFlags) -> MountSpace:
    """Enters the mount namespace first, while this process has one thread: the event loop starts others.

    In it the owners of folders are not to be known any more: they are looked at before.
    """
    check_server_parts()
    from mooring.base.ownership import own_folder
    from mooring.csi.driver_form import Socket, parse_form
    from mooring.dev.folder import check_path
    from mooring.mounts.namespace import MountSpace, enter_private_mounts

    if flags.state:
        check_path(Path(flags.state), len(_nodes(flags)))  # before the folder is made
        own_folder(Path(flags.state))
    is_elsewhere = isinstance(
        parse_form(flags.driver), Socket
    )  # mounts are made where that driver runs: we must see them
    space = MountSpace() if is_elsewhere else enter_private_mounts()
    import mooring.dev.run  # noqa: F401 (most of the start: not where a signal would wait for its end)

    return space


def _options(flags: DevFlags) -> DevOptions:
    from mooring.csi.driver_form import parse_form

    form, patience = parse_form(flags.driver, flags.options), options_from(Patience, flags, {})
    script = script_in(flags.faults) if flags.faults else None
    plane = {"form": form, "nodes": _nodes(flags), "topology": _topology(flags), "patience": patience}
    return options_from(DevOptions, flags, {}, **plane, script=script, takes_faults=flags.browser)


def _is_plain(flags: DevFlags) -> bool:
    """JSON log lines go to stderr as they are, past the view: into it where both are one terminal."""
    return flags.plain or flags.logging_format == "json"


def _by_force() -> str:
    from mooring.driver.steps import where

    held = where(threading.main_thread().ident or 0)
    return f"ended by force: the event loop is held{held}" if held else "ended by force: something did not end"


def _loop_factory(flags: DevFlags) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """A page can speed up time."""
    if not flags.browser:
        return None
    from mooring.dev.pace import PacedLoop

    return PacedLoop


def _clock(flags: DevFlags) -> LoopClock:
    """The wall's time goes with the loop's, where that can be sped up."""
    from mooring.base.clock import LoopClock

    real = LoopClock()
    return LoopClock(real.wall_s() - real.now()) if flags.browser else real


async def _dev(flags: DevFlags, prog: str, space: MountSpace, ending: Ending) -> int:
    from mooring.base.clock import SharedClock
    from mooring.base.metrics import Metrics
    from mooring.base.randomness import Random
    from mooring.control.runtime import Runtime
    from mooring.dev.browser.feed import Feed
    from mooring.dev.browser.shown import in_browser
    from mooring.dev.getting_started import Commands
    from mooring.dev.live.model import Model
    from mooring.dev.live.view import screen_and_view
    from mooring.dev.live.watching import viewed
    from mooring.dev.output import passed_on, settle
    from mooring.dev.run import run_dev
    from mooring.dev.story import Story

    clock, randomness = _clock(flags), Random()
    feed = Feed(clock) if flags.browser else None
    with passed_on(sys.stdout) as stream, ending.at_last(lambda: settle(stream)):
        terminal, view = screen_and_view(
            stream, sys.stdin, lambda error: say_gone(prog, error, "it goes on until Ctrl-C"), plain=_is_plain(flags)
        )
        viewers = [one for one in (view, feed) if one is not None]
        with terminal as screen, ending.at_last(screen.leave):
            model = Model(*(viewer.changed for viewer in viewers))
            # Told of by threads, too: where the event loop is held.
            story = Story(screen, SharedClock(), model if viewers else None, None if feed is None else feed.add)

            @contextlib.asynccontextmanager
            async def shown(plane: Plane) -> AsyncGenerator[None, None]:
                served = contextlib.nullcontext() if feed is None else in_browser(feed, plane, options.patience, story)
                runtime = Runtime(plane.cluster, clock, randomness, Metrics())
                async with viewed(viewers, model, runtime, snapshots=plane.extras.snapshots), served:
                    yield

            options = _options(flags)
            with story_log(story, flags), ending.at_last(lambda: story.happened("warning", _by_force())):
                await run_dev(
                    options,
                    space,
                    story=story,
                    clock=clock,
                    randomness=randomness,
                    ending=ending,
                    commands=Commands(_typed(prog), _examples_command(flags, prog)),
                    on_enter=lambda act: on_enter(sys.stdin, act),
                    view=shown,
                )
    return 0
