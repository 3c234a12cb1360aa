"""Which capacity objects there are to be, and when one is written: rows of (view, decision)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from mooring.api.meta import OwnerReference
from mooring.api.storage import CSIStorageCapacity, StorageClass
from mooring.control.decision import Decision
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.provisioner.capacity import reasons as why
from mooring.sidecars.provisioner.capacity.decide import (
    Action,
    Ask,
    Create,
    Remove,
    Update,
    decide_item,
    decide_write,
    is_news,
)
from mooring.sidecars.provisioner.capacity.view import CAPACITY_INDEXES, Capacity, Item, View
from mooring.sidecars.provisioner.model.topology import Segment
from tests.support.builders import WFFC, a_capacity, a_class, typed
from tests.support.rows import each_row
from tests.support.stores import store_of

HERE: Segment = (("zone", "a"),)
ITEM = Item("one", HERE)
OWNER = OwnerReference("apps/v1", "ReplicaSet", "rs", "uid-rs", controller=True)


def class_with(binding: str = WFFC, driver: str = "csi.test", **more: Any) -> StorageClass:
    return typed(a_class("one", provisioner=driver, volumeBindingMode=binding, **more))


def an_object(
    name: str = "csisc-1", value: str = "1Gi", *, owner: OwnerReference | None = None, **more: Any
) -> CSIStorageCapacity:
    owners = [msgspec.to_builtins(owner)] if owner else None
    metadata = {"namespace": "ns", "uid": f"uid-{name}", "resourceVersion": "1", "ownerReferences": owners}
    body = a_capacity(name, None, value, "one", **{"nodeTopology": {"matchLabels": dict(HERE)}, **metadata, **more})
    return typed(body)


FIRST, SECOND = an_object("csisc-1"), an_object("csisc-2", "2Gi")


def a_view(
    objects: Iterable[CSIStorageCapacity] = (),
    storage_class: StorageClass | None = None,
    *,
    places: tuple[Segment, ...] = (HERE,),
    **more: Any,
) -> View:
    classes = store_of(*([] if storage_class is None else [storage_class]))
    stored = store_of(*objects, indexes=CAPACITY_INDEXES)
    return View(driver_name="csi.test", classes=classes, objects=stored, has_segment=places.__contains__, **more)


def asks(**parameters: str) -> csi.GetCapacityRequest:
    return csi.GetCapacityRequest(parameters=parameters, accessible_topology=csi.Topology(segments=dict(HERE)))


def test_P82_the_driver_is_asked_with_the_class_and_the_place():
    assert Decision(why.Asked(), (Ask(asks(a="b")),)) == decide_item(
        a_view((), class_with(parameters={"a": "b"})), ITEM
    )
    [everywhere] = decide_item(a_view((), class_with(), places=((),)), Item("one", ())).actions
    assert isinstance(everywhere, Ask)
    assert everywhere.request.HasField("accessible_topology")


def test_P84_of_several_objects_that_say_the_same_the_first_stays():
    assert Decision(why.Asked(), (Remove(SECOND), Ask(asks()))) == decide_item(
        a_view((FIRST, SECOND), class_with()), ITEM
    )


@each_row(
    ("storage_class", "more"),
    [
        pytest.param(None, {}, id="P84-no-class"),
        pytest.param(class_with(driver="other"), {}, id="P84-other-driver"),
        pytest.param(class_with("Immediate"), {}, id="P86-immediate"),
        pytest.param(class_with(), {"places": ()}, id="P87-no-node"),
    ],
)
def test_what_is_not_wanted_is_removed_before_and_after_the_question(
    storage_class: StorageClass | None, more: dict[str, Any]
):
    expected: Decision[Action] = Decision(why.Obsolete(), (Remove(FIRST), Remove(SECOND)))
    view = a_view((FIRST, SECOND), storage_class, **more)
    assert expected == decide_item(view, ITEM)
    assert expected == decide_write(view, ITEM, Capacity("1Gi"))


def test_P86_a_class_with_immediate_binding_counts_with_the_flag():
    assert (Ask(asks()),) == decide_item(a_view((), class_with("Immediate"), immediate_too=True), ITEM).actions


@each_row(
    ("objects", "owner", "capacity", "expected"),
    [
        pytest.param((), None, Capacity("1Gi"), Decision(why.News("1Gi"), (Create(Capacity("1Gi")),)), id="P82-new"),
        pytest.param((FIRST,), None, Capacity("1Gi"), Decision(why.UpToDate()), id="P82-second-run"),
        pytest.param((FIRST,), None, Capacity("1073741824"), Decision(why.UpToDate()), id="P83-written-differently"),
        pytest.param(
            (FIRST,),
            None,
            Capacity("2Gi"),
            Decision(why.News("2Gi"), (Update(FIRST, Capacity("2Gi")),)),
            id="P83-changed",
        ),
        pytest.param(
            (FIRST,),
            None,
            Capacity("1Gi", "1Gi"),
            Decision(why.News("1Gi"), (Update(FIRST, Capacity("1Gi", "1Gi")),)),
            id="P83-largest-volume",
        ),
        pytest.param(
            (FIRST,),
            OWNER,
            Capacity("1Gi"),
            Decision(why.News("1Gi"), (Update(FIRST, Capacity("1Gi")),)),
            id="P84-adopted",
        ),
        pytest.param((an_object(owner=OWNER),), OWNER, Capacity("1Gi"), Decision(why.UpToDate()), id="P84-owned"),
    ],
)
def test_what_the_drivers_answer_leads_to(
    objects: tuple[CSIStorageCapacity, ...],
    owner: OwnerReference | None,
    capacity: Capacity,
    expected: Decision[Action],
):
    assert expected == decide_write(a_view(objects, class_with(), owner=owner), ITEM, capacity)


@each_row(
    ("objects", "storage_class", "written", "expected"),
    [
        ((FIRST,), class_with(), {ITEM: Capacity("1Gi")}, False),
        ((FIRST,), class_with(), {ITEM: Capacity("2Gi")}, True),
        ((FIRST, SECOND), class_with(), {ITEM: Capacity("1Gi")}, True),
        ((FIRST,), class_with(), {}, True),
        ((FIRST,), None, {}, True),
        ((), class_with(), {ITEM: Capacity("1Gi")}, True),
        ((), None, {}, False),
    ],
    ids=["as written", "changed", "another beside it", "not ours", "obsolete", "deleted", "deleted and obsolete"],
)
def test_P84_only_what_others_do_is_news(
    objects: tuple[CSIStorageCapacity, ...],
    storage_class: StorageClass | None,
    written: dict[Item, Capacity],
    expected: bool,
):
    assert expected == is_news(a_view(objects, storage_class, written=written), ITEM)
