"""The flight recorder of a program: one for each term of its work, and the files that are made of it.

A file is written on SIGUSR1, at an unexpected end, and for a key that has failed for long (at most one an hour). It stands in the folder
that a flag names, readable for its owner alone. Whatever goes wrong with it is one line of the log.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from mooring.base.clock import Clock
from mooring.base.log import logger
from mooring.cli.election import namespace_of_pod
from mooring.cli.process import Machine, Setup
from mooring.cli.tables import ManagerFlags, SidecarFlags
from mooring.control.order import ordered
from mooring.control.program.terms import LeasedWork, LeasedWorks
from mooring.control.runtime import Runtime

if TYPE_CHECKING:
    from mooring.control.flight.recorder import Recorder
    from mooring.control.manager import Work
    from mooring.csi.capabilities import DriverInfo
    from mooring.csi.driver import Driver

F = TypeVar("F", bound=ManagerFlags)

PREFIX: Final = "mooring-flight-"
AGAIN_S: Final = 3600.0
"""Between two files that nobody asked for."""
FILES_MAX: Final = 20
"""Of one process; a folder for temporary files may be a node's memory."""

Make = Callable[[Runtime, "Driver | None"], LeasedWorks]
"""Makes the works of a program on these ports."""

_log = logger(__name__)


class FlightRecorder(Generic[F]):
    """name: of the program. clock: its own."""

    def __init__(self, name: str, setup: Setup[F], machine: Machine, clock: Clock) -> None:
        self._name, self._setup, self._machine, self._clock = name, setup, machine, clock
        self._recorder: Recorder | None = None
        self._info: DriverInfo | None = None
        self._found: Mapping[str, Any] = {}
        self._wanted: asyncio.Queue[str] = asyncio.Queue(1)
        self._told_at: float | None = None
        self._count = 0
        self._why_none = "nothing has been done yet"

    @property
    def is_on(self) -> bool:
        return self._setup.flags.flight_recorder

    def works(
        self,
        make: Make,
        runtime: Runtime,
        driver: Driver | None = None,
        info: DriverInfo | None = None,
        found: Mapping[str, Any] | None = None,
    ) -> LeasedWorks:
        """The works, with a recorder beside each term. Several works of one program on shared caches have none.

        found: as of a Sidecar.
        """
        self._info, self._found = info, found or {}
        if not self.is_on:
            self._why_none = "the recorder is off"
            return make(runtime, driver)
        first = [self._made(make, runtime, driver)]
        works = first[0][1]
        if len(works.works) != 1:
            self._why_none = "several works with a Lease each have no recorder"
            return make(runtime, driver)

        def make_work() -> Work:
            from mooring.control.flight.ports import RecordedWork

            recorder, made = first.pop() if first else self._made(make, runtime, driver)
            return RecordedWork(made.works[0].make_work, recorder, lambda: self._is_now(recorder))

        leased = works.works[0]
        own = LeasedWork(leased.component, leased.lock_name, make_work, leased.starting, leased.namespace)
        return LeasedWorks((own,), works.beside)

    def _is_now(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def _made(self, make: Make, runtime: Runtime, driver: Driver | None) -> tuple[Recorder, LeasedWorks]:
        from mooring.control.flight.ports import recorded
        from mooring.control.flight.recorder import Recorder

        flags = self._setup.flags
        recorder = Recorder(runtime.clock, flags.flight_recorder_bytes, flags.flight_recorder_stuck_s, self._troubled)
        if driver is not None:
            from mooring.control.flight.driver import RecordedDriver  # needs protobuf

            driver = RecordedDriver(driver, recorder)
        with ordered(recorder):
            return recorder, make(recorded(runtime, recorder), driver)

    # -- files

    @contextmanager
    def signalled(self) -> Iterator[None]:
        """SIGUSR1 asks for a file while the block runs."""
        loop = asyncio.get_running_loop()
        before = signal.getsignal(signal.SIGUSR1)
        loop.add_signal_handler(signal.SIGUSR1, self.want, "SIGUSR1")
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGUSR1)
            signal.signal(signal.SIGUSR1, before)

    def want(self, why: str) -> None:
        """Asks for a file; while one is being written that is the answer to all."""
        if not self._wanted.full():
            self._wanted.put_nowait(why)

    def _troubled(self, why: str) -> None:
        now = self._clock.now()
        if self._told_at is None or now - self._told_at >= AGAIN_S:
            self._told_at = now
            self.want(why)

    async def run(self) -> None:
        """Writes the files that are asked for, until cancelled."""
        while True:
            why = await self._wanted.get()
            if (frozen := self._frozen(why)) is not None:
                await asyncio.to_thread(self._write, why, frozen)

    def crashed(self, error: BaseException) -> None:
        """The program ends by this error, which nobody expected: the file is written at once."""
        why = f"the program ended by {type(error).__name__}: {error}"
        if self._recorder is not None and (frozen := self._frozen(why)) is not None:
            self._write(why, frozen)

    def _frozen(self, why: str) -> Callable[[], bytes] | None:
        """The record as it is now, to be written out beside the loop; None where nothing is recorded."""
        from mooring.control.flight.writing import frozen

        if self._recorder is None:
            _log.warning("There is no flight record", why=self._why_none, wanted=why)
            return None
        info = self._info
        driver = {} if info is None else {name: _plain(value) for name, value in _fields(info)}
        options = options_of_record(self._setup, self._machine) | {"found": self._found}
        return frozen(self._recorder, self._name, why, options=options, driver=driver)

    def _write(self, why: str, frozen: Callable[[], bytes]) -> None:
        if self._count >= FILES_MAX:
            _log.warning(
                "No flight record is written any more", why=f"this process has written {FILES_MAX}", wanted=why
            )
            return
        self._count += 1
        folder = Path(self._setup.flags.flight_recorder_dir or tempfile.gettempdir())
        path = folder / f"{PREFIX}{self._name}-{os.getpid()}-{self._count}.gz"
        try:
            data = frozen()
            _put(path, data)
        except Exception as error:  # a program must not end, or end otherwise, for its recorder
            _log.error("Could not write the flight record", error=error, file=str(path))
        else:
            _log.info(0, "Wrote the flight record, for mooring replay", file=str(path), why=why, bytes=len(data))


def _put(path: Path, data: bytes) -> None:
    """A new file, whole or not there at all: no link of somebody else's is followed. Raises OSError."""
    made = path.with_suffix(".part")
    descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.rename(made, path)
    except OSError:
        made.unlink(missing_ok=True)
        raise


_ENVIRON: Final = ("NODE_NAME", "POD_NAME", "NAMESPACE")
_COMMON: Final = frozenset(field.name for field in dataclasses.fields(SidecarFlags))


def options_of_record(setup: Setup[Any], machine: Machine) -> dict[str, Any]:
    """The program's own flags, not those of its surroundings; its gates; and which node, pod and namespace it is on."""
    own = {name: _plain(value) for name, value in _fields(setup.flags) if name not in _COMMON}
    environ = {name: machine.environ[name] for name in _ENVIRON if name in machine.environ}
    if namespace := namespace_of_pod(machine):
        environ["POD_NAMESPACE"] = namespace
    return {"flags": own, "gates": dict(setup.gates), "given": sorted(setup.given), "environ": environ}


def _fields(record: Any) -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(record):
        yield field.name, getattr(record, field.name)


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, frozenset) else list(value) if isinstance(value, tuple) else value
