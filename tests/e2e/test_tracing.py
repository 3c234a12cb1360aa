"""One volume's way through all programs is one trace: in memory for a whole plane, and over the wire from real
processes.
"""

from __future__ import annotations

import base64
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.control.tracing.spans import trace_id_of
from mooring.driver.hostpath.driver import DRIVER_NAME
from mooring.kube.client import kubeconfig
from mooring.kube.client.http import HttpCluster
from tests.support.builders import a_claim, a_class, a_csi_node, a_secret, a_va
from tests.support.cluster_world import ClusterUser
from tests.support.otlp_receiver import Receiver
from tests.support.programs import Program
from tests.support.spans import SpansInMemory
from tests.support.traced_plane import PROGRAMS, a_life, traced_plane
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

BIN = Path(sys.executable).parent
SECRET = "tr0ub4dor&3-of-the-array"


def service(span: ReadableSpan) -> str:
    return str(span.resource.attributes["service.name"])


BINDING = ("mooring-binder", "claims Binding", "replace persistentvolumeclaims")
EDGES = {
    BINDING,
    ("mooring-binder", "scheduler GoesTo", "replace persistentvolumeclaims"),
    ("csi-provisioner", "claims Failing", "csi.v1.Controller/CreateVolume"),
    ("csi-provisioner", "claims Creating", "csi.v1.Controller/CreateVolume"),
    ("csi-provisioner", "claims Creating", "create persistentvolumes"),
    ("mooring-binder", "scheduler GoesTo", "post pods/binding"),
    ("mooring-attachdetach", "attachdetach-volumes Wanted", "create volumeattachments"),
    ("csi-attacher", "csi-attacher-va Attaching", "csi.v1.Controller/ControllerPublishVolume"),
    ("csi-attacher", "csi-attacher-va Attaching", "patch volumeattachments/status"),
    ("mooring-node-agent", "node-volumes Staging", "csi.v1.Node/NodeStageVolume"),
    ("mooring-node-agent", "node-volumes Publishing", "csi.v1.Node/NodePublishVolume"),
    ("mooring-node-agent", "node-volumes Unpublishing", "csi.v1.Node/NodeUnpublishVolume"),
    ("mooring-node-agent", "node-volumes Unstaging", "csi.v1.Node/NodeUnstageVolume"),
    ("csi-attacher", "csi-attacher-va Detaching", "csi.v1.Controller/ControllerUnpublishVolume"),
    ("csi-provisioner", "volumes Deleting", "csi.v1.Controller/DeleteVolume"),
    ("csi-provisioner", "volumes Deleting", "delete persistentvolumes"),
}
"""What stands below what, of which program: the ways of a volume from its claim to its end."""


async def test_a_volumes_way_is_one_trace_of_all_programs(tmp_path: Path) -> None:
    spans = SpansInMemory()
    async with traced_plane(tmp_path, spans) as plane:
        uid = await a_life(plane)
    found = spans.in_trace(uid)
    assert [] == [(service(span), span.name) for span in spans.all if span.context.trace_id != trace_id_of(uid)], (
        "there is one volume"
    )
    assert set(PROGRAMS.values()) == set(map(service, found))
    above = {span.context.span_id: span for span in found if span.parent is None}
    edges = {(service(span), above[span.parent.span_id].name, span.name) for span in found if span.parent is not None}
    assert set() == EDGES - edges
    for span in found:
        parent = above[span.parent.span_id] if span.parent is not None else None
        is_event = span.name == "create events"
        assert parent is None or (service(parent) == service(span) and parent.start_time <= span.start_time)
        assert (SpanKind.CLIENT if parent is not None or is_event else SpanKind.INTERNAL) is span.kind, span.name
        assert parent is not None or is_event or "mooring.controller" in span.attributes
    calls = [span for span in found if span.name == "csi.v1.Controller/CreateVolume"]
    assert [(8, StatusCode.ERROR), (0, StatusCode.UNSET)] == [
        (span.attributes["rpc.grpc.status_code"], span.status.status_code)
        for span in sorted(calls, key=lambda span: span.start_time)
    ]
    failed = next(
        span for span in above.values() if span.name == "claims Failing" and service(span) == "csi-provisioner"
    )
    assert (StatusCode.ERROR, True) == (failed.status.status_code, "the array is busy" in failed.status.description)
    reasons = {(span.name, span.attributes.get("mooring.reason")) for span in above.values()}
    assert ("claims WaitsForFirstConsumer", "waiting for first consumer to be created before binding") in reasons
    below = {span.parent.span_id for span in found if span.parent is not None}
    told = Counter(
        (service(span), span.name, span.attributes["mooring.object"], span.attributes.get("mooring.reason"))
        for span in above.values()
        if span.context.span_id not in below
        and span.name != "create events"
        and span.status.status_code is StatusCode.UNSET
    )
    assert told.most_common(1)[0][1] <= 2, f"what waits is told once in a row: {told.most_common(3)}"


@pytest.fixture
def collector() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


async def test_real_processes_send_one_trace_over_the_wire(tmp_path: Path, collector: Receiver) -> None:
    """csi-provisioner, csi-attacher and the binder on `mooring apiserver`, with a secret for the driver: all come to
    the claim's trace.
    """
    config, socket = tmp_path / "kubeconfig", tmp_path / "csi.sock"
    environ = {
        **os.environ,
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
        "POD_NAMESPACE": "default",
    }
    driver = [
        BIN / "mooring",
        "driver",
        "hostpath",
        f"--endpoint=unix://{socket}",
        f"--state={tmp_path / 'state'}",
        "--node-id=n1",
    ]
    started = [
        Program(
            [BIN / "mooring", "apiserver", "--memory", f"--state={tmp_path / 'server'}", f"--kubeconfig={config}"],
            tmp_path / "apiserver.log",
        ),
        Program(driver, tmp_path / "driver.log"),
    ]
    try:
        eventually(config.exists, 30, "the server's kubeconfig")
        for words in (
            ["csi-provisioner", f"--csi-address={socket}"],
            ["csi-attacher", f"--csi-address={socket}"],
            ["mooring", "binder"],
        ):
            command = [BIN / words[0], *words[1:], f"--kubeconfig={config}", "--tracing"]
            started.append(Program(command, tmp_path / f"{len(started)}.log", environ))
        async with HttpCluster(
            kubeconfig.load(str(config), {}), clock=LoopClock(), randomness=Random(), user_agent="tests"
        ) as cluster:
            uid = await a_course(ClusterUser(cluster, wait_s=30, look_s=0.05))
        for program in started[2:]:
            program.send(signal.SIGTERM)
            assert 0 == program.wait_exit(20), program.log_tail()
    except BaseException as error:
        for program in started:
            error.add_note(f"-- {program.command[0]}\n{program.log_tail(30)}")
        raise
    finally:
        for program in started:
            program.kill()
    trace = trace_id_of(uid).to_bytes(16, "big")
    found = [one for one in collector.spans if one.span.trace_id == trace]
    assert {"csi-provisioner", "csi-attacher", "mooring-binder"} == {one.service for one in found}
    above = {one.span.span_id: one for one in found}
    edges = {
        (one.service, above[one.span.parent_span_id].span.name, one.span.name)
        for one in found
        if one.span.parent_span_id
    }
    wanted = {edge for edge in EDGES if edge[0] in ("csi-provisioner", "csi-attacher")} | {BINDING}
    assert {("csi-provisioner", "claims Failing", "csi.v1.Controller/CreateVolume")} == wanted - edges, (
        "no call has failed"
    )
    call = next(one for one in found if one.span.name == "csi.v1.Controller/CreateVolume")
    assert ("grpc", "hostpath.csi.mooring", 0) == tuple(
        call.attributes[name] for name in ("rpc.system", "mooring.driver", "rpc.grpc.status_code")
    )
    assert [] == [
        body for body in collector.raw if SECRET.encode() in body or base64.b64encode(SECRET.encode()) in body
    ]


async def a_course(user: ClusterUser) -> str:
    """Provisioned, bound, attached, detached, deleted; the test stands for attachdetach. Gives the claim's uid."""
    secret = {"provisioner-secret-name": "a-secret", "provisioner-secret-namespace": "default"}
    parameters = {f"csi.storage.k8s.io/{name}": value for name, value in secret.items()}
    await user.create(a_secret("a-secret", {"password": base64.b64encode(SECRET.encode()).decode()}))
    await user.create(a_class("c", provisioner=DRIVER_NAME, parameters=parameters))
    await user.create(a_csi_node("n1", {DRIVER_NAME: "n1"}))
    uid: str = (await user.create(a_claim("data", sc="c")))["metadata"]["uid"]
    pv = f"pvc-{uid}"
    await user.shown(PERSISTENT_VOLUMES, pv, lambda body: body["status"].get("phase") == "Bound")
    await user.create(a_va("va", pv, "n1", attacher=DRIVER_NAME))
    await user.shown(VOLUME_ATTACHMENTS, "va", lambda body: body["status"]["attached"])
    await user.remove(VOLUME_ATTACHMENTS, "va")
    await user.remove(PERSISTENT_VOLUME_CLAIMS, "data")
    await user.gone(PERSISTENT_VOLUMES, pv)
    return uid
