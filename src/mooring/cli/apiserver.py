"""`mooring apiserver`: the embedded API server alone, for kubectl and for everything that takes it for Kubernetes."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import shlex
import sys
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mooring.base import loops
from mooring.base.errors import ConfigError
from mooring.base.flagkinds import BOOL, DURATION, INT, STRING
from mooring.base.flags import Parsed, flag
from mooring.cli import apiserver_files
from mooring.cli.people import check_server_parts, run_for_people
from mooring.cli.process import Command
from mooring.cli.tables import ProcessFlags

if TYPE_CHECKING:
    from mooring.apiserver.durability import Durability
    from mooring.apiserver.store import ObjectStore
    from mooring.base.clock import Clock
    from mooring.base.randomness import Chance


@dataclasses.dataclass(frozen=True, kw_only=True)
class ApiServerFlags(ProcessFlags):
    state: str = flag("state", STRING, "", "A folder that keeps the objects, the server's certificates and token. Made if missing.")
    memory: bool = flag(
        "memory",
        BOOL,
        False,
        "Keep the objects in memory: they end with the process. A --state folder then keeps the certificates and the token.",
    )
    no_fsync: bool = flag(
        "unsafe-no-fsync",
        BOOL,
        False,
        "Answer before the disk has the write. A crash of the machine (power, kernel) then loses the last seconds of answered writes; "
        "a crash or kill of this process alone loses nothing.",
    )
    event_ttl: float = flag("event-ttl", DURATION, 3600.0, "How long an Event lives after its last write.")
    port: int = flag("port", INT, 0, "The port on this machine; 0 takes a free one.")
    kubeconfig: str = flag("kubeconfig", STRING, "", "The kubeconfig file to write for clients. Empty: 'kubeconfig' in the --state folder.")


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
    about="Runs the embedded API server alone, for kubectl and for everything that takes it for Kubernetes. No controllers. "
    "mooring apiserver backup and mooring apiserver restore save and bring back its objects.",
    example="mooring apiserver --state ./state",
)


def run(argv: Sequence[str], prog: str) -> int:
    """argv: the words after `mooring apiserver`. Gives the exit code."""
    if argv[:1] and argv[0] in apiserver_files.WORDS:
        return apiserver_files.run(argv, prog)
    return run_for_people(COMMAND, argv, prog, lambda flags: loops.run(_serve(flags)))


def kubeconfig_file(flags: ApiServerFlags, folder: Path) -> Path:
    """Where the kubeconfig goes. Absolute: the line that names it is pasted into other terminals."""
    return Path(flags.kubeconfig or folder / "kubeconfig").absolute()


async def _serve(flags: ApiServerFlags) -> int:
    check_server_parts()
    from mooring.apiserver.identity.tls import identity_in
    from mooring.apiserver.web.server import ApiServer
    from mooring.base.clock import LoopClock
    from mooring.base.folders import folder_or_temporary
    from mooring.base.randomness import Chance
    from mooring.base.stopping import stop_signals

    clock, chance = LoopClock(), Chance()
    with stop_signals() as stop, folder_or_temporary(flags.state) as folder:
        async with _objects(flags, folder, clock, chance) as (store, durability):
            identity = identity_in(folder / "tls", clock.wall_s())
            server = ApiServer(store, identity, clock=clock, chance=chance, port=flags.port, durability=durability)
            await server.start()
            try:
                told = kubeconfig_file(flags, folder)
                server.write_kubeconfig(told)
                sys.stdout.write(f"The API server answers on {server.url}\nexport KUBECONFIG={shlex.quote(str(told))}\n")
                sys.stdout.flush()
                await _until(stop, durability)
            finally:
                await server.close()
    return 0


@contextlib.asynccontextmanager
async def _objects(
    flags: ApiServerFlags, folder: Path, clock: Clock, chance: Chance
) -> AsyncGenerator[tuple[ObjectStore, Durability], None]:
    from mooring.apiserver.bootstrap import new_store
    from mooring.apiserver.disk.state import lasting
    from mooring.apiserver.durability import InMemory

    if flags.memory:
        store = new_store(chance, clock.wall_s(), event_ttl_s=flags.event_ttl)
        yield store, InMemory(store)
        return
    async with lasting(folder, clock=clock, chance=chance, careful=not flags.no_fsync, event_ttl_s=flags.event_ttl) as opened:
        yield opened


async def _until(stop: asyncio.Event, durability: Durability) -> None:
    """Returns when told to stop. Raises ConfigError when the objects can't be saved any more."""
    async with asyncio.TaskGroup() as group:
        waits = [group.create_task(one, name=f"cli/{name}") for name, one in (("stop", stop.wait()), ("failure", durability.failed()))]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
    if durability.failure:
        raise ConfigError(f"the objects could not be saved: {durability.failure}; what was answered is on disk, the rest is lost")
