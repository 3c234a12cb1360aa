"""Sockets to a host by its name: all its addresses, in the resolver's order, the two families in turn.

The next address is tried as soon as one has failed, and beside it when it has said nothing for a quarter of a second
(RFC 8305): a host whose IPv6 leads nowhere costs that long, not the minutes after which the kernel gives up.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

SECOND_TRY_S: Final = 0.25
_ADDRESSES_MAX: Final = 16
"""The number of one name's addresses that are tried; a name with more has a balancer's."""

PROBE_AFTER_S: Final = 30
"""The silence before the first of three probes, 10 s apart: a dead peer is noticed in a minute, also while nothing
is written.
"""
_PROBE_EVERY_S: Final = 10
_PROBE_COUNT: Final = 3
_PROBES: Final = (("TCP_KEEPIDLE", PROBE_AFTER_S), ("TCP_KEEPINTVL", _PROBE_EVERY_S), ("TCP_KEEPCNT", _PROBE_COUNT))

_NO_WAY: Final = (errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""This machine does not speak the family: of several errors the least telling."""

Address: TypeAlias = tuple[Any, ...]
"""Family, kind, protocol, canonical name, and the family's own form of an address with its port."""


async def open_socket(host: str, port: int) -> socket.socket:
    """A connected socket with keep-alive probes and without Nagle's delay.

    Raises OSError, of all addresses' errors the one that tells most; socket.gaierror for a name that can't be resolved.
    """
    addresses = await _addresses(host, port)
    if len(addresses) == 1:
        return await _connected(addresses[0])
    return await _first_connected(addresses)


async def _addresses(host: str, port: int) -> Sequence[Address]:
    """Raises socket.gaierror."""
    known = _literal(host, port)
    if known is not None:
        return (known,)
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    if not found:
        raise socket.gaierror(socket.EAI_NONAME, "no address belongs to this name")
    return in_turn(found)[:_ADDRESSES_MAX]


def _literal(host: str, port: int) -> Address | None:
    """The address itself, where that is what the host is: no thread is started for the resolver."""
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        return None
    if "%" in host:
        return None  # (the resolver knows the interface's number)
    family, place = (socket.AF_INET, (host, port)) if version == 4 else (socket.AF_INET6, (host, port, 0, 0))
    return family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", place


def in_turn(addresses: Sequence[Address]) -> list[Address]:
    """The families in turn, beginning with that of the first address, each in its own order."""
    first = addresses[0][0]
    ours, others = (
        deque(one for one in addresses if one[0] == first),
        deque(one for one in addresses if one[0] != first),
    )
    ordered = []
    while ours or others:
        ordered += [line.popleft() for line in (ours, others) if line]
    return ordered


async def _first_connected(addresses: Sequence[Address]) -> socket.socket:
    """The socket that is connected first. Raises OSError when none is."""
    rest, errors = deque(addresses), list[OSError]()
    async with asyncio.TaskGroup() as group:
        pending: set[asyncio.Task[socket.socket | OSError]] = set()
        try:
            while rest or pending:
                if rest:
                    pending.add(group.create_task(_attempt(rest.popleft()), name="connect/address"))
                done, _ = await asyncio.wait(
                    pending, timeout=SECOND_TRY_S if rest else None, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    pending.discard(task)
                    outcome = task.result()
                    if isinstance(outcome, socket.socket):
                        return outcome
                    errors.append(outcome)
        finally:
            for task in pending:
                _dismiss(task)
    raise min(errors, key=lambda error: error.errno in _NO_WAY)


async def _attempt(address: Address) -> socket.socket | OSError:
    try:
        return await _connected(address)
    except OSError as error:
        return error


def _dismiss(task: asyncio.Task[socket.socket | OSError]) -> None:
    """Ends an attempt that another has outrun; its socket is closed if it was connected in the same turn of the
    loop.
    """
    if not task.done():
        task.cancel()
    elif isinstance(outcome := task.result(), socket.socket):
        outcome.close()


async def _connected(address: Address) -> socket.socket:
    family, kind, protocol, _, place = address
    made = socket.socket(family, kind, protocol)
    try:
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _PROBES:
            if hasattr(socket, option):
                made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        await asyncio.get_running_loop().sock_connect(made, place)
    except BaseException:
        made.close()
        raise
    return made
