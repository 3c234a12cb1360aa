"""Lives with a flight recorder beside each controller, and the replay of what it recorded."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final
from unittest import mock

import pytest

from mooring.control.events import EventRecorder
from mooring.control.flight.driver import RecordedDriver
from mooring.control.flight.ports import RecordedClock, RecordedWork, recorded
from mooring.control.flight.recorder import Recorder
from mooring.control.flight.writing import frozen
from mooring.control.manager import Work
from mooring.control.ordered_work import OrderedWork
from mooring.control.runtime import Runtime
from mooring.control.tracing.ports import TracingDriver, on_traced_ports
from mooring.control.tracing.steps import Tracing
from mooring.csi.driver import Driver
from mooring.inspect.replay.course import Replayed, replayed
from mooring.inspect.replay.record import Record, parsed
from mooring.sidecars.provisioner.intents import lease_codec
from mooring.sidecars.provisioner.intents.journal import Journal
from tests.support.spans import SpansInMemory

RING_BYTES = 2**28
"""Nothing of a life is left out."""

PARTS: Final = {
    "attacher": ("tests.sim", ("Attacher",)),
    "resizer": ("tests.sim.growth", ("Resizer",)),
    "snapshots": ("tests.sim.snapshots", ("Snapshotter", "SnapshotController")),
    "provisioner": ("tests.sim.provisioning", ("Provisioner",)),
    "binder": ("tests.sim.provisioning", ("make_binder",)),
    "attachdetach": ("tests.sim.plane", ("AttachDetach",)),
}
"""By part of the simulation: where its `life` and `run` stand, and the makers of its works there."""
WITHOUT_DRIVER: Final = frozenset({"SnapshotController", "make_binder", "AttachDetach"})


@dataclasses.dataclass
class Recording:
    """One incarnation's. make: makes its work again. file: once it is dead. page_bytes_max: of a journal's page, in this life."""

    who: str
    recorder: Recorder
    make: Callable[[Runtime, Driver], Work]
    file: bytes = b""
    page_bytes_max: int = dataclasses.field(default_factory=lambda: lease_codec.PAGE_BYTES_MAX)

    def end(self) -> None:
        """It is dead, or the life is over: what comes from now on is the end of the world."""
        if not self.file:
            self.recorder.rest()
            self.file = frozen(self.recorder, self.who, "the end of a life", options={}, driver={})()

    @property
    def record(self) -> Record:
        return parsed(self.file)

    def again(self) -> Replayed:
        with mock.patch.object(lease_codec, "PAGE_BYTES_MAX", self.page_bytes_max):
            return replayed(self.record, self.make)


class Recordings:
    """All of one life. spans: where each controller has traces, too, beneath its recorder."""

    def __init__(self, spans: SpansInMemory | None = None) -> None:
        self.found: list[Recording] = []
        self._spans = spans

    def beside(self, maker: Callable[..., Any], *, has_driver: bool) -> Callable[..., RecordedWork]:
        """The maker of a work, which makes a recorder with it."""

        def made(runtime: Runtime, *rest: Any, **more: Any) -> RecordedWork:
            cluster: Any = runtime.cluster
            mortal = cluster.mortal if hasattr(cluster, "mortal") else cluster._mortal
            recorder = Recorder(runtime.clock, RING_BYTES)

            def make(ports: Runtime, driver: Driver) -> Work:
                own = [_on(ports, one) for one in rest]
                if has_driver:
                    own[0] = driver
                work: Work = maker(ports, *own, **{name: _on(ports, one) for name, one in more.items()})
                return work

            recording = Recording(mortal.who, recorder, make)
            self.found.append(recording)
            before = mortal.killed

            def killed() -> None:
                before()
                recording.end()

            mortal.killed = killed
            called, ports = RecordedDriver(rest[0], recorder) if has_driver else rest[0], recorded(runtime, recorder)
            if self._spans is None:
                return RecordedWork(lambda: make(ports, called), recorder)
            tracing = Tracing(self._spans.of(mortal.who), mortal.clock, recorder)
            traced, driver = (
                on_traced_ports(ports, tracing),
                TracingDriver(called, tracing, "d") if has_driver else called,
            )
            return RecordedWork(lambda: OrderedWork(lambda: make(traced, driver), tracing), recorder)

        return made

    def ended(self) -> Iterator[Recording]:
        """All of them, once the life is over."""
        return (one for one in self.found if one.file)


def _on(ports: Runtime, part: Any) -> Any:
    """A part that a life makes of its ports, made of these; anything else as it is."""
    if isinstance(part, EventRecorder):  # its clock may be its own
        clock = (
            RecordedClock(part._clock, ports.clock._recorder) if isinstance(ports.clock, RecordedClock) else ports.clock
        )
        return EventRecorder(ports.cluster, part._component, clock=clock, randomness=ports.randomness)
    if isinstance(part, Journal):
        return Journal(ports.cluster, part._location, part._store._identity, ports.clock)
    return part


@contextmanager
def recorders(
    part: str, monkeypatch: pytest.MonkeyPatch, spans: SpansInMemory | None = None
) -> Iterator[tuple[Recordings, ModuleType]]:
    """Within the block each controller of the part's lives has one. Gives them, and the part's module `run`."""
    place, makers = PARTS[part]
    life, run, recordings = (
        importlib.import_module(f"{place}.life"),
        importlib.import_module(f"{place}.run"),
        Recordings(spans),
    )
    rest = run._Life._rest

    async def to_the_end(self: Any, *world: Any) -> None:
        await rest(self, *world)
        for one in recordings.found:
            one.end()

    with monkeypatch.context() as patched:
        for name in makers:
            patched.setattr(life, name, recordings.beside(getattr(life, name), has_driver=name not in WITHOUT_DRIVER))
        patched.setattr(run._Life, "_rest", to_the_end)
        yield recordings, run


def decisions_of(record: Record) -> list[tuple[Any, ...]]:
    return [(one.what, one.key, one.shown) for one in record.entries if one.kind == "decided"]
