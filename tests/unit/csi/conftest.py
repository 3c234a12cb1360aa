"""Fixtures of the csi room."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from mooring.base import log as base_log
from mooring.csi.client import Client
from tests.unit.csi.servers import Log, in_process, over_wire


@pytest.fixture
def socket() -> Iterator[Path]:
    """A path for a socket, short enough for one: pytest's own folders may be too deep."""
    with tempfile.TemporaryDirectory(prefix="csi-") as folder:
        yield Path(folder) / "csi.sock"


@pytest.fixture
def log() -> Iterator[Callable[..., Log]]:
    """Begins a log: log(verbosity=5), in JSON unless told otherwise."""

    def begin(verbosity: int = 0, json: bool = True) -> Log:
        kept = Log()
        base_log.configure(verbosity=verbosity, json=json, stream=kept.stream)
        return kept

    yield begin
    base_log.configure()


@pytest.fixture(params=[over_wire, in_process])
def road(request: pytest.FixtureRequest, socket: Path) -> Callable[..., AbstractAsyncContextManager[Client]]:
    """Opens a client of a plugin, `async with road(plugin, **options) as driver`; each test runs over every road."""
    return functools.partial(request.param, socket)
