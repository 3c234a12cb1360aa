"""A driver under the book's rules: each breach is told once, when it happens, and all of them at the end.

Lost answers are what drivers are broken by most, and they seldom happen while somebody tries a driver out. So the first call of each kind
that changes something and succeeds is made again at once, as a sidecar does that never saw the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from mooring.conform.sight import Sight
from mooring.conform.watched import Watch
from mooring.csi.book.rule import Breach, headline
from mooring.csi.book.watcher import Watcher
from mooring.csi.driver import Driver, Rpc
from mooring.csi.proto import csi_pb2 as csi

_REPEATED: Final = frozenset(
    {
        "create_volume",
        "delete_volume",
        "controller_publish_volume",
        "controller_unpublish_volume",
        "create_snapshot",
        "delete_snapshot",
        "node_stage_volume",
        "node_unstage_volume",
        "node_publish_volume",
        "node_unpublish_volume",
    }
)


class Breaches:
    """tell: gets each. sees_mounts: the driver's mounts are those of this process. repeats: calls are made again, as said above.

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
    """The call that deletes what the second of two equal calls has made beside the first; None where it made nothing."""
    if rpc.attribute == "create_volume" and first.volume.volume_id != second.volume.volume_id:
        return Driver.delete_volume, csi.DeleteVolumeRequest(volume_id=second.volume.volume_id, secrets=request.secrets)
    if rpc.attribute == "create_snapshot" and first.snapshot.snapshot_id != second.snapshot.snapshot_id:
        return Driver.delete_snapshot, csi.DeleteSnapshotRequest(snapshot_id=second.snapshot.snapshot_id, secrets=request.secrets)
    return None
