"""The embedded API server in a thread of its own, for tests that talk to it over HTTPS as any client would."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.identity.tls import ServerIdentity, identity_in
from mooring.apiserver.table import DEFAULT_LIMITS, HistoryLimits
from mooring.apiserver.web.server import ApiServer
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from tests.support.stalls import StallMeter

_START_S_MAX = 20.0


class EmbeddedServer:
    """Use it as a context manager. folder: for the identity and the kubeconfig. limits: how much history it keeps.
    meter: for its loop.
    """

    def __init__(
        self, folder: Path, limits: HistoryLimits = DEFAULT_LIMITS, *, meter: StallMeter | None = None
    ) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.identity: ServerIdentity = identity_in(folder / "identity", time.time())
        self.url = ""
        self._limits, self._meter = limits, meter
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="embedded-apiserver")

    @property
    def ca_file(self) -> Path:
        return self.folder / "identity" / "ca.crt"

    def __enter__(self) -> EmbeddedServer:
        self._thread.start()
        assert self._started.wait(_START_S_MAX), "the embedded server did not start"
        if self._error is not None:
            raise self._error
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_START_S_MAX)
        assert not self._thread.is_alive(), "the embedded server did not end"

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._error = error
            self._started.set()

    async def _serve(self) -> None:
        randomness, clock = Random(1), LoopClock()
        server = ApiServer(
            new_store(randomness, time.time(), self._limits), self.identity, clock=clock, randomness=randomness
        )
        await server.start()
        self._loop, self._stop, self.url = asyncio.get_running_loop(), asyncio.Event(), server.url
        server.write_kubeconfig(self.kubeconfig)
        if self._meter is not None:
            self._meter.start()
        self._started.set()
        try:
            await self._stop.wait()
        finally:
            await server.close()
