"""`mooring apiserver`: the embedded API server alone, for kubectl and every other client of Kubernetes."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import shlex
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from mooring.base import heap, loops
from mooring.base.errors import ConfigError
from mooring.base.flagkinds import BOOL, DURATION, FILE, FOLDER, INT
from mooring.base.flags import Parsed, UsageError, flag, parse
from mooring.cli.people import check_server_parts, run_for_people
from mooring.cli.process import Command
from mooring.cli.tables import ProcessFlags

if TYPE_CHECKING:
    from mooring.apiserver.durability import Durability
    from mooring.apiserver.store import ObjectStore
    from mooring.base.clock import Clock
    from mooring.base.randomness import Random

F = TypeVar("F", bound=ProcessFlags)

_WORDS: Final = ("backup", "restore")


@dataclasses.dataclass(frozen=True, kw_only=True)
class BackupFlags(ProcessFlags):
    state: str = flag("state", FOLDER, "", "The server's folder. The server may be running.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RestoreFlags(ProcessFlags):
    state: str = flag("state", FOLDER, "", "The server's folder. No server may be running on it; made if missing.")
    replace: bool = flag(
        "replace", BOOL, False, "Put the backup in the place of objects that are there; they stay in the folder."
    )


def _check_state(parsed: Parsed[BackupFlags] | Parsed[RestoreFlags]) -> None:
    if not parsed.flags.state:
        raise ConfigError("state: give the server's folder")


_BACKUP: Final[Command[BackupFlags]] = Command(
    BackupFlags,
    check=_check_state,
    about="Writes a server's objects to one new FILE. The server may be running.",
    example="mooring apiserver backup --state ./state backup.db",
)
_RESTORE: Final[Command[RestoreFlags]] = Command(
    RestoreFlags,
    check=_check_state,
    about="Puts the objects of a backup, a FILE, into a server's folder.",
    example="mooring apiserver restore --state ./other backup.db",
)


def _run_on_file(argv: Sequence[str], prog: str) -> int:
    """argv: one of WORDS, its flags, and a file. Gives the exit code."""
    word, *rest = argv
    if word == "backup":
        return _run_with_file(_BACKUP, rest, f"{prog} {word}", _back_up)
    return _run_with_file(_RESTORE, rest, f"{prog} {word}", _restore)


def _run_with_file(command: Command[F], argv: Sequence[str], prog: str, serve: Callable[[F, Path], None]) -> int:
    try:
        words = parse(command.table, argv).rest
    except UsageError:
        words = ()  # it is said below

    def checked(flags: F) -> int:
        if len(words) != 1:
            raise UsageError("give one FILE, after the flags")
        serve(flags, Path(words[0]))
        return 0

    return run_for_people(command, argv[: len(argv) - len(words)], prog, checked)


def _back_up(flags: BackupFlags, file: Path) -> None:
    from mooring.apiserver.disk.backup import back_up

    saved = back_up(Path(flags.state), file)
    sys.stdout.write(f"'{file}' has the objects as of version {saved.version}\n")


def _restore(flags: RestoreFlags, file: Path) -> None:
    from mooring.apiserver.disk.backup import restore
    from mooring.base.clock import LoopClock

    saved, replaced = restore(Path(flags.state), file, LoopClock().wall_s(), replace=flags.replace)
    sys.stdout.write(
        f"'{flags.state}' has the {len(saved.objects)} objects of '{file}'; versions go on after {saved.version}\n"
    )
    if replaced is not None:
        sys.stdout.write(f"The former objects are kept as '{replaced}'\n")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ApiServerFlags(ProcessFlags):
    state: str = flag(
        "state", FOLDER, "", "A folder that keeps the objects, the server's certificates and token. Made if missing."
    )
    memory: bool = flag(
        "memory",
        BOOL,
        False,
        "Keep the objects in memory: they end with the process. A --state folder then keeps the certificates "
        "and the token.",
    )
    no_fsync: bool = flag(
        "unsafe-no-fsync",
        BOOL,
        False,
        "Answer before the disk has the write. A crash of the machine (power, kernel) then loses the last "
        "seconds of answered writes; "
        "a crash or kill of this process alone loses nothing.",
    )
    event_ttl: float = flag("event-ttl", DURATION, 3600.0, "How long an Event lives after its last write.")
    port: int = flag(
        "port", INT, 0, "The port on this machine; 0 takes that of the folder's last start, or a free one."
    )
    kubeconfig: str = flag(
        "kubeconfig", FILE, "", "The kubeconfig file to write for clients. Empty: 'kubeconfig' in the --state folder."
    )


def _check(parsed: Parsed[ApiServerFlags]) -> None:
    flags = parsed.flags
    if not 0 <= flags.port <= 65535:
        raise ConfigError(f"port: must be between 0 and 65535, got {flags.port}")
    if flags.event_ttl <= 0:
        raise ConfigError(f"event-ttl: must be above 0, got {flags.event_ttl:g}s")
    if not flags.state and not (flags.memory and flags.kubeconfig):
        raise ConfigError("state: give a folder that keeps the objects, or --memory together with --kubeconfig FILE")


COMMAND: Final[Command[ApiServerFlags]] = Command(
    ApiServerFlags,
    check=_check,
    about="Runs the embedded API server alone, for kubectl and every other client of Kubernetes. It has no "
    "controllers. "
    "mooring apiserver backup and mooring apiserver restore save and bring back its objects.",
    example="mooring apiserver --state ./state",
)


def run(argv: Sequence[str], prog: str) -> int:
    """argv: the words after `mooring apiserver`. Gives the exit code."""
    if argv[:1] and argv[0] in _WORDS:
        return _run_on_file(argv, prog)
    return run_for_people(COMMAND, argv, prog, lambda flags: loops.run(_serve(flags)))


def kubeconfig_file(flags: ApiServerFlags, folder: Path) -> Path:
    """Where the kubeconfig goes. Absolute: the line that names it is pasted into other terminals."""
    return Path(flags.kubeconfig or folder / "kubeconfig").absolute()


def _last_port(path: Path) -> int:
    """That of the folder's last start, if it is free; else 0."""
    from mooring.apiserver.web.server import is_free, last_port

    port = last_port(path)
    if port and not is_free(port):
        sys.stderr.write(f"mooring apiserver: port {port}, where it was last time, is taken: it takes another\n")
        return 0
    return port


async def _serve(flags: ApiServerFlags) -> int:
    check_server_parts()
    from mooring.apiserver.identity.tls import identity_in
    from mooring.apiserver.web.server import LOOPBACK, ApiServer
    from mooring.base.clock import LoopClock
    from mooring.base.folders import folder_or_temporary
    from mooring.base.ownership import own_folder
    from mooring.base.randomness import Random
    from mooring.base.stopping import stop_signals

    clock, randomness = LoopClock(), Random()
    if flags.state:
        own_folder(Path(flags.state))
    with stop_signals() as stop, folder_or_temporary(flags.state) as folder:
        async with _objects(flags, folder, clock, randomness) as (store, durability):
            identity = identity_in(folder / "tls", clock.wall_s())
            path = kubeconfig_file(flags, folder)
            port = flags.port or (_last_port(path) if flags.state else 0)
            with heap.building():
                server = ApiServer(
                    store, identity, clock=clock, randomness=randomness, address=(LOOPBACK, port), durability=durability
                )
            await server.start()
            try:
                server.write_kubeconfig(path)
                sys.stdout.write(
                    f"The API server answers on {server.url}\nexport KUBECONFIG={shlex.quote(str(path))}\n"
                )
                sys.stdout.flush()
                await _until(stop, durability)
            finally:
                await server.close()
    return 0


@contextlib.asynccontextmanager
async def _objects(
    flags: ApiServerFlags, folder: Path, clock: Clock, randomness: Random
) -> AsyncGenerator[tuple[ObjectStore, Durability], None]:
    from mooring.apiserver.bootstrap import new_store
    from mooring.apiserver.disk.state import lasting
    from mooring.apiserver.durability import InMemory

    if flags.memory:
        store = new_store(randomness, clock.wall_s(), event_ttl_s=flags.event_ttl)
        yield store, InMemory(store)
        return
    async with lasting(
        folder, clock=clock, randomness=randomness, careful=not flags.no_fsync, event_ttl_s=flags.event_ttl
    ) as opened:
        yield opened


async def _until(stop: asyncio.Event, durability: Durability) -> None:
    """Returns when told to stop. Raises ConfigError when the objects can't be saved any more."""
    async with asyncio.TaskGroup() as group:
        waits = [
            group.create_task(one, name=f"cli/{name}")
            for name, one in (("stop", stop.wait()), ("failure", durability.failed()))
        ]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
    if durability.failure:
        raise ConfigError(
            f"the objects could not be saved: {durability.failure}; what was answered is on disk, the rest is lost"
        )
