"""Traces: whose volume an object is, how steps become spans, and what they must not hold."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
from opentelemetry.trace import StatusCode

from mooring.api.core import EVENTS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.meta import Key, Kind
from mooring.api.pods import PODS
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.base.randomness import Random
from mooring.control.caches import Caches
from mooring.control.controller import Controller
from mooring.control.decision import Deciding, Decision, Failed
from mooring.control.manager import Manager
from mooring.control.reasons import reason
from mooring.control.result import Result, Retry, Stale
from mooring.control.runtime import Runtime
from mooring.control.tracing.kinship import KNOWN_MAX, Kinship, place_of
from mooring.control.tracing.ports import TracingDriver, on_traced_ports
from mooring.control.tracing.spans import trace_id_of
from mooring.control.tracing.steps import Span, Tracing
from mooring.csi.driver import Call, Driver, Rpc
from mooring.csi.errors import DriverError
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.cluster import Patch, PatchType
from mooring.kube.errors import NotFound
from mooring.wire.grpc.codes import Code
from tests.support.builders import a_claim
from tests.support.cluster_world import ClusterWorld
from tests.support.rows import each_row
from tests.support.spans import SpansInMemory, only, tree
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time

UID, OTHER, OWN = (f"{digit * 8}-1111-4111-8111-{digit * 12}" for digit in "abc")
SECRET = "tr0ub4dor&3-of-the-array"


@reason("{text}")
class Because:
    text: str


# -- whose volume it is


def an_object(kind: Kind[Any], name: str, uid: str = OWN, namespace: str = "", **spec: Any) -> Any:
    return msgspec.convert({"metadata": {"name": name, "namespace": namespace, "uid": uid}, "spec": spec}, kind.struct)


CLAIM = an_object(PERSISTENT_VOLUME_CLAIMS, "data", UID, "ns")
SECOND = an_object(PERSISTENT_VOLUME_CLAIMS, "log", OTHER, "ns")
DYNAMIC = an_object(PERSISTENT_VOLUMES, f"pvc-{UID}", csi={"driver": "d", "volumeHandle": "h"})
REF = {"namespace": "ns", "name": "data", "uid": UID}
BOUND = an_object(PERSISTENT_VOLUMES, "static", claimRef=REF, csi={"driver": "d", "volumeHandle": "s"})
FREE = an_object(PERSISTENT_VOLUMES, "free", OWN)
ATTACHMENT = an_object(VOLUME_ATTACHMENTS, "csi-1", source={"persistentVolumeName": f"pvc-{UID}"})
INLINE = an_object(VOLUME_ATTACHMENTS, "csi-2", OWN, source={"inlineVolumeSpec": {}})
POD = an_object(
    PODS,
    "web",
    namespace="ns",
    volumes=[{"name": n, "persistentVolumeClaim": {"claimName": n}} for n in ("data", "log")],
)
SNAPSHOT = an_object(VOLUME_SNAPSHOTS, "snap", OWN, "ns", source={"persistentVolumeClaimName": "data"})
CONTENT = an_object(
    VOLUME_SNAPSHOT_CONTENTS, "content", OTHER, volumeSnapshotRef={"namespace": "ns", "name": "snap", "uid": OWN}
)


@each_row(
    ("known", "label", "key", "expected"),
    [
        pytest.param([CLAIM], "PersistentVolumeClaim", Key("ns", "data"), [UID], id="claim"),
        pytest.param(
            [CLAIM], "PersistentVolumeClaim", (Key("ns", "data"), "n1"), [UID], id="claim and something beside it"
        ),
        pytest.param([], "PersistentVolumeClaim", Key("ns", "data"), [], id="unknown"),
        pytest.param([], "uid", UID, [UID], id="a claim's uid"),
        pytest.param([], "PersistentVolume", f"pvc-{UID}", [UID], id="the name says it"),
        pytest.param([BOUND], "PersistentVolume", Key("", "static"), [UID], id="claimRef"),
        pytest.param([FREE], "PersistentVolume", "free", [OWN], id="no claim yet"),
        pytest.param([FREE, dataclasses.replace], "PersistentVolume", "free", [OWN], id="what is no object is nothing"),
        pytest.param([DYNAMIC], "volume", "kubernetes.io/csi/d^h", [UID], id="name in a node's status"),
        pytest.param([BOUND], "volume", "kubernetes.io/csi/d^s", [UID], id="the same, by its claimRef"),
        pytest.param([ATTACHMENT], "VolumeAttachment", "csi-1", [UID], id="attachment"),
        pytest.param([INLINE], "VolumeAttachment", "csi-2", [OWN], id="attachment of a volume of its own"),
        pytest.param([CLAIM, SECOND, POD], "Pod", Key("ns", "web"), [UID, OTHER], id="pod"),
        pytest.param([CLAIM, POD], "pod", Key("ns", "web"), [UID], id="pod, one claim unknown"),
        pytest.param([CLAIM, SNAPSHOT], "VolumeSnapshot", Key("ns", "snap"), [OWN, UID], id="snapshot"),
        pytest.param([CONTENT], "VolumeSnapshotContent", "content", [OWN], id="content, beside a driver"),
        pytest.param(
            [CLAIM, SNAPSHOT, CONTENT], "VolumeSnapshotContent", "content", [OWN, UID], id="content, all known"
        ),
        pytest.param([], "node", "n1", [], id="no volume's"),
        pytest.param([], "pod_uid", UID, [], id="a pod's uid is no volume's"),
    ],
)
def test_an_object_belongs_to_the_volumes_of_its_claims(known, label, key, expected) -> None:
    kinship = Kinship()
    for one in known:
        kinship.learn(one)
    assert expected == list(kinship.volumes(place_of(label, key)))


def test_a_claim_that_takes_a_free_volume_has_its_way_from_then_on() -> None:
    kinship = Kinship()
    kinship.learn(FREE)
    kinship.learn(an_object(PERSISTENT_VOLUMES, "free", OWN, claimRef=REF))
    assert (UID,) == kinship.volumes(place_of("PersistentVolume", "free"))


def test_what_is_known_has_a_bound(monkeypatch) -> None:
    monkeypatch.setattr("mooring.control.tracing.kinship.KNOWN_MAX", 10)
    kinship = Kinship()
    for number in range(20):
        kinship.learn(an_object(PERSISTENT_VOLUME_CLAIMS, f"c{number}", UID, "ns"))
    assert 10 == len(kinship._kin)
    assert () == kinship.volumes(place_of("PersistentVolumeClaim", Key("ns", "c9")))
    assert (UID,) == kinship.volumes(place_of("PersistentVolumeClaim", Key("ns", "c19")))
    assert KNOWN_MAX >= 100_000


def test_the_trace_is_named_by_the_uids_digits() -> None:
    assert UID.replace("-", "") == f"{trace_id_of(UID):032x}"
    assert trace_id_of("uid-1") == trace_id_of("uid-1") != trace_id_of("uid-2")
    assert 0 != trace_id_of("0" * 32), "a name of nothing is none"


# -- steps as spans


class Scene(ClusterWorld):
    """One controller of claims whose decision and work a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.spans = SpansInMemory()
        self.driver: Driver = InProcessDriver(self, clock=self.clock)
        self.fails: list[BaseException] = []

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        await asyncio.sleep(1.0)
        if self.fails:
            raise self.fails.pop(0)
        return csi.CreateVolumeResponse(volume=csi.Volume(volume_id="v"))

    @contextlib.asynccontextmanager
    async def at_work(
        self, how: Callable[[Runtime, Driver], Any], label: str = "uid"
    ) -> AsyncIterator[Controller[Any]]:
        """how: makes the reconcile, or what decides and performs, on the ports that it gets."""
        tracing = Tracing(self.spans.of("a-program"), self.clock)
        runtime = on_traced_ports(self.runtime, tracing)
        reconcile = how(runtime, TracingDriver(self.driver, tracing, "d.csi"))
        controller: Controller[Any] = Controller(runtime, "claims", reconcile, workers=2, label=label)
        async with self.running(Manager(Caches(runtime), controller).run()):
            yield controller

    async def still(self) -> None:
        await asyncio.sleep(100.0)

    @property
    def trace(self) -> dict[str, list[str]]:
        return tree(self.spans.in_trace(UID))


def provision(runtime: Runtime, driver: Driver) -> Deciding[str, str]:
    """Calls the driver, and writes a note to the claim, as long as there is none."""
    done: set[str] = set()

    async def perform(uid: str, decision: Decision[str]) -> Result | None:
        for _ in decision.actions:
            request = csi.CreateVolumeRequest(name="pvc", secrets={"password": SECRET}, parameters={"kind": "fast"})
            try:
                await driver.create_volume(request, Call(10.0))
            except DriverError as error:
                raise Failed(error.message) from None
            claim = await runtime.cluster.get(PERSISTENT_VOLUME_CLAIMS, "data", "default")
            patch = Patch(PatchType.MERGE, {"metadata": {"uid": claim.metadata.uid, "annotations": {"note": SECRET}}})
            await runtime.cluster.patch(PERSISTENT_VOLUME_CLAIMS, "data", patch, "default")
            done.add(uid)
        return None

    def decide(uid: str) -> Decision[str]:
        return (
            Decision(Because("it is there"))
            if uid in done
            else Decision(Because("it is wanted"), ("make",), again=True)
        )

    return Deciding(decide, perform, work="make it")


async def test_a_decision_has_the_writes_and_calls_that_followed_below_it() -> None:
    scene = Scene()
    await scene.create(a_claim("data"))
    async with scene.at_work(provision) as controller:
        controller.add(UID)
        await scene.still()
    found = scene.spans.in_trace(UID)
    assert len(found) == len(scene.spans.all)
    call, write = only(found, "csi.v1.Controller/CreateVolume"), only(found, "patch persistentvolumeclaims")
    step, second = [span for span in found if span.parent is None]
    assert {"claims Because": [call.name, write.name]} == tree([step, call, write])
    assert "it is there" == second.attributes["mooring.reason"]
    assert {
        "mooring.controller": "claims",
        "mooring.object": UID,
        "mooring.reason": "it is wanted",
        "mooring.actions": ("str",),
    } == step.attributes
    assert {
        "rpc.system": "grpc",
        "rpc.service": "csi.v1.Controller",
        "rpc.method": "CreateVolume",
        "rpc.grpc.status_code": 0,
        "mooring.driver": "d.csi",
    } == call.attributes
    assert {
        "http.request.method": "PATCH",
        "k8s.namespace.name": "default",
        "k8s.persistentvolumeclaim.name": "data",
        "mooring.object": "persistentvolumeclaims/data",
    } == write.attributes
    assert 1_000_000_000 == pytest.approx(call.end_time - call.start_time, abs=5_000_000)
    assert step.start_time <= call.start_time
    assert call.end_time <= write.start_time <= write.end_time <= step.end_time
    assert "a-program" == step.resource.attributes["service.name"]
    assert {StatusCode.UNSET} == {span.status.status_code for span in found}
    assert SECRET not in repr([span.to_json() for span in found])


async def test_a_failed_call_has_its_code_and_no_secret_of_its_request() -> None:
    scene = Scene()
    scene.fails = [DriverError(Code.INTERNAL, f"mount -o password={SECRET} failed")]
    await scene.create(a_claim("data"))
    async with scene.at_work(provision) as controller:
        controller.add(UID)
        await scene.still()
    failed = [span for span in scene.spans.in_trace(UID) if span.status.status_code is StatusCode.ERROR]
    step, call = failed
    assert (13, "Internal: mount -o password=***stripped*** failed") == (
        call.attributes["rpc.grpc.status_code"],
        call.status.description,
    )
    assert step.context.span_id == call.parent.span_id
    assert "failed to make it: mount -o password=***stripped*** failed" == step.status.description
    assert SECRET not in repr([span.to_json() for span in scene.spans.all])


class Talkative(Driver):
    """Repeats the secrets of a request, with nothing before it that takes them out."""

    async def invoke(self, rpc: Rpc[Any, Any], request: Any, call: Call) -> Any:
        raise DriverError(Code.INTERNAL, f"mount -o password={request.secrets['password']} failed")


async def test_no_secret_stands_in_what_a_driver_says() -> None:
    async def reconcile(driver: Driver) -> Result:
        with contextlib.suppress(DriverError):
            await driver.create_volume(csi.CreateVolumeRequest(name="pvc", secrets={"password": SECRET}), Call(10.0))
        return Result(Because("tried"))

    scene = Scene()
    scene.driver = Talkative()
    async with scene.at_work(lambda _, driver: lambda uid: reconcile(driver)) as controller:
        controller.add(UID)
        await scene.still()
    call = only(scene.spans.all, "csi.v1.Controller/CreateVolume")
    assert "Internal: mount -o password=***stripped*** failed" == call.status.description


async def test_a_refused_write_has_the_answers_code() -> None:
    async def reconcile(runtime: Runtime, uid: str) -> Result:
        with contextlib.suppress(NotFound):
            await runtime.cluster.delete(PERSISTENT_VOLUMES, "pv1", uid=OWN)
        return Result(Because("it is gone"))

    scene = Scene()
    async with scene.at_work(lambda runtime, _: lambda uid: reconcile(runtime, uid)) as controller:
        controller.add(UID)
        await scene.still()
    assert {"claims Because": ["delete persistentvolumes"]} == scene.trace, (
        "the reason is that of the Result, which comes last"
    )
    write = only(scene.spans.all, "delete persistentvolumes")
    assert (404, "NotFound") == (write.attributes["http.response.status_code"], write.attributes["error.type"])
    assert StatusCode.ERROR is write.status.status_code
    assert StatusCode.UNSET is only(scene.spans.all, "claims Because").status.status_code


async def test_what_waits_is_told_once() -> None:
    texts = iter(["a", "a", "a", "b", "a"])
    scene = Scene()
    async with scene.at_work(lambda *_: lambda uid: _result(next(texts))) as controller:
        for _ in range(5):
            controller.add(UID)
            await scene.still()
    assert ["a", "b", "a"] == [span.attributes["mooring.reason"] for span in scene.spans.all]


async def _result(text: str) -> Result:
    return Result(Because(text))


async def test_what_a_step_has_started_follows_below_it() -> None:
    scene = Scene()
    async with asyncio.TaskGroup() as group:

        async def reconcile(driver: Driver) -> Result:
            group.create_task(driver.create_volume(csi.CreateVolumeRequest(name="pvc"), Call(10.0)), name="later")
            return Result(Because("it has begun"))

        async with scene.at_work(lambda _, driver: lambda uid: reconcile(driver)) as controller:
            controller.add(UID)
            await scene.still()
    assert {"claims Because": ["csi.v1.Controller/CreateVolume"]} == scene.trace
    assert (
        only(scene.spans.all, "claims Because").end_time
        < only(scene.spans.all, "csi.v1.Controller/CreateVolume").end_time
    )


async def test_a_step_that_nothing_ends_is_told_before_the_next_key() -> None:
    """It stayed stale for the first time; its span ends with the last that was done."""
    made: list[str] = []

    async def reconcile(runtime: Runtime, uid: str) -> Result:
        if uid == UID:
            if not made:
                await runtime.cluster.create(PERSISTENT_VOLUME_CLAIMS, a_claim("data"), "default")
            made.append(uid)
            raise Stale("moved")
        return Result(Because("nothing"))

    scene = Scene()
    async with scene.at_work(lambda runtime, _: lambda uid: reconcile(runtime, uid)) as controller:
        controller.add(UID)
        await asyncio.sleep(0.01)
        for _ in range(2):  # there are two workers
            controller.add(OTHER)
            await asyncio.sleep(0.01)
    assert {"claims": ["create persistentvolumeclaims"]} == scene.trace
    assert only(scene.spans.all, "claims").end_time == only(scene.spans.all, "create persistentvolumeclaims").end_time


async def test_a_step_of_no_volume_leaves_each_write_to_its_own_object() -> None:
    """As a StatefulSet's, which makes claims; what is no volume's is not traced."""

    async def reconcile(runtime: Runtime) -> Result:
        await runtime.cluster.create(PERSISTENT_VOLUME_CLAIMS, a_claim("data"), "default")
        await runtime.cluster.create(
            PODS, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}, "default"
        )
        return Result(Because("made"))

    scene = Scene()
    async with scene.at_work(lambda runtime, _: lambda key: reconcile(runtime), label="StatefulSet") as controller:
        controller.add("db")
        await scene.still()
    uid = (await scene.get(PERSISTENT_VOLUME_CLAIMS, "data"))["metadata"]["uid"]
    assert (
        ["create persistentvolumeclaims"]
        == [span.name for span in scene.spans.all]
        == list(tree(scene.spans.in_trace(uid)))
    )


async def test_an_event_is_in_the_trace_of_the_object_that_it_tells_of() -> None:
    scene = Scene()
    await scene.create(a_claim("data"))
    uid = (await scene.get(PERSISTENT_VOLUME_CLAIMS, "data"))["metadata"]["uid"]
    tracing = Tracing(scene.spans.of("a-program"), scene.clock)
    cluster = on_traced_ports(scene.runtime, tracing).cluster
    await cluster.list(PERSISTENT_VOLUME_CLAIMS)
    for kind, name in (("PersistentVolumeClaim", "data"), ("Node", "data"), ("PersistentVolumeClaim", "another")):
        about = {"kind": kind, "name": name, "namespace": "default"}
        await cluster.create(EVENTS, {"metadata": {"generateName": "e-"}, "involvedObject": about}, "default")
    (event,) = scene.spans.in_trace(uid)
    assert "create events" == event.name
    assert 1 == len(scene.spans.all)


async def test_a_stale_step_and_one_that_comes_again_at_once_are_one_span_each() -> None:
    scene, stale = Scene(), iter([True, False])
    await scene.create(a_claim("data"))

    def how(runtime: Runtime, driver: Driver) -> Deciding[str, str]:
        inner = provision(runtime, driver)

        async def perform(uid: str, decision: Decision[str]) -> Result | None:
            if next(stale, False):
                raise Stale("it has moved")
            return await inner.perform(uid, decision)

        return msgspec.structs.replace(inner, perform=perform)

    async with scene.at_work(how) as controller:
        controller.add(UID)
        await scene.still()
    reasons = [span.attributes["mooring.reason"] for span in scene.spans.in_trace(UID) if span.parent is None]
    assert ["it is wanted", "it is wanted", "it is there"] == reasons


@each_row(
    ("error", "told"),
    [
        (Retry("the driver is not registered"), "the driver is not registered"),
        (ValueError("a bug"), "unexpectedly: ValueError('a bug')"),
    ],
)
async def test_a_failure_without_a_decision_is_told(error: Exception, told: str) -> None:
    async def reconcile(uid: str) -> Result:
        raise error

    scene = Scene()
    async with scene.at_work(lambda *_: reconcile) as controller:
        controller.add(UID)
        await asyncio.sleep(0.01)
    step = only(scene.spans.all, "claims Failing")
    assert told == step.status.description


@pytest.fixture
def ratio(monkeypatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.25")


@pytest.mark.usefixtures("ratio")
def test_a_ratio_takes_whole_traces_the_same_in_every_program() -> None:
    """The lower half of a uid always begins with the bits 10: by it alone a ratio of a quarter would take none."""
    randomness, spans = Random(1), SpansInMemory()
    sinks = [spans.of("one"), spans.of("another")]
    uids = [randomness.uid() for _ in range(400)]
    for uid in uids:
        for sink in sinks:
            parent = sink.put(uid, Span("above", 1, {}, 2))
            sink.put(uid, Span("below", 1, {}, 2), parent)
    counts = {uid: len(spans.in_trace(uid)) for uid in uids}
    assert {0, 4} == set(counts.values())
    assert 60 < sum(map(bool, counts.values())) < 140
