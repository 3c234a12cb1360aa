"""How full the volumes are, and whether they are well: the driver is asked once a minute for each volume of each pod.

Source: kubelet 1.36, pkg/kubelet/metrics/collectors/volume_stats.go. Differs: the volumes of one driver are asked for
in turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector

from mooring.base.clock import Clock
from mooring.base.log import logger
from mooring.base.randomness import Random
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.node.drivers import CALL_S, Drivers, NotRegistered
from mooring.node.layout import KubeletLayout
from mooring.node.metrics import NodeMetrics
from mooring.node.volumes.state.actual import ActualState
from mooring.node.volumes.state.desired import PodUse
from mooring.node.volumes.steps.requests import STATS, VolumeRequests, stats
from mooring.wire.grpc.codes import Code

_log = logger(__name__)

PERIOD_S: Final = 60.0
_Unit = csi.VolumeUsage


class StatsTarget(msgspec.Struct, frozen=True):
    """One volume in one pod. claim: its namespace and name, "" for an inline volume. path: where it is published. use:
    of the pod.
    """

    driver: str
    handle: str
    path: Path
    namespace: str
    claim: str
    use: PodUse


def asked_of(actual: ActualState, layout: KubeletLayout) -> Iterator[StatsTarget]:
    """Every volume that a pod has now."""
    for state in actual.states.values():
        volume = state.volume
        for uid, publication in state.publications.items():
            use = actual.desired.uses(volume.unique).get(uid)
            if publication.is_there and use is not None:
                path = VolumeRequests(layout, volume).stats_path(uid, publication.spec_name)
                yield StatsTarget(volume.driver, volume.handle, path, use.namespace, use.claim, use)


class VolumeUsage(msgspec.Struct, frozen=True):
    """Bytes and inodes. abnormal: in the driver's words, "" for a volume that is well. None for what it does not
    tell.
    """

    capacity: int | None = None
    available: int | None = None
    used: int | None = None
    inodes: int | None = None
    inodes_free: int | None = None
    inodes_used: int | None = None
    abnormal: str | None = None


class NoStats(Exception):
    """The driver gave no usage at all."""


def usage_of(answer: csi.NodeGetVolumeStatsResponse) -> VolumeUsage:
    """Raises NoStats for an answer without usage and without a condition."""
    found = VolumeUsage()
    if answer.HasField("volume_condition"):
        told = answer.volume_condition
        found = VolumeUsage(abnormal=(told.message or "the driver does not say why") if told.abnormal else "")
    for entry in answer.usage:
        if entry.unit == _Unit.BYTES:
            found = msgspec.structs.replace(found, capacity=entry.total, available=entry.available, used=entry.used)
        elif entry.unit == _Unit.INODES:
            found = msgspec.structs.replace(
                found, inodes=entry.total, inodes_free=entry.available, inodes_used=entry.used
            )
        else:
            _log.error("Unknown unit of a volume's usage", unit=int(entry.unit))
    if not answer.usage and not answer.HasField("volume_condition"):
        raise NoStats("the driver answered without any usage")
    return found


class UsageMetrics(Collector):
    """The usage of volumes as metrics, for all nodes of one process: each claim once, however many pods use it, as a
    kubelet's page has it.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._sources: dict[str, Callable[[], Mapping[StatsTarget, VolumeUsage]]] = {}
        registry.register(self)

    def show(self, node_name: str, usages: Callable[[], Mapping[StatsTarget, VolumeUsage]]) -> None:
        """Shows this node's volumes from now on."""
        self._sources[node_name] = usages

    def describe(self) -> Iterable[Metric]:
        return [Metric(name, text, "gauge") for name, (text, _) in _GAUGES.items()]

    def collect(self) -> Iterable[Metric]:
        for name, (text, value_of) in _GAUGES.items():
            values = {
                (volume.namespace, volume.claim): value
                for source in self._sources.values()
                for volume, usage in source().items()
                if volume.claim and (value := value_of(usage)) is not None
            }
            metric = Metric(name, text, "gauge")
            for (namespace, claim), value in values.items():
                metric.add_sample(name, {"namespace": namespace, "persistentvolumeclaim": claim}, value)
            yield metric


class VolumeStats:
    """Asks the drivers of one node. volumes: all that are published now. abnormal: told of a volume that is not
    well.
    """

    def __init__(
        self,
        drivers: Drivers,
        volumes: Callable[[], Iterable[StatsTarget]],
        abnormal: Callable[[StatsTarget, str], None],
        metrics: NodeMetrics,
        *,
        clock: Clock,
        randomness: Random,
        period_s: float = PERIOD_S,
    ) -> None:
        self._period_s = period_s
        self._drivers, self._volumes, self._abnormal, self._metrics = drivers, volumes, abnormal, metrics
        self._clock, self._randomness = clock, randomness
        self.usages: dict[StatsTarget, VolumeUsage] = {}
        self._asking: set[str] = set()  # drivers

    async def run(self) -> None:
        """Asks until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._clock.sleep(self._period_s * self._randomness.uniform(1, 2))
                self._ask_all(group)

    async def ask_all(self) -> None:
        """Asks once for each volume."""
        async with asyncio.TaskGroup() as group:
            self._ask_all(group)

    def _ask_all(self, group: asyncio.TaskGroup) -> None:
        """The volumes of one driver in turn: one that has not answered for all of the last time is not asked. Forgets
        the gone.
        """
        volumes = list(self._volumes())
        self.usages = {volume: self.usages[volume] for volume in volumes if volume in self.usages}
        for driver in sorted({volume.driver for volume in volumes} - self._asking):
            mine = [volume for volume in volumes if volume.driver == driver]
            group.create_task(self._ask(driver, mine), name=f"node/stats/{driver}")

    async def _ask(self, driver: str, volumes: Iterable[StatsTarget]) -> None:
        self._asking.add(driver)
        try:
            await self._ask_each(volumes)
        finally:
            self._asking.discard(driver)

    async def _ask_each(self, volumes: Iterable[StatsTarget]) -> None:
        for volume in volumes:
            began = self._clock.now()
            try:
                usage = await self._asked(volume)
            except (DriverError, NoStats, NotRegistered) as error:
                _log.info(2, "No usage of a volume", volume=volume.handle, reason=str(error))
                continue
            if usage is None:
                continue
            self._metrics.stats(volume.driver, self._clock.now() - began)
            self.usages[volume] = usage
            if usage.abnormal:
                self._abnormal(volume, usage.abnormal)

    async def _asked(self, volume: StatsTarget) -> VolumeUsage | None:
        """The driver's report of the usage, None where it has none."""
        driver = self._drivers.get(volume.driver)
        if STATS not in await driver.capabilities():
            return None
        try:
            return usage_of(await driver.rpc.node_get_volume_stats(stats(volume.handle, volume.path), Call(CALL_S)))
        except DriverError as error:
            if error.code == Code.UNIMPLEMENTED:
                return None
            raise


_GAUGES: Final[dict[str, tuple[str, Callable[[VolumeUsage], float | None]]]] = {
    "kubelet_volume_stats_capacity_bytes": ("[ALPHA] Capacity in bytes of the volume", lambda usage: usage.capacity),
    "kubelet_volume_stats_available_bytes": (
        "[ALPHA] Number of available bytes in the volume",
        lambda usage: usage.available,
    ),
    "kubelet_volume_stats_used_bytes": ("[ALPHA] Number of used bytes in the volume", lambda usage: usage.used),
    "kubelet_volume_stats_inodes": ("[ALPHA] Maximum number of inodes in the volume", lambda usage: usage.inodes),
    "kubelet_volume_stats_inodes_free": (
        "[ALPHA] Number of free inodes in the volume",
        lambda usage: usage.inodes_free,
    ),
    "kubelet_volume_stats_inodes_used": (
        "[ALPHA] Number of used inodes in the volume",
        lambda usage: usage.inodes_used,
    ),
    "kubelet_volume_stats_health_status_abnormal": (
        "[ALPHA] Abnormal volume health status. The count is either 1 or 0. 1 indicates the volume is unhealthy, "
        "0 indicates volume is healthy",
        lambda usage: None if usage.abnormal is None else float(bool(usage.abnormal)),
    ),
}
