"""`mooring timeline` (issue 29) on the in-process port, in virtual time: what happened when, the waits, and whose move
it was.
"""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import msgspec
import pytest
import yaml

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.api.meta import Kind, ObjectMeta
from mooring.api.volume_names import attachment_name
from mooring.apiserver.local import ServerFaults
from mooring.base.clock import rfc3339, rfc3339_micro
from mooring.base.errors import ConfigError
from mooring.base.flags import UsageError
from mooring.base.text import visible
from mooring.inspect.scene import EventSource, SeenEvent, Unseen
from mooring.inspect.timeline.moments import fields_of, maker_of, owner_of, program_of, states, told, written
from mooring.inspect.timeline.page import LETTER, STEP, as_page, places_of
from mooring.inspect.timeline.render import as_text
from mooring.inspect.timeline.story import Timeline, gaps_of, in_order
from mooring.inspect.timeline.traces import Lane, Moment, Source, Traced, traced
from mooring.kube.errors import Forbidden
from tests.support.builders import (
    DRIVER,
    Json,
    a_claim,
    a_class,
    a_csi_driver,
    a_lease,
    a_pod,
    a_volume,
    an_attached_va,
)
from tests.support.cluster_world import EPOCH_S
from tests.support.explaining import WhyWorld
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time

VA = attachment_name(DRIVER, "pv", "n1")
PVC, PV, POD, ATTACHMENT = (
    Lane(label, kind, "one", f"uid-{label}")
    for label, kind in (("pvc", "pvc"), ("pv", "pv"), ("pod", "pod"), ("va", "volumeattachment"))
)


def at(seconds: float) -> str:
    return rfc3339(EPOCH_S + seconds)


def an_entry(manager: str, seconds: float, fields: Json, subresource: str = "") -> Json:
    return {
        "manager": manager,
        "operation": "Update",
        "time": at(seconds),
        "fieldsV1": fields,
        "subresource": subresource,
    }


def an_object(*entries: Json, status: Json | None = None, **metadata: Any) -> Traced:
    return traced(
        {"metadata": {"creationTimestamp": at(0), "managedFields": [*entries], **metadata}, "status": status or {}}
    )


def told_by(moments: Any) -> list[tuple[float, str, str]]:
    """Seconds from the beginning, who, what."""
    return [(one.at_s - EPOCH_S, one.who, one.what) for one in moments]


CLAIM_REF = {"f:spec": {"f:claimRef": {".": {}, "f:uid": {}}}}
MADE = {"f:metadata": {"f:annotations": {".": {}, "f:a/b": {}}}, "f:spec": {"f:capacity": {"f:storage": {}}}}


# -- managedFields


def test_each_manager_of_a_volume_gives_a_moment_and_its_maker_the_first():
    binder = an_entry("kube-controller-manager", 2, CLAIM_REF)
    phase = an_entry("kube-controller-manager", 3, {"f:status": {"f:phase": {}}}, "status")
    assert [
        (0, "csi-provisioner", "created it"),
        (2, "kube-controller-manager", "wrote spec.claimRef"),
        (3, "kube-controller-manager", "wrote status.phase"),
    ] == told_by(written(PV, an_object(an_entry("csi-provisioner", 0, MADE), binder, phase)))


def test_a_maker_that_wrote_later_is_not_said_to_have_written_all_of_it_then():
    later = told_by(written(PV, an_object(an_entry("csi-provisioner", 9, MADE))))
    assert (9, "csi-provisioner", "last wrote one of spec.capacity, annotation a/b") == later[1]
    assert (0, "csi-provisioner", "created it") == later[0]


def test_a_maker_that_nothing_proves_is_unknown():
    assert maker_of(PV, an_object(an_entry("a", 0, MADE), an_entry("b", 0, MADE))) is None
    assert maker_of(PV, an_object(an_entry("a", 0, CLAIM_REF))) is None
    assert [(0, "", "created it")] == told_by(written(PV, an_object()))


def test_fields_are_named_in_short_and_not_as_trees():
    ready = 'k:{"type":"Ready"}'
    fields = {
        "f:metadata": {"f:finalizers": {".": {}, 'v:"x"': {}}, "f:annotations": {"f:note": {}}},
        "f:spec": {"f:claimRef": {"f:name": {}, "f:uid": {}}},
        "f:status": {"f:conditions": {ready: {"f:status": {}}}, "f:phase": {}},
    }
    entry = an_object(an_entry("m", 1, fields)).metadata.managed_fields[0]  # type: ignore[index]
    assert [
        "spec.claimRef",
        "status.conditions[Ready]",
        "status.phase",
        "metadata.finalizers",
        "annotation note",
    ] == fields_of(entry)
    many = an_entry("m", 1, {"f:status": {f"f:{name}": {} for name in "abcdefg"}})
    assert "wrote status.a, status.b, status.c, status.d and 3 more" == told_by(written(PV, an_object(many)))[1][2]


@each_row(
    "fields", [{"f:spec": []}, {"k:{": {}}, {"f:status": {"f:conditions": {"k:[]": {}, "k:{": 1}}}, {"f:": 3}, {"": {}}]
)
def test_a_record_of_odd_shape_is_no_error(fields: Json):
    assert (0, "", "created it") == told_by(written(PV, an_object(an_entry("m", 1, fields))))[0]
    assert Traced() == traced({"metadata": {"managedFields": "none"}})


# -- status and metadata


def test_conditions_name_the_manager_that_owns_them():
    ready = 'k:{"type":"Ready"}'
    conditions = [
        {
            "type": "Ready",
            "status": "False",
            "lastTransitionTime": at(4),
            "reason": "ContainersNotReady",
            "message": "web",
        }
    ]
    kubelet = an_entry("kubelet", 4, {"f:status": {"f:conditions": {ready: {".": {}}}}}, "status")
    pod = an_object(kubelet, status={"conditions": conditions})
    assert [(4, "kubelet", "set Ready to False (ContainersNotReady: web)")] == told_by(states(POD, pod))
    assert "" == owner_of(an_object(kubelet, {**kubelet, "manager": "other"}), "f:status", "f:conditions", ready)


def test_errors_in_attaching_and_detaching_have_their_times_and_authors():
    mine = an_entry("csi-attacher", 9, {"f:status": {"f:attachError": {"f:message": {}}}}, "status")
    status = {
        "attached": False,
        "attachError": {"time": at(7), "message": "no room"},
        "detachError": {"time": at(8), "message": "busy"},
    }
    found = list(states(ATTACHMENT, an_object(mine, status=status)))
    assert [(7, "csi-attacher", "failed to attach: no room"), (8, "", "failed to detach: busy")] == told_by(found)
    assert all(one.is_bad for one in found)


def test_phases_containers_and_a_snapshot_s_time_are_moments():
    status = {
        "phase": "Bound",
        "lastPhaseTransitionTime": at(1),
        "startTime": at(2),
        "creationTime": int((EPOCH_S + 3) * 1e9),
        "containerStatuses": [
            {"name": "a", "state": {"running": {"startedAt": at(4)}}},
            {"name": "b", "state": {"terminated": {"finishedAt": at(5), "exitCode": 1}}},
        ],
    }
    assert [
        (1, "", "set the phase Bound"),
        (2, "", "took the pod up on its node"),
        (3, "the driver", "took the snapshot, as the driver has it"),
        (4, "", "started the container a"),
        (5, "", "saw the end of the container b (exit code 1)"),
    ] == told_by(states(POD, an_object(status=status)))


def test_a_pod_was_asked_to_end_its_grace_period_before_its_deletion_time():
    pod = an_object(deletionTimestamp=at(40), deletionGracePeriodSeconds=30, finalizers=["a/b"])
    assert [(10, "", "asked for its end; held by a/b")] == told_by(states(POD, pod))


# -- Events and Leases


async def test_an_event_that_was_repeated_gives_its_first_and_its_last_time() -> None:
    world = WhyWorld()
    claim = await world.create(a_class(), a_csi_driver(), a_claim())
    ref = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "claim", "uid": claim["metadata"]["uid"]}
    event: Json = {
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": ref,
        "reason": "ProvisioningFailed",
    }
    times = {"firstTimestamp": at(1), "lastTimestamp": at(31), "count": 3}
    await world.create(
        {**event, **times, "message": "no", "type": "Warning", "source": {"component": "csi-provisioner"}}
    )
    await world.clock.sleep(40)
    moments = (await values(world, "pvc/claim"))["moments"]
    said = [
        (one["offsetSeconds"], one["who"], one["what"], one["isBad"]) for one in moments if one["source"] == "event"
    ]
    assert [
        (1, "csi-provisioner", "said ProvisioningFailed: no", True),
        (31, "csi-provisioner", "said it for the 3rd time: ProvisioningFailed: no", True),
    ] == said


def test_a_warning_of_the_same_reason_in_other_words_moves_nothing_on() -> None:
    def event(seconds: float, message: str, type_: str = "Warning") -> SeenEvent:
        meta, by = ObjectMeta(name=message, namespace="default"), EventSource(component="attachdetach-controller")
        return SeenEvent(
            meta, reason="FailedAttachVolume", message=message, type=type_, first_timestamp=at(seconds), source=by
        )

    found = list(told(POD, [event(11, "it is used: by web-1"), event(1, "it is used"), event(12, "fine", "Normal")]))
    assert [("it is used", False), ("it is used: by web-1", True), ("fine", False)] == [
        (one.what.partition(": ")[2], one.is_repeat) for one in found
    ]


async def test_a_sidecar_s_lease_tells_when_it_began_and_when_it_stopped() -> None:
    world = WhyWorld()
    await world.bound()
    await world.clock.sleep(60)
    lock = a_lease("external-attacher-leader-csi-test", holderIdentity="pod-2")
    spec = {"acquireTime": rfc3339_micro(EPOCH_S + 20), "renewTime": rfc3339_micro(EPOCH_S + 25), "leaseTransitions": 2}
    await world.create({**lock, "spec": {**lock["spec"], **spec}})
    await world.clock.sleep(60)
    moments = (await values(world, "pvc/claim"))["moments"]
    assert [
        (20, "csi-attacher", "began to lead as pod-2, after 2 changes of the holder"),
        (25, "csi-attacher", "renewed its Lease for the last time, as pod-2"),
    ] == [(one["offsetSeconds"], one["who"], one["what"]) for one in moments if one["source"] == "lease"]


def test_the_names_of_leases_lead_to_programs():
    assert ["csi-attacher", "csi-resizer", "csi-provisioner", "snapshot-controller", "mooring controller"] == [
        program_of(one)
        for one in (
            "external-attacher-leader-csi-test",
            "external-resizer-csi-test",
            "csi-test",
            "snapshot-controller-leader",
            "mooring-controller-csi-test",
        )
    ]


# -- order and waits


def a_moment(seconds: float, lane: Lane, source: Source, who: str = "", reason: str = "") -> Moment:
    return Moment(EPOCH_S + seconds, lane.label, source, "did", who, reason=reason)


def test_moments_of_one_second_stand_in_the_order_of_a_volume_s_life():
    expected = [
        a_moment(0.9, PVC, Source.CREATED),
        a_moment(0.2, POD, Source.CREATED),
        a_moment(0.1, PVC, Source.EVENT, reason="Provisioning"),
        a_moment(0, PV, Source.CREATED),
        a_moment(0, PVC, Source.EVENT, reason="ProvisioningSucceeded"),
        a_moment(0, PV, Source.STATE),
        a_moment(0, PVC, Source.WROTE),
        a_moment(0, POD, Source.EVENT, reason="Scheduled"),
        a_moment(0, ATTACHMENT, Source.CREATED),
        a_moment(0, ATTACHMENT, Source.WROTE),
        a_moment(0, POD, Source.EVENT, reason="SuccessfulAttachVolume"),
        a_moment(0, POD, Source.EVENT, reason="Started"),
        a_moment(0, PVC, Source.DELETED),
        a_moment(1, PVC, Source.EVENT),
    ]
    assert expected == list(in_order(reversed(expected), (PVC, PV, POD, ATTACHMENT)))


def test_waits_over_the_bound_and_the_longest_are_shown_with_whose_move_it_was():
    moments = [a_moment(seconds, PVC, Source.WROTE, who) for seconds, who in ((0, "a"), (3, "b"), (10, ""), (52, "c"))]
    assert [(1, 7, ""), (2, 42, "c")] == [(one.after, one.seconds, one.who) for one in gaps_of(moments, 5)]
    assert [(2, 42, "c")] == [(one.after, one.seconds, one.who) for one in gaps_of(moments, 100)]
    assert () == gaps_of(moments[:1], 5)


def test_an_event_that_is_repeated_is_nobody_s_move():
    first, last = a_moment(0, PVC, Source.EVENT, "waiter"), a_moment(90, PV, Source.CREATED, "csi-provisioner")
    again = msgspec.structs.replace(first, at_s=EPOCH_S + 60, is_repeat=True)
    assert ["csi-provisioner", "csi-provisioner"] == [one.who for one in gaps_of((first, again, last), 5)]
    assert [""] == [one.who for one in gaps_of((first, again), 5)]


# -- the command


async def values(world: WhyWorld, *words: str, **flags: Any) -> dict[str, Any]:
    code, text = await world.timeline(*words, output="json", **flags)
    assert 0 == code
    found: dict[str, Any] = json.loads(text)
    return found


async def a_course(world: WhyWorld) -> Json:
    """A claim that is bound, and a pod whose volume is attached 42 s later."""
    pod = await world.bound()
    await world.clock.sleep(42)
    await world.create(an_attached_va(VA, "pv", "n1"))
    await world.tell(pod, "FailedMount", "it is <script>alert('hi')</script> \x1b[31m" + " and more" * 20)
    return pod


async def test_a_pod_is_shown_with_its_chain_and_its_waits() -> None:
    world = WhyWorld()
    await a_course(world)
    code, text = await world.timeline("pod/web")
    assert 0 == code
    assert f"va volumeattachment {VA}" in " ".join(text.split())
    order = ("+0s  pvc ", "+0s  pv ", "(42s: unknown whose move)", "+42s  va ")
    assert sorted(order, key=text.index) == list(order)
    assert [] == [line for line in text.splitlines()[1:] if len(line) > 80]
    assert "\x1b" not in text


@each_row("words", [("pvc/claim",), ("pv/pv",), ("va", VA), ("node", "n1")])
async def test_each_kind_leads_to_the_attachment_and_its_time(words: tuple[str, ...]) -> None:
    world = WhyWorld()
    await a_course(world)
    found = await values(world, *words)
    assert {"va"} < {one["lane"] for one in found["lanes"]}
    assert [42.0] == [one["seconds"] for one in found["gaps"]]


async def test_what_happened_to_a_node_before_the_chain_began_is_left_out_unless_it_is_asked_about() -> None:
    world = WhyWorld()
    await world.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    await world.clock.sleep(3600)
    await world.create(a_volume(), an_attached_va(VA, "pv", "n1"))
    assert 0 == (await values(world, "va", VA))["moments"][-1]["offsetSeconds"]
    assert 3600 == (await values(world, "node/n1"))["moments"][-1]["offsetSeconds"]


async def test_a_later_claim_of_the_same_name_is_no_part_of_a_volume_s_chain() -> None:
    world = WhyWorld()
    await world.bound()
    await world.patch(PERSISTENT_VOLUME_CLAIMS, "claim", {"metadata": {"finalizers": None}})
    await world.remove(PERSISTENT_VOLUME_CLAIMS, "claim")
    await world.create(a_claim())
    assert ["pv"] == [one["lane"] for one in (await values(world, "pv/pv"))["lanes"]]


class NoRights(ServerFaults):
    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if kind.plural in ("persistentvolumes", "volumeattachments", "nodes", "csinodes", "leases"):
            raise Forbidden(f"{kind.plural} is forbidden")


async def test_the_user_of_a_namespace_sees_its_part_and_what_is_missing() -> None:
    world = WhyWorld(NoRights())
    await a_course(world)
    found = await values(world, "pod/web")
    assert ["pvc", "pod"] == [one["lane"] for one in found["lanes"]]
    assert 'persistentvolume "pv"' in [one["what"] for one in found["notSeen"]]
    assert 'not seen  persistentvolume "pv": persistentvolumes is forbidden' in (await world.timeline("pod/web"))[1]


async def test_what_is_not_there_and_what_is_no_kind_is_said() -> None:
    world = WhyWorld(NoRights())
    with pytest.raises(ConfigError, match='pod "default/none" does not exist') as gone:
        await world.timeline("pod/none")
    assert 1 == gone.value.exit_code
    with pytest.raises(ConfigError, match='pv "pv" could not be seen: persistentvolumes is forbidden'):
        await world.timeline("pv/pv")
    with pytest.raises(UsageError, match="no kind that mooring timeline knows"):
        await world.timeline("secret/none")
    with pytest.raises(UsageError, match="KIND/NAME"):
        await world.timeline()


class Reader(HTMLParser):
    """The elements of a page, and the text of its cells. Raises AssertionError for an element that nobody closes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements, self.cells, self.titles = list[str](), list[str](), list[str]()
        self._open = list[str]()
        self.feed(page)
        assert [] == self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not [name for name, value in attrs if name.startswith("on") or "http" in (value or "")]
        self.elements.append(tag)
        if tag not in ("meta", "line", "circle", "path", "rect"):
            self._open.append(tag)
        for place, at in ((self.cells, "td"), (self.titles, "title")):
            if tag == at:
                place.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert tag == self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["td"]:
            self.cells[-1] += data
        if self._open[-1:] == ["title"]:
            self.titles[-1] += data


async def test_the_page_has_every_moment_as_text_and_as_a_mark_and_runs_nothing() -> None:
    world = WhyWorld()
    await a_course(world)
    moments = (await values(world, "pod/web"))["moments"]
    _, page = await world.timeline("pod/web", output="html")
    read = Reader(page)
    assert not {"script", "link", "img", "iframe", "object", "a"} & set(read.elements)
    assert len(moments) == read.elements.count("circle") + read.elements.count("path")
    said = [visible(one["what"]) for one in moments]
    assert [] == [what for what in said if what not in read.cells]
    assert [] == [what for what in said if not any(title.endswith(what) for title in read.titles)]
    assert "42s: unknown whose move" in read.cells
    assert "<script>alert('hi')</script>" in " ".join(read.cells), "as text"
    assert "\x1b" not in page


async def test_the_names_of_objects_and_managers_are_escaped_too() -> None:
    lane = Lane("<b>", "pv", "</title><script>", "u")
    moment = Moment(EPOCH_S, "<b>", Source.CREATED, "<i>", "<script>")
    unseen = (Unseen("<u>", "<s>"),)
    hostile = Timeline("<script>", EPOCH_S, (lane,), (moment,), (), unseen)
    assert {"script", "b", "i", "u", "s"}.isdisjoint(Reader(as_page(hostile)).elements)
    assert "h1" in Reader(as_page(Timeline("pv x", EPOCH_S, (), (), ()))).elements


def test_a_longer_wait_is_wider_and_all_stand_in_order() -> None:
    moments = tuple(a_moment(seconds, PVC, Source.WROTE, "w") for seconds in (0, 0, 60, 86400))
    places = places_of(Timeline("pvc one", EPOCH_S, (PVC,), moments, gaps_of(moments, 100000)))
    steps = [after - before for before, after in pairwise(places)]
    assert STEP == steps[0] < steps[1] < steps[2] < 1000


async def test_yaml_says_what_json_says_and_gap_moves_the_bound() -> None:
    world = WhyWorld()
    await a_course(world)
    await world.clock.sleep(3)
    await world.tell(await world.create(a_pod("other", "claim")), "Odd", "late")
    found = await values(world, "pvc/claim")
    assert found == yaml.safe_load((await world.timeline("pvc/claim", output="yaml"))[1])
    assert [42.0] == [one["seconds"] for one in found["gaps"]]
    assert [42.0, 3.0] == [one["seconds"] for one in (await values(world, "pvc/claim", gap=1.0))["gaps"]]


async def test_what_an_object_had_before_its_first_apply_is_nobodys_moment_and_nobody_is_waited_for() -> None:
    """As on the embedded server: created by kubectl create, and applied on the server's side a while later."""
    at = "2026-01-01T00:00:07Z"
    fields = {"f:spec": {"f:resources": {}}, "f:status": {"f:phase": {}}}
    entries = [{"manager": "before-first-apply", "time": at, "fieldsV1": fields}]
    entries.append({"manager": "kubectl", "time": at, "fieldsV1": {"f:spec": {"f:accessModes": {}}}})
    obj = traced({"metadata": {"name": "data", "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": entries}})
    moments = list(written(Lane("pvc", "pvc", "default/data", "uid"), obj))
    assert [("created it", ""), ("wrote spec.accessModes", "kubectl")] == [(one.what, one.who) for one in moments]
    assert "" == owner_of(obj, "f:status", "f:phase")
    assert ["kubectl"] == [gap.who for gap in gaps_of(moments, 5.0)]


ATTACH_S = "AttachVolume.Attach failed: timed out waiting for external-attacher of csi.test CSI driver"


@each_row(
    ("end", "who", "is_open"),
    [
        (Moment(300.0, "va", Source.WROTE, "wrote status.attached", "csi-attacher"), "csi-attacher", False),
        (Moment(300.0, "pod", Source.DELETED, "asked for its end", "kubectl-delete"), "", False),
        (Moment(300.0, "pod", Source.EVENT, "said FailedMount", "kubelet", is_bad=True, is_repeat=True), "", True),
    ],
)
def test_who_complains_of_a_wait_is_not_who_had_to_move(end: Moment, who: str, is_open: bool) -> None:
    """As a cluster of Go programs recorded it, with a csi-attacher that was stopped."""
    story = (
        Moment(0.0, "va", Source.CREATED, "created it", "kube-controller-manager"),
        Moment(15.0, "pod", Source.EVENT, ATTACH_S, "attachdetach-controller", is_bad=True),
        Moment(123.0, "pod", Source.EVENT, "said FailedMount: timed out", "kubelet", is_bad=True),
        end,
    )
    found = gaps_of(story, 5.0)
    assert [(15.0, who, is_open), (108.0, who, is_open), (177.0, who, is_open)] == [
        (one.seconds, one.who, one.is_open) for one in found
    ]


@each_row("reason", ["ExternalProvisioning", "WaitForFirstConsumer"])
def test_who_tells_for_what_it_waits_is_not_who_had_to_move(reason: str) -> None:
    story = (
        Moment(0.0, "pvc", Source.CREATED, "created it", "kubectl"),
        Moment(9.0, "pvc", Source.EVENT, "said it waits", "persistentvolume-controller", reason=reason),
        Moment(40.0, "pv", Source.CREATED, "created it", "csi-provisioner"),
    )
    assert 2 * ["csi-provisioner"] == [one.who for one in gaps_of(story, 5.0)]


async def test_a_wait_that_nobody_has_ended_is_named_as_why_names_it() -> None:
    world = WhyWorld()
    pod = await world.bound()
    await world.create(an_attached_va(VA, "pv", "n1", status={"attached": False}))
    await world.create(a_lease("external-attacher-leader-csi-test", renewTime=rfc3339_micro(EPOCH_S)))
    await world.clock.sleep(120)
    await world.tell(pod, "FailedMount", "timed out waiting for the condition")
    (gap,) = (await values(world, "pod/web"))["gaps"]
    assert (120.0, "whoever runs the driver csi.test") == (gap["seconds"], gap["waitsFor"])


@each_row(
    ("component", "program"),
    [
        ("csi.test_csi-driver-0_5e0d6d0c-6a0b-4f0e-9d0b-1c2d3e4f5a6b", "csi-provisioner"),
        ("rancher.io/local-path_local-path-provisioner-7d_5e0d6d0c", "rancher.io/local-path"),
        ("external-resizer csi.test", "csi-resizer"),
        ("csi-snapshotter csi.test", "csi-snapshotter"),
        ("persistentvolume-controller", "persistentvolume-controller"),
        ("my_controller", "my_controller"),
    ],
)
def test_a_program_has_its_own_name_whatever_its_events_call_it(component: str, program: str) -> None:
    event = SeenEvent(ObjectMeta(name="e"), reason="R", first_timestamp=at(1), source=EventSource(component=component))
    assert [program] == [one.who for one in told(PVC, [event])]


@each_row("width", [40, 57, 80, 132])
def test_nothing_is_cut_at_the_edge_of_a_terminal(width: int) -> None:
    """A wait, a lane and a message have words that are longer than a line, and an author has a long name."""
    lanes = (
        Lane("va", "volumeattachment", "csi-" + 64 * "5", "u"),
        Lane("pvc 10", "pvc", "a-namespace/data", "v"),
    )
    author = "the-controller-of-somebody-with-a-long-name"
    moments = (
        Moment(0.0, "va", Source.CREATED, "created " + 99 * "x", "csi-attacher"),
        Moment(99999.0, "pvc 10", Source.WROTE, "wrote status", author),
    )
    line = Timeline("volumeattachment csi-" + 64 * "5", 1e5, lanes, moments, gaps_of(moments, 5.0))
    text = as_text(line, width)
    assert [] == [row for row in text.splitlines() if len(row) > width]
    words = (99 * "x", 64 * "5", author, f"waitsfor{author}", "wrotestatus")
    assert [] == [word for word in words if word not in "".join(text.split())]
    page = as_page(line)
    assert f"27h46m39s: waits for {author}</text>" in page
    (width_px,) = re.findall(r'<svg width="(\d+)"', page)
    (tick,) = re.findall(r'<text class="tick" x="(\d+)" y="\d+">\+27h', page)
    assert int(tick) + LETTER * len("+27h46m39s") <= int(width_px)


@each_row(
    ("after", "who"),
    [
        (Moment(9.0, "pod", Source.EVENT, "said it", "attachdetach-controller", reason="SuccessfulAttachVolume"), ""),
        (Moment(9.0, "pvc", Source.WROTE, "wrote spec", "mooring"), ""),
        (Moment(9.0, "pvc", Source.WROTE, "wrote spec", "csi-attacher"), "csi-attacher"),
    ],
)
def test_a_wait_has_the_name_of_whoever_moved_and_not_of_whoever_told(after: Moment, who: str) -> None:
    (gap,) = gaps_of([Moment(1.0, "va", Source.CREATED, "created it", "x"), after], 5.0)
    assert who == gap.who
