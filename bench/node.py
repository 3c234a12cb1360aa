"""Mooring's node agent beside the real kubelet's volume manager: `make bench-node`. As root on Linux, with the kubelet
built for tests.

Both run on one real etcd (with fsync, as in production) and kube-apiserver, one after the other, each on a node and a
root folder of its own, with a driver that mounts for real (bench/driver: a tmpfs and a bind mount) in a mount namespace
of the bench's own. The bench plays attach/detach controller and attacher beforehand: a volume counts as attached before
its pod comes. Measured are the time from a pod's creation, with its node's name, to the driver's answer for its last
volume; processor time and memory of the contender; the driver's calls; and the contender's requests, from the API
server's audit log.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import dataclasses
import functools
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.contender import Contender, LoadDriver, Running, Strangers, build_driver, quantile
from bench.load import Load, a_load
from bench.tables import Table, heading
from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.meta import Kind
from mooring.api.pods import PODS
from mooring.api.storage import CSI_DRIVERS, CSI_NODES, VOLUME_ATTACHMENTS
from mooring.api.volume_names import attachment_name, unique_name
from mooring.csi import registration
from mooring.kube.client.http import HttpCluster
from mooring.kube.cluster import EventType, Patch, PatchType, WatchEvent
from mooring.node.layout import KubeletLayout
from mooring.wire.grpc.server import listening
from tests.support import container_runtime
from tests.support.builders import a_bound_claim, a_csi_driver, a_held_pv, a_pod, a_reference, a_va
from tests.support.control_plane import ControlPlane
from tests.support.real import binary
from tests.support.real_kubelet import configuration

IDLE_S = 20.0
LOOK_S = 0.05
ALONE = 5
COMING_A_MINUTE = 100
_AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}
_CLAIM_STATUS = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}


@dataclasses.dataclass
class Run:
    """One contender in one round. Times in seconds, memory in MiB; calls and requests per volume.

    coming_s, going_s: of pods that come and go while all others are there, until the volume is published, and until the
    pod is gone.
    """

    all_s: float
    p50_s: float
    p99_s: float
    alone_p50_s: float
    alone_p99_s: float
    coming_s: list[float]
    going_s: list[float]
    moving_cpu_ms: float
    mount_cpu_ms: float
    away_s: float
    unmount_cpu_ms: float
    mount_calls: dict[str, float]
    unmount_calls: dict[str, float]
    mount_requests: dict[str, float]
    unmount_requests: dict[str, float]
    idle_cpu_s: float
    idle_requests: float
    rss_idle: float
    rss_full: float
    rss_after: float
    others: float


class NodeLoad(Load):
    """Makes volumes and pods, and sees pods go."""

    def __init__(self, plane: ControlPlane, cluster: HttpCluster) -> None:
        super().__init__(plane, cluster)
        self.made_at: dict[str, float] = {}
        self.gone_at: dict[str, float] = {}

    async def watch(self) -> None:
        await self.follow(PODS, self._happened)

    def _happened(self, event: WatchEvent[Any]) -> None:
        if event.type is EventType.DELETED:
            self.gone_at[event.object.metadata.name] = time.monotonic()

    async def make_volumes(self, names: Iterable[str], driver: str, node: str) -> None:
        """Bound, and attached to the node."""
        listed = list(names)
        await self.each(self._volume(name, driver, node) for name in listed)
        attached = [{"name": unique_name(driver, name), "devicePath": ""} for name in listed]
        await self._cluster.patch(
            NODES, node, Patch(PatchType.MERGE, {"status": {"volumesAttached": attached}}), subresource="status"
        )

    async def _volume(self, name: str, driver: str, node: str) -> None:
        claim = await self._create(PERSISTENT_VOLUME_CLAIMS, a_bound_claim(name, name, sc="", uid=None), "default")
        held = {"claimRef": a_reference(claim), "storageClassName": ""}
        await self._create(
            PERSISTENT_VOLUMES,
            a_held_pv(name, name, modes=["ReadWriteOnce"], finalizers=None, driver=driver, spec=held),
        )
        attachment = attachment_name(driver, name, node)
        await self._create(VOLUME_ATTACHMENTS, a_va(attachment, name, node, attacher=driver))
        status = Patch(PatchType.MERGE, {"status": {"attached": True}})
        await self._cluster.patch(VOLUME_ATTACHMENTS, attachment, status, subresource="status")
        bound = Patch(PatchType.MERGE, {"status": _CLAIM_STATUS})
        await self._cluster.patch(PERSISTENT_VOLUME_CLAIMS, name, bound, "default", subresource="status")

    async def _create(self, kind: Kind[Any], body: dict[str, Any], namespace: str = "") -> Any:
        return await self._cluster.create(kind.whole(), body, namespace)

    async def make_driver(self, name: str) -> None:
        await self._create(CSI_DRIVERS, a_csi_driver(name))

    async def until_registered(self, node: str, driver: str) -> None:
        for _ in range(300):
            found = (
                one.spec.drivers or ()
                for one in (await self._cluster.list(CSI_NODES)).items
                if one.metadata.name == node
            )
            if any(entry.name == driver for entries in found for entry in entries):
                return
            await asyncio.sleep(0.2)
        raise TimeoutError(f"{driver} is not registered on {node}")

    async def make_pod(self, name: str, node: str, volumes: Sequence[str]) -> None:
        mounts = [{"name": volume, "mountPath": f"/{volume}"} for volume in volumes]
        container = {"name": "c", "image": "none", "volumeMounts": mounts}
        body = a_pod(name, *volumes, node=node, containers=[container], terminationGracePeriodSeconds=1)
        self.made_at[name] = time.time()
        await self._create(PODS, body, "default")

    async def delete_pods(self, names: Iterable[str]) -> None:
        await self.each(self._cluster.delete(PODS, name, "default") for name in names)


class NodeDriver(LoadDriver):
    """On the contender's node."""

    def published(self) -> dict[str, float]:
        """When each volume was published, in seconds since 1970."""
        return {volume: at / 1e9 for volume, at in self.ask("published").items()}

    async def until_published(self, volumes: Collection[str], timeout_s: float) -> dict[str, float]:
        wanted = set(volumes)
        for _ in range(round(timeout_s / LOOK_S)):
            if wanted <= (found := self.published()).keys():
                return found
            await asyncio.sleep(LOOK_S)
        raise TimeoutError(f"{len(wanted - found.keys())} of {len(wanted)} volumes are not published")


class Bench:
    """The rounds on one control plane."""

    def __init__(self, plane: ControlPlane, driver: Path, options: argparse.Namespace) -> None:
        self._plane, self._driver_program, self._options = plane, driver, options
        self._number = 0

    async def round(self, contender: Contender) -> Run:
        """Idle; one pod after another; all pods at once; beside them some that come and go; all pods away."""
        self._number += 1
        node, name = f"n{self._number}", contender.driver_name
        root = self._plane.folder / node / "root"
        root.mkdir(parents=True)
        _share(root)
        layout = KubeletLayout(root)
        layout.registry.mkdir()
        driver = NodeDriver(
            self._driver_program, self._plane.folder / f"driver-{self._number}.sock", name, "node", node
        )
        async with (
            a_load(self._plane, NodeLoad) as load,
            _registering(layout.registry / "bench-reg.sock", name, driver),
        ):
            if self._number <= 2:
                await load.make_driver(name)
            with self._started(contender, node, root) as started:
                try:
                    return await self._measure(contender, load, driver, started, node)
                finally:
                    driver.stop()

    @contextlib.contextmanager
    def _started(self, contender: Contender, node: str, root: Path) -> Any:
        log, folder = self._plane.folder / f"contender-{self._number}.log", root.parent
        user = self._plane.kubeconfig(contender.name)
        runtime = None
        if contender.name == "kubelet":
            runtime = container_runtime.start(folder / "cri.sock", folder)
            config = folder / "config.json"
            config.write_text(
                json.dumps({**configuration(folder, folder / "cri.sock"), "maxPods": 500, **self._limits(contender)})
            )
            flags = [
                f"--config={config}",
                f"--hostname-override={node}",
                f"--root-dir={root}",
                f"--cert-dir={folder / 'pki'}",
            ]
        else:
            flags = [f"--node-name={node}", f"--root-dir={root}"] + (
                ["--kube-api-qps=-1"] if self._options.no_limit else []
            )
        started = Running(contender, user, None, log, flags)
        try:
            yield started
        except BaseException:
            print("\n".join(log.read_text(errors="replace").splitlines()[-20:]), file=sys.stderr)
            raise
        finally:
            started.stop()
            if runtime is not None:
                runtime.kill()

    def _limits(self, contender: Contender) -> dict[str, Any]:
        """As shipped: a report each 10 s, 50 requests a second."""
        limit = (
            {"kubeAPIQPS": 5000, "kubeAPIBurst": 10000}
            if self._options.no_limit
            else {"kubeAPIQPS": 50, "kubeAPIBurst": 100}
        )
        return {"nodeStatusUpdateFrequency": "10s", "syncFrequency": "1m", **limit}

    async def _measure(
        self, contender: Contender, load: NodeLoad, driver: NodeDriver, started: Running, node: str
    ) -> Run:
        pods_count, each = self._options.pods, self._options.volumes
        await load.until_registered(node, contender.driver_name)
        first = [f"{node}-first-{number}" for number in range(ALONE)]
        pods = {
            f"{node}-{number}": [f"{node}-{number}-{volume}" for volume in range(each)] for number in range(pods_count)
        }
        volumes = [volume for many in pods.values() for volume in many]
        moving = [f"{node}-moving-{number}" for number in range(self._options.moving)]
        await load.make_volumes([*first, *volumes, *moving], contender.driver_name, node)
        await asyncio.sleep(5)
        strangers = Strangers([started.pid, driver.pid, *self._plane.pids()])

        idle_cpu, idle_requests = started.cpu_s, self._requests(contender)
        await asyncio.sleep(IDLE_S)
        idle_cpu, idle_requests = started.cpu_s - idle_cpu, self._requests(contender) - idle_requests
        rss_idle = started.rss_mib

        alone = []
        for name in first:
            await load.make_pod(name, node, [name])
            alone.append((await driver.until_published([name], 60))[name] - load.made_at[name])

        cpu, calls, requests = started.cpu_s, collections.Counter(driver.counts()), self._requests(contender)
        began = time.time()
        await load.each(load.make_pod(name, node, many) for name, many in pods.items())
        published = await driver.until_published(volumes, 900)
        all_s = max(published[volume] for volume in volumes) - began
        await asyncio.sleep(5)  # what comes after
        mount_cpu = started.cpu_s - cpu
        mount_calls, mount_requests = collections.Counter(driver.counts()) - calls, self._requests(contender) - requests
        rss_full = started.rss_mib
        waits = [max(published[volume] for volume in many) - load.made_at[name] for name, many in pods.items()]

        cpu = started.cpu_s
        coming_s, going_s = await _come_and_go(load, driver, node, moving)
        moving_cpu = started.cpu_s - cpu

        cpu, calls, requests = started.cpu_s, collections.Counter(driver.counts()), self._requests(contender)
        ended = time.monotonic()
        await load.delete_pods([*first, *pods])
        await load.until(load.gone_at, [*first, *pods], 900)
        away_s = time.monotonic() - ended
        await asyncio.sleep(5)
        count, all_count = len(volumes), len(volumes) + len(first)
        return Run(
            all_s=all_s,
            p50_s=quantile(waits, 0.5),
            p99_s=quantile(waits, 0.99),
            alone_p50_s=quantile(alone, 0.5),
            alone_p99_s=quantile(alone, 0.99),
            coming_s=coming_s,
            going_s=going_s,
            moving_cpu_ms=moving_cpu / max(1, len(moving)) * 1000,
            mount_cpu_ms=mount_cpu / count * 1000,
            away_s=away_s,
            unmount_cpu_ms=(started.cpu_s - cpu) / all_count * 1000,
            mount_calls=_shares(mount_calls, count),
            unmount_calls=_shares(collections.Counter(driver.counts()) - calls, all_count),
            mount_requests=_shares(mount_requests, count),
            unmount_requests=_shares(self._requests(contender) - requests, all_count),
            idle_cpu_s=idle_cpu / IDLE_S * 60,
            idle_requests=sum(idle_requests.values()) / IDLE_S * 60,
            rss_idle=rss_idle,
            rss_full=rss_full,
            rss_after=started.rss_mib,
            others=strangers.busy(),
        )

    def _requests(self, contender: Contender) -> collections.Counter[str]:
        """Its requests so far, as in "get persistentvolumes"."""
        found: collections.Counter[str] = collections.Counter()
        for line in (self._plane.folder / "audit.log").read_text().splitlines():
            with contextlib.suppress(json.JSONDecodeError):  # the last one may not be whole yet
                event = json.loads(line)
                what = event.get("objectRef", {})
                if event["user"]["username"] == contender.name and event["verb"] != "watch":
                    sub = f"/{what['subresource']}" if "subresource" in what else ""
                    found[f"{event['verb']} {what.get('resource', event['requestURI'])}{sub}"] += 1
        return found


async def _come_and_go(
    load: NodeLoad, driver: NodeDriver, node: str, volumes: Sequence[str]
) -> tuple[list[float], list[float]]:
    """A pod for each volume comes at its time, and goes once the volume is published. Gives the seconds until
    published, and until gone.
    """
    left, waiting, deleted_at, began = list(volumes), list[str](), dict[str, float](), time.monotonic()
    published: dict[str, float] = {}
    async with asyncio.timeout(900):
        while left or waiting:
            if left and time.monotonic() >= began + (len(volumes) - len(left)) * 60 / COMING_A_MINUTE:
                waiting.append(left.pop())
                await load.make_pod(waiting[-1], node, waiting[-1:])
            published = driver.published()
            done = [volume for volume in waiting if volume in published]
            deleted_at |= dict.fromkeys(done, time.monotonic())
            await load.delete_pods(done)
            waiting = [volume for volume in waiting if volume not in published]
            await asyncio.sleep(LOOK_S)
        await load.until(load.gone_at, volumes, 900)
    return [published[one] - load.made_at[one] for one in volumes], [
        load.gone_at[one] - deleted_at[one] for one in volumes
    ]


def _share(folder: Path) -> None:
    """Makes it a shared mount, as on a real node; else a kubelet mounts it on itself."""
    for words in (("--bind", folder, folder), ("--make-shared", folder)):
        subprocess.run(["mount", *words], check=True)


def _shares(counts: collections.Counter[str], of: int) -> dict[str, float]:
    return {key: value / of for key, value in sorted(counts.items())}


@contextlib.asynccontextmanager
async def _registering(socket: Path, name: str, driver: LoadDriver) -> AsyncIterator[None]:
    """The registrar's part, played by the bench."""
    info = registration.PluginInfo(
        type="CSIPlugin", name=name, endpoint=str(driver.socket), supported_versions=("1.0.0",)
    )

    async def notified(status: registration.RegistrationStatus) -> None:
        if not status.plugin_registered:
            print(f"registration: {status.error}", file=sys.stderr)

    async with listening(registration.methods(lambda: info, notified), socket, grace_s=0):
        yield


def _quantile(of: Callable[[Run], list[float]], share: float, run: Run) -> float:
    return quantile(of(run), share) if of(run) else math.nan


def table(title: str, runs: dict[str, list[Run]]) -> str:
    made = Table(title, runs)
    made.row("first pod created → last volume published (s)", "{:.1f}", lambda run: run.all_s, each_round=True)
    made.row("pod created → its volumes published, p50 (s)", "{:.2f}", lambda run: run.p50_s)
    made.row("the same, p99 (s)", "{:.2f}", lambda run: run.p99_s)
    made.row("one pod after another, p50 (s)", "{:.3f}", lambda run: run.alone_p50_s)
    made.row("the same, p99 (s)", "{:.3f}", lambda run: run.alone_p99_s)
    for what, of in (("published", lambda run: run.coming_s), ("gone", lambda run: run.going_s)):
        for share in (0.5, 0.99):
            name = f"beside them {COMING_A_MINUTE} pods a minute: until {what}, p{share * 100:.0f} (s)"
            made.row(name, "{:.3f}", functools.partial(_quantile, of, share))
    made.row("processor time of such a pod (ms)", "{:.1f}", lambda run: run.moving_cpu_ms)
    made.row("processor time per volume mounted (ms)", "{:.1f}", lambda run: run.mount_cpu_ms)
    made.rows("{} per volume mounted", "{:.2f}", lambda run: run.mount_calls)
    made.rows("{} per volume mounted", "{:.2f}", lambda run: run.mount_requests)
    made.row("pods deleted → all gone (s)", "{:.1f}", lambda run: run.away_s)
    made.row("processor time per volume unmounted (ms)", "{:.1f}", lambda run: run.unmount_cpu_ms)
    made.rows("{} per volume unmounted", "{:.2f}", lambda run: run.unmount_calls)
    made.rows("{} per volume unmounted", "{:.2f}", lambda run: run.unmount_requests)
    made.row("idle: processor time a minute (s)", "{:.2f}", lambda run: run.idle_cpu_s)
    made.row("idle: requests a minute, watches aside", "{:.1f}", lambda run: run.idle_requests)
    made.row("memory idle (MiB)", "{:.0f}", lambda run: run.rss_idle)
    made.row("memory with all mounted (MiB)", "{:.0f}", lambda run: run.rss_full)
    made.row("memory after (MiB)", "{:.0f}", lambda run: run.rss_after)
    made.row("processors that others kept busy", "{:.2f}", lambda run: run.others)
    return str(made)


async def measure(options: argparse.Namespace) -> str:
    agent = Contender("Mooring", (str(Path(sys.executable).parent / "mooring"), "node-agent"))
    contenders = [agent] if options.only_agent else [Contender("kubelet", (str(binary("kubelet")),)), agent]
    folder = Path(tempfile.mkdtemp(prefix="bench-node-"))
    (folder / "audit.json").write_text(json.dumps(_AUDIT))
    audit = [f"--audit-policy-file={folder / 'audit.json'}", f"--audit-log-path={folder / 'audit.log'}"]
    plane = ControlPlane.start(etcd_flags=["--unsafe-no-fsync=false"], apiserver_flags=audit)
    (plane.folder / "audit.log").symlink_to(folder / "audit.log")
    try:
        bench = Bench(plane, build_driver(plane.folder), options)
        runs: dict[str, list[Run]] = {contender.name: [] for contender in contenders}
        for number in range(options.rounds):
            for contender in contenders if number % 2 == 0 else list(reversed(contenders)):
                runs[contender.name].append(await bench.round(contender))
                print(f"round {number + 1}, {contender.name}: {runs[contender.name][-1]}", file=sys.stderr)
    finally:
        plane.stop()
        shutil.rmtree(folder)
    limit = "no client limit" if options.no_limit else "flags as shipped"
    title = f"{options.pods} pods at once, {options.volumes} volumes each; {limit}"
    return f"{heading('kubelet v1.36')}\n\n{table(title, runs)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=200)
    parser.add_argument("--volumes", type=int, default=2, help="of each pod")
    parser.add_argument(
        "--moving", type=int, default=100, help=f"pods that come and go beside them, {COMING_A_MINUTE} a minute"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--no-limit", action="store_true", help="both contenders ask the API server as often as they can"
    )
    parser.add_argument("--only-agent", action="store_true", help="without the kubelet")
    print(asyncio.run(measure(parser.parse_args())))


if __name__ == "__main__":
    main()
