"""`mooring unstick` and `mooring fence` (issue 29) on a real control plane with the Go sidecars, and on the embedded
one.

A node dies with a volume, and so does the attacher: what is in use is refused, what is proved goes, what changes
meanwhile is judged anew, and what nobody knows goes by force alone, with an Event.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from mooring.wire.grpc.codes import Code
from tests.e2e.nights import DRIVER, Night, a_last_lease, go_plane, our_plane
from tests.support import listing_folder_driver
from tests.support.builders import a_claim, a_lease, a_pod, a_va
from tests.support.fault_proxy import Hang, fault_proxy
from tests.support.folder_driver import FolderDriver
from tests.support.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.real]

FINALIZER: Final = "external-attacher/folders-csi-test"
OUT: Final = "node.kubernetes.io/out-of-service"
ELECTION: Final = (
    *("--leader-election", "--leader-election-namespace=default", "--leader-election-lease-duration=3s"),
    *("--leader-election-renew-deadline=2s", "--leader-election-retry-period=500ms"),
)


def course(night: Night, attacher: str) -> None:
    """attacher: the part of the plane that attaches."""
    socket = night.folder / "listing.sock"
    night.parts["listing driver"] = listing_folder_driver.start(
        night.folder / "driver", socket, night.folder / "listing.log"
    )
    name, handle = attached(night)
    failing_while_the_attacher_lives(night, name)
    night.create(a_va("racing", "lost", "gone", attacher=DRIVER, finalizers=[FINALIZER]))
    night.parts.pop(attacher).kill()
    refused(night, f"va/{name}", "reports it as in use")
    fenced(night)
    refused(night, f"va/{name} --csi-address={socket}", "the driver says that the volume is published on id-of-n1")
    (night.folder / "driver" / "volumes" / handle / "nodes" / "id-of-n1").unlink()  # by the storage's own means
    assert "TAKEN OFF" in night.type(f"mooring unstick va/{name} --csi-address={socket} --yes")
    assert name not in night.kubectl("get", "volumeattachments", "-o", "name")
    asyncio.run(raced(night))
    forced(night)
    unfenced(night)


def attached(night: Night) -> tuple[str, str]:
    """A volume that a pod on n1 has, whose attachment is to go: the attachment's name, and the driver's handle."""
    night.create(a_claim("moves", sc="folders"), a_pod("old", "moves", node="n1"))
    night.is_healed("pod/old")
    volume = night.kubectl("get", "pvc", "moves", "-o", "jsonpath={.spec.volumeName}")
    handle = night.kubectl("get", "pv", volume, "-o", "jsonpath={.spec.csi.volumeHandle}")
    night.status("node", "n1", {"volumesInUse": [f"kubernetes.io/csi/{DRIVER}^{handle}"]})
    attachments = json.loads(night.kubectl("get", "volumeattachments", "-o", "json"))["items"]
    (name,) = (
        one["metadata"]["name"] for one in attachments if one["spec"]["source"].get("persistentVolumeName") == volume
    )
    return str(name), handle


def failing_while_the_attacher_lives(night: Night, name: str) -> None:
    """The attacher tries again and again, and the driver does not do it."""
    refused(night, f"va/{name}", "is not being deleted")
    night.kubectl("delete", "pod", "old", "--grace-period=0", "--force")
    FolderDriver(night.folder / "driver").fail(
        "controller_unpublish_volume", Code.INTERNAL, "the array does not answer"
    )
    night.kubectl("delete", "volumeattachment", name, "--wait=false")
    error = "jsonpath={.status.detachError.message}"
    eventually(
        lambda: night.kubectl("get", "volumeattachment", name, "-o", error), 30, "the attacher says that it failed"
    )
    refused(
        night,
        f"va/{name}",
        "fails, so only the driver's own answer counts: rpc error: code = Internal desc = the array",
    )


def refused(night: Night, words: str, why: str) -> None:
    assert 1 == night.code_of(f"mooring unstick {words} --yes > {night.folder}/said")
    said = (night.folder / "said").read_text()
    assert why in " ".join(said.split()), said


@contextmanager
def a_live_kubelet(night: Night) -> Iterator[None]:
    """Renews the Lease of n1."""
    lease = a_lease(
        "n1",
        holderIdentity="n1",
        leaseDurationSeconds=40,
        renewTime="2026-01-01T00:00:00.000000Z",
        namespace="kube-node-lease",
    )
    night.create(lease)
    end = threading.Event()

    def renew() -> None:
        for number in range(1, 1000):
            body = {"spec": {"renewTime": f"2026-01-01T00:{number // 60:02}:{number % 60:02}.000000Z"}}
            night.kubectl("-n", "kube-node-lease", "patch", "lease", "n1", "--type=merge", "-p", json.dumps(body))
            if end.wait(1.0):
                return

    kubelet = threading.Thread(target=renew)
    kubelet.start()
    try:
        yield
    finally:
        end.set()
        kubelet.join()
        night.kubectl("-n", "kube-node-lease", "delete", "lease", "n1")


def ready(night: Night, status: str) -> None:
    night.status(
        "node",
        "n1",
        {"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    )


def taints(night: Night) -> str:
    return night.kubectl("get", "node", "n1", "-o", "jsonpath={.spec.taints[*].key}")


def fenced(night: Night) -> None:
    with a_live_kubelet(night):
        assert 1 == night.code_of("echo n1 | mooring fence n1"), "it is Ready"
        ready(night, "False")
        assert 1 == night.code_of("echo n1 | mooring fence n1"), "its kubelet lives"
    ready(night, "Unknown")
    assert OUT not in taints(night)
    with a_last_lease(night, "n1"):
        assert 3 == night.code_of("mooring fence n1 --dry-run")
        assert 1 == night.code_of("mooring fence n1 --prover='test {node} = n2' --yes")
        assert OUT not in taints(night)
        night.type("mooring fence n1 --prover='test {node} = n1' --yes --reason='the power supply burnt'")
    assert OUT in taints(night)
    node = json.loads(night.kubectl("get", "node", "n1", "-o", "json"))
    record = json.loads(node["metadata"]["annotations"]["mooring.dev/fenced"])
    assert "the power supply burnt" == record["reason"]
    assert record["by"]
    assert "NodeFenced" in night.kubectl("describe", "node", "n1")


def unfenced(night: Night) -> None:
    assert 1 == night.code_of("mooring unfence n1 --yes"), "it is not Ready"
    ready(night, "True")
    night.type("mooring unfence n1 --yes")
    assert OUT not in taints(night)
    assert "NodeUnfenced" in night.kubectl("describe", "node", "n1")


async def raced(night: Night) -> None:
    """Somebody writes to the object between the look and the write: the server refuses the write, and the object is
    judged anew.

    It was made while the attacher lived: else that one's silent Lease would tell nothing of it.
    """
    await asyncio.to_thread(night.kubectl, "delete", "volumeattachment", "racing", "--wait=false")
    config = night.kubeconfig if night.plane is None else night.plane.token_kubeconfig()
    async with fault_proxy(config, night.folder / "proxy.kubeconfig") as proxy:
        held = proxy.fail("patch", "volumeattachments", Hang(), times=1)
        words = ("unstick", "va/racing", "--yes", f"--kubeconfig={proxy.kubeconfig}")
        command = await asyncio.create_subprocess_exec(sys.executable, "-m", "mooring.cli.mooring", *words)
        await asyncio.to_thread(eventually, lambda: held.hits, 60, "the write is on its way")
        await asyncio.to_thread(night.kubectl, "annotate", "volumeattachment", "racing", "somebody=was-here")
        proxy.mend()
        assert 0 == await asyncio.wait_for(command.wait(), 60)
        statuses = [one.status for one in proxy.requests if one.verb == "patch"]
        assert [409, 200] == statuses
    assert "racing" not in await asyncio.to_thread(night.kubectl, "get", "volumeattachments", "-o", "name")


def forced(night: Night) -> None:
    body: dict[str, Any] = a_claim("held", sc="none")
    night.create(body)
    night.kubectl("patch", "pvc", "held", "--type=merge", "-p", '{"metadata": {"finalizers": ["example.com/hold"]}}')
    night.kubectl("delete", "pvc", "held", "--wait=false")
    assert 3 == night.code_of("mooring unstick pvc/held --dry-run")
    refused(night, "pvc/held", "nobody here knows what it protects")
    assert 1 == night.code_of("echo other | mooring unstick pvc/held --force --reason='asked the backup team'")
    night.type("echo held | mooring unstick pvc/held --force --reason='asked the backup team'")
    assert "held" not in night.kubectl("get", "pvc", "-o", "name")

    def told() -> bool:
        events = json.loads(
            night.kubectl("get", "events", "--field-selector=reason=FinalizerRemovedByForce", "-o", "json")
        )["items"]
        (event,) = events
        assert "held" == event["involvedObject"]["name"]
        return "because: asked the backup team. What spoke against it: example.com/hold" in event["message"]

    assert eventually(told, 10, "the Event is there")


def test_with_the_go_sidecars(tmp_path: Path) -> None:
    with go_plane(tmp_path) as night:
        course(night, "csi-attacher")


def test_on_the_embedded_plane(tmp_path: Path) -> None:
    with our_plane(tmp_path, *ELECTION) as night:
        course(night, "controller")
