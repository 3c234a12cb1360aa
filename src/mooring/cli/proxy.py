"""`mooring proxy`: between a driver and its callers, to watch, to record, and to make faults.

| exit code | when |
|---|---|
| 0 | it was told to end |
| 1 | a socket or file can't be used |
| 2 | the command line or the script is wrong |
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from mooring.base.border import refused_as
from mooring.base.errors import ConfigError
from mooring.base.flagkinds import BOOL, FILE, SOCKET
from mooring.base.flags import Parsed, flag
from mooring.base.text import visible
from mooring.cli.driver_run import MODE
from mooring.cli.people import run_for_people
from mooring.cli.process import Command
from mooring.cli.tables import ProcessFlags

if TYPE_CHECKING:
    from mooring.conform.book.rule import Breach
    from mooring.conform.proxy.faults import Faults
    from mooring.conform.proxy.proxy import Passed
    from mooring.conform.proxy.script import Script

Say = Callable[[str], None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProxyFlags(ProcessFlags):
    listen: str = flag("listen", SOCKET, "", "The socket for the driver's callers, as in unix:///csi/csi.sock.")
    to: str = flag("to", SOCKET, "", "The driver's own socket, as in unix:///csi/driver.sock.")
    faults: str = flag(
        "faults", FILE, "", "A file with a script of faults, in YAML. Empty: all calls pass as they are."
    )
    record: str = flag(
        "record",
        FILE,
        "",
        "A file for all calls, without secrets, for mooring call --record to ask again.",
    )
    socket_mode: int = flag(
        "socket-mode", MODE, 0o600, "The mode of the listening socket's file, which says who may connect."
    )
    quiet: bool = flag("quiet", BOOL, False, "Show breaches and faults alone, not each call.")


def _check(parsed: Parsed[ProxyFlags]) -> None:
    from mooring.csi.address import socket_path

    for name, address in (("listen", parsed.flags.listen), ("to", parsed.flags.to)):
        if not address:
            raise ConfigError(f"{name}: required, as in --{name}=unix:///csi/{name}.sock")
        try:
            socket_path(address)
        except ConfigError as error:
            raise ConfigError(f"{name}: {str(error).removeprefix('csi-address ')}") from None
    if socket_path(parsed.flags.listen) == socket_path(parsed.flags.to):
        raise ConfigError("listen: is the driver's own socket: move the driver to another, and give that one as --to")


COMMAND: Final[Command[ProxyFlags]] = Command(
    ProxyFlags,
    check=_check,
    about="Stands between a driver and its callers, ours or Go's, and passes each call on. Shows the calls without "
    "secrets, names the "
    "rules of CSI that the driver breaks, records, and makes the faults of a script: lost answers, errors, "
    "delays, calls sent twice.",
    example="mooring proxy --listen unix:///csi/csi.sock \\\n  --to unix:///csi/driver.sock --faults faults.yaml",
)


def run(argv: Sequence[str], prog: str) -> int:
    """argv: the words after `mooring proxy`. Gives the exit code."""
    return run_for_people(
        COMMAND, argv, prog, lambda flags: asyncio.run(_serve(flags, script_in(flags.faults), sys.stdout))
    )


def script_in(path: str) -> Script:
    """No path is a script without faults. Raises ConfigError."""
    from mooring.conform.proxy.script import Script, script_of

    if not path:
        return Script(0, ())
    with refused_as(f"faults: can't read {path}", exit_code=2):
        return script_of(Path(path).read_text(encoding="utf-8"), path)


async def _serve(flags: ProxyFlags, script: Script, stdout: TextIO) -> int:
    from mooring.base.clock import LoopClock
    from mooring.base.stopping import stop_signals
    from mooring.conform.book.watcher import Watcher
    from mooring.conform.proxy.faults import Faults
    from mooring.conform.proxy.proxy import Proxy
    from mooring.conform.running_time import running_time
    from mooring.conform.watched import Watch
    from mooring.csi.address import socket_path

    clock, faults = LoopClock(), Faults(script.faults, script.seed)
    failures: list[OSError | ConfigError] = []

    def say(text: str) -> None:
        stdout.write(f"{text}\n")
        stdout.flush()

    def attempt(write: Callable[[], None]) -> None:
        """What can't be written ends the proxy, and not the call that is passed on."""
        try:
            write()
        except (OSError, ConfigError) as error:
            failures.append(error)
            stop.set()

    with stop_signals() as stop, _recorder(flags) as record:

        def told(passed: Passed) -> None:
            if not flags.quiet:
                say(line_of(passed))
            if passed.fault is not None:
                say(f"  fault: {passed.fault} ({passed.fault.place})")
            record(passed)

        async with running_time(clock) as ran:
            watcher = Watcher(lambda breach: attempt(lambda: say(_of_breach(breach))), now=ran.now)
            proxy = Proxy(
                socket_path(flags.to),
                faults=faults,
                watch=Watch(watcher, "", None),
                tell=lambda passed: attempt(lambda: told(passed)),
                clock=clock,
            )
            async with proxy.serving(Path(socket_path(flags.listen)), mode=flags.socket_mode):
                say(f"Passing calls from {flags.listen} to {flags.to}, until Ctrl-C")
                await stop.wait()
    if failures:
        raise failures[0]
    for text in _ending(watcher.breaches.values(), faults):
        say(text)
    return 0


@contextlib.contextmanager
def _recorder(flags: ProxyFlags) -> Iterator[Callable[[Passed], None]]:
    """Takes calls into the file that the flags name. Raises ConfigError."""
    from mooring.conform.record.lines import Recorder

    if not flags.record:
        yield lambda _: None
        return
    file = _private(flags.record)
    try:
        with refused_as(f"record: can't write {flags.record}"):
            recorder = Recorder(file, flags.to)

        def add(passed: Passed) -> None:
            with refused_as(f"record: can't write {flags.record}"):
                recorder.add(passed)

        yield add
    finally:
        with contextlib.suppress(OSError):  # what is left in its buffer has failed before
            file.close()


def _private(path: str) -> TextIO:
    """Opens a file that its owner alone may read. Raises ConfigError."""
    with refused_as(f"record: can't write {path}"):
        return open(path, "w", encoding="utf-8", opener=lambda name, mode: os.open(name, mode, 0o600))


def line_of(passed: Passed) -> str:
    """`CreateVolume {"name":"a"} -> OK {"volume":{}} in 0.003s`."""
    from mooring.csi.redact import redacted, scrubbed
    from mooring.wire.grpc.codes import go_name

    asked = "(this CSI does not know it)" if passed.request is None else redacted(passed.request)
    if not passed.reached:
        return visible(f"{passed.name} {asked} -> it did not reach the driver")
    if passed.error is not None:
        result = f"{go_name(passed.error.code)}: {passed.text}"
    elif passed.answer is not None and passed.request is not None:
        result = f"OK {scrubbed(redacted(passed.answer), passed.request)}"
    else:
        result = "the caller gave up" if passed.rpc is not None else "passed on"
    return visible(f"{passed.name} {asked} -> {result} in {passed.seconds:.3f}s")


def _of_breach(breach: Breach) -> str:
    lines = (breach.line, *breach.advice, breach.rule.source)
    return "\n".join(f"{'  breach: ' if number == 0 else '    '}{visible(text)}" for number, text in enumerate(lines))


def _ending(breaches: Iterable[Breach], faults: Faults) -> Iterator[str]:
    """Lines for the end: rules that were broken, and faults that never happened."""
    from mooring.conform.book.rule import headline

    for fault, count in faults.counts():
        yield (
            f"{fault.place}: {fault}: {f'{count} times' if count != 1 else 'once'}"
            if count
            else f"{fault.place}: {fault}: never happened"
        )
    found = sorted(breaches, key=lambda one: (one.rule.number, one.rpc))
    if found:
        yield headline(found)
        yield from (f"  {visible(breach.line)}" for breach in found)
