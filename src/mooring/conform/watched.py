"""A driver's calls under the book's rules: a watcher hears of each, and tells each breach when it happens, and all of
them at the end.

Lost answers are what drivers are broken by most, and they seldom happen while somebody tries a driver out. So the first
call of each kind that changes something and succeeds is made again at once, as a sidecar does that never saw the
answer.

For the rules it looks at the paths of this machine: at the mount table, and at the folder in which a path stands. A
path on which something is mounted is never touched: a mount that is dead would hang. A look blocks for a moment.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final

from mooring.base.clock import Clock, time_left_s
from mooring.conform.book.exchange import Place
from mooring.conform.book.rule import Breach, headline
from mooring.conform.book.watcher import Watcher
from mooring.csi.call_counts import CallObserver
from mooring.csi.driver import RPCS, A, Call, Driver, Q, Rpc
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.wire_driver import WireDriver
from mooring.mounts.mountinfo import Mount, MountTable
from mooring.mounts.targets import mount_table, plain
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.errors import DEADLINE_TEXT

_Method = Callable[[Any], Awaitable[Any]]

_REPEATED: Final = frozenset(
    {
        "create_volume",
        "delete_volume",
        "controller_publish_volume",
        "controller_unpublish_volume",
        "controller_expand_volume",
        "create_snapshot",
        "delete_snapshot",
        "node_stage_volume",
        "node_unstage_volume",
        "node_publish_volume",
        "node_unpublish_volume",
        "node_expand_volume",
    }
)

_DEVICES: Final = "devtmpfs"
"""A device's file that is bound to another path has the file system of /dev."""

_PATHS: Final = ("target_path", "staging_target_path")


class Watch:
    """watcher: the driver's. where: the node whose calls these are, "" for the controller's. sight: None where nobody
    can see its paths.
    """

    def __init__(self, watcher: Watcher, where: str, sight: Sight | None) -> None:
        self._watcher, self._where, self._sight = watcher, where, sight

    def begin(self, rpc: Rpc[Any, Any], request: Any, limit_s: float) -> Watching:
        where = self._where if rpc.service == "Node" else ""
        sight = self._sight if any(getattr(request, path, "") for path in _PATHS) else None
        return Watching(self._watcher, self._watcher.began(rpc, request, where), sight, request, limit_s)

    async def call(
        self, rpc: Rpc[Q, A], request: Q, call: Call, send: Callable[[Rpc[Q, A], Q, Call], Awaitable[A]]
    ) -> A:
        """What `send` gives, or the DriverError that it raises: the watcher is told of either."""
        watching = self.begin(rpc, request, call.timeout_s)
        try:
            response = await send(rpc, request, call)
        except DriverError as error:
            watching.ended(None, error)
            raise
        except BaseException:
            watching.given_up()
            raise
        watching.ended(response, None)
        return response


class Watching:
    """One call under way."""

    def __init__(self, watcher: Watcher, number: int, sight: Sight | None, request: Any, limit_s: float) -> None:
        self._watcher, self._number, self._sight, self._request, self._limit_s = (
            watcher,
            number,
            sight,
            request,
            limit_s,
        )
        self._before = sight.points() if sight is not None else {}

    def ended(self, response: Any, error: DriverError | None) -> None:
        target, staging = (self._seen(path) for path in _PATHS)
        self._watcher.ended(self._number, response, error, limit_s=self._limit_s, target=target, staging=staging)

    def given_up(self) -> None:
        self._watcher.forgot(self._number)

    def _seen(self, field: str) -> Place | None:
        path = getattr(self._request, field, "")
        return self._sight.at(path, self._before) if self._sight is not None and path else None


class WatchedDriver(WireDriver):
    """watch: None for a client as any other."""

    def __init__(self, address: str, *, watch: Watch | None, clock: Clock, metrics: CallObserver | None = None) -> None:
        super().__init__(address, clock=clock, metrics=metrics)
        self._watch = watch

    async def _send(self, rpc: Rpc[Q, A], request: Q, call: Call) -> A:
        if self._watch is None:
            return await super()._send(rpc, request, call)
        return await self._watch.call(rpc, request, call, super()._send)


class WatchedMethods:
    """Stands for a driver, with the same methods. watch: is told of each call."""

    def __init__(self, driver: object, watch: Watch) -> None:
        self._driver, self._watch = driver, watch

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._driver, name)
        return _watched(RPCS[name], found, self._watch) if name in RPCS else found


def _watched(rpc: Rpc[Any, Any], method: _Method, watch: Watch) -> _Method:
    async def call(request: Any) -> Any:
        limit_s = time_left_s()
        watching = watch.begin(rpc, request, math.inf if limit_s is None else limit_s)
        try:
            response = await method(request)
        except DriverError as error:
            watching.ended(None, error)
            raise
        except asyncio.CancelledError:
            if time_left_s() == 0:
                watching.ended(None, DriverError(Code.DEADLINE_EXCEEDED, DEADLINE_TEXT))
            else:
                watching.given_up()
            raise
        except BaseException:
            watching.given_up()
            raise
        watching.ended(response, None)
        return response

    return call


class Sight:
    """Looks at paths. read: the mounts of this moment."""

    def __init__(self, read: Callable[[], MountTable] = mount_table) -> None:
        self._read = read

    def points(self) -> Mapping[str, int]:
        """How many mounts lie on each point now."""
        return Counter(mount.point for mount in self._read())

    def at(self, path: str, before: Mapping[str, int]) -> Place:
        """before: the points of mounts when the call began."""
        table, point = self._read(), str(plain(path))
        now = Counter(mount.point for mount in table)
        new = tuple(sorted(now.keys() - before.keys() - {point}))
        if (mount := table.at(point)) is None:
            return Place(_kind(point), elsewhere=new)
        kind = "device" if mount.fs_type == _DEVICES else _kind(point)
        return Place(
            kind,
            is_mount=True,
            readonly=_is_readonly(mount),
            elsewhere=new,
            covers=now[point] > before.get(point, 0) > 0,
        )


def _is_readonly(mount: Mount) -> bool:
    return "ro" in mount.options.split(",") or "ro" in mount.super_options.split(",")


def _kind(path: str) -> str:
    """From the entry in the folder above, which is that below a mount: a folder is mounted on a folder, a file on a
    file.
    """
    folder, name = os.path.split(path)
    try:
        with os.scandir(folder) as entries:
            entry = next((entry for entry in entries if entry.name == name), None)
        if entry is None:
            return ""
        if entry.is_dir(follow_symlinks=False):
            return "folder"
        return "file" if entry.is_file(follow_symlinks=False) else "device"
    except OSError:
        return ""


class Breaches:
    """tell: gets each. sees_mounts: the driver's mounts are those of this process. repeats: calls are made again, as
    said above.

    proxied: proxies make faults, which are not the driver's: they watch, and its callers don't. now: as for `Watcher`.
    """

    def __init__(
        self,
        tell: Callable[[Breach], None],
        *,
        sees_mounts: bool,
        repeats: bool = False,
        proxied: bool = False,
        now: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._sight = Sight() if sees_mounts else None
        self._proxied = proxied
        self._watcher = Watcher(tell, now=now)
        self._to_repeat = set(_REPEATED if repeats else ())

    def watch(self, where: str = "") -> Watch | None:
        """For a client. where: its node, "" for the controller."""
        return None if self._proxied else self.watch_at_proxy(where)

    def watch_at_proxy(self, where: str) -> Watch:
        """For a proxy. where: as for a client."""
        return Watch(self._watcher, where, self._sight)

    def takes(self, rpc: Rpc[Any, Any]) -> bool:
        """True once for each kind of call that is to be made again."""
        wanted = rpc.attribute in self._to_repeat
        self._to_repeat.discard(rpc.attribute)
        return wanted

    def lists_volumes(self) -> bool:
        """True where the driver has said so."""
        return self._watcher.advertises(Driver.list_volumes)

    def republishes(self, asks: Callable[[], bool]) -> None:
        """asks: whether the driver's CSIDriver has requiresRepublish now."""
        self._watcher.republishes = asks

    def found(self, breach: Breach, request: Any) -> None:
        """Somebody has looked for it, and found it."""
        self._watcher.tell(breach, request)

    def summary(self) -> Iterator[str]:
        """Lines for the end; none when every rule was kept."""
        breaches = self._watcher.breaches.values()
        if not breaches:
            return
        yield headline(breaches)
        for breach in sorted(breaches, key=lambda one: (one.rule.number, one.rpc, one.where)):
            yield f"  {breach.line}"
            yield f"    {breach.rule.asks} {breach.rule.source}"


def superfluous(rpc: Rpc[Any, Any], request: Any, first: Any, second: Any) -> tuple[Rpc[Any, Any], Any] | None:
    """The call that deletes what the second of two equal calls has made beside the first; None where it made
    nothing.
    """
    if rpc.attribute == "create_volume" and first.volume.volume_id != second.volume.volume_id:
        return Driver.delete_volume, csi.DeleteVolumeRequest(volume_id=second.volume.volume_id, secrets=request.secrets)
    if rpc.attribute == "create_snapshot" and first.snapshot.snapshot_id != second.snapshot.snapshot_id:
        return Driver.delete_snapshot, csi.DeleteSnapshotRequest(
            snapshot_id=second.snapshot.snapshot_id, secrets=request.secrets
        )
    return None
