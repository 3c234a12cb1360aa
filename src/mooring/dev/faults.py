"""Faults between the driver's sockets and their callers: a proxy before each socket."""

from __future__ import annotations

import dataclasses
from contextlib import AsyncExitStack
from pathlib import Path

from mooring.base.clock import Clock
from mooring.conform.proxy.faults import Faults
from mooring.conform.proxy.proxy import Passed, Proxy
from mooring.conform.watched import Breaches
from mooring.csi.wire_driver import WireDriver
from mooring.dev.drivers import Sockets
from mooring.dev.story import Story


async def with_faults(
    sockets: Sockets, faults: Faults, folder: Path, stack: AsyncExitStack, *, story: Story, breaches: Breaches, clock: Clock
) -> Sockets:
    """The sockets of proxies, which stand until the stack is closed. faults: of all of them. folder: for these. Raises ConfigError."""

    def tell(passed: Passed) -> None:
        if passed.fault is not None:
            story.happened("proxy", f"{passed.name}: {passed.fault} ({passed.fault.place})")

    nodes = {path: node for node, path in sockets.nodes.items()}
    proxied: dict[Path, Path] = {}
    for number, path in enumerate(dict.fromkeys((sockets.controller, *nodes))):
        await _until_there(path, sockets, clock)
        watch = breaches.watch_at_proxy(nodes.get(path, ""))
        proxy = Proxy(str(path), faults=faults, watch=watch, tell=tell, clock=clock)
        proxied[path] = folder / f"p{number}"
        await stack.enter_async_context(proxy.serving(proxied[path]))
    moved = {node: proxied[path] for node, path in sockets.nodes.items()}
    return dataclasses.replace(sockets, controller=proxied[sockets.controller], nodes=moved)


async def _until_there(path: Path, sockets: Sockets, clock: Clock) -> None:
    client = WireDriver(str(path), clock=clock)
    client.absent = sockets.absent
    await client.connect(sockets.patience_s, sockets.advice)
    await client.close()
