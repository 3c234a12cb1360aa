"""When the finalizer leaves a data source: rows of (view, decision)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from mooring.api.meta import ObjectMeta
from mooring.api.snapshot import GROUP, VolumeSnapshot
from mooring.control.decision import Decision
from mooring.control.slim import check
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.kube.cache.store import Store
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.model.cached import CLAIM_INDEXES, FOR_CLAIMS, SNAPSHOT, Source
from mooring.sidecars.provisioner.source_protection import reasons as why
from mooring.sidecars.provisioner.source_protection.decide import Action, LookUp, NoteUnused, TakeOff, decide_origin
from mooring.sidecars.provisioner.source_protection.view import View, origin_of
from tests.support.builders import a_claim, a_pv, a_snapshot, typed
from tests.support.rows import each_row

SNAPSHOT_SOURCE = Source("VolumeSnapshot", GROUP, "ns", "source")
CLAIM_SOURCE = Source("PersistentVolumeClaim", "", "ns", "source")
OF_SNAPSHOT = {"apiGroup": GROUP, "kind": "VolumeSnapshot", "name": "source"}
OF_CLAIM = {"kind": "PersistentVolumeClaim", "name": "source"}
GRACE_S, NOW = 300.0, 1000.0
LONG_AGO = NOW - GRACE_S
FREED: Decision[Action] = Decision(why.Unused(), (TakeOff(),), done="took the finalizer off")
OLD_FREED: Decision[Action] = Decision(why.Unused(), (NoteUnused(LONG_AGO), TakeOff()), done="took the finalizer off")
OURS = {"ours": {origin_of(SNAPSHOT_SOURCE)}}


def decided(
    source: Source,
    *objects: Mapping[str, Any],
    volume_of: str = "csi.test",
    clones: bool = True,
    unused_since: float | None = None,
    drivers: Mapping[str, str] | None = None,
    due: Collection[str] = (),
    **more: Any,
) -> Decision[Action]:
    """volume_of: the driver of the source claim's volume. due: uids of claims for which a volume is to be made now."""
    stores: dict[str, Store[Any]] = {
        "PersistentVolumeClaim": Store(CLAIM_INDEXES),
        "VolumeSnapshot": Store(),
        "PersistentVolume": Store(),
    }
    volume = a_pv(source={"csi": {"driver": volume_of, "volumeHandle": "h"}})
    for number, body in enumerate((*objects, volume), start=1):
        metadata = {"uid": f"uid{number}", "resourceVersion": str(number), **body["metadata"]}
        stores[body["kind"]].apply(typed({**body, "metadata": metadata}))
    memory = {"adopted": {}, "done": frozenset(), "ours": frozenset(), **more}
    view = View(
        driver=DriverCapabilities("csi.test", clones=clones),
        claims=stores["PersistentVolumeClaim"],
        volumes=stores["PersistentVolume"],
        snapshots=stores["VolumeSnapshot"],
        is_due=lambda claim: claim.metadata.uid in due,
        unused_since={} if unused_since is None else {origin_of(source): unused_since},
        grace_s=GRACE_S,
        **memory,
    )
    return decide_origin(view, origin_of(source), NOW, drivers or {})


def claim_in_ns(
    name: str = "source", finalizers: Iterable[str] = (), *, phase: str = "Pending", **more: Any
) -> dict[str, Any]:
    return a_claim(
        name, finalizers=list(finalizers), status={"phase": phase}, **{"namespace": "ns", "uid": f"uid-{name}", **more}
    )


def source_snapshot(*finalizers: str, content: str | None = None) -> dict[str, Any]:
    return a_snapshot("source", content=content, namespace="ns", finalizers=list(finalizers))


def deleted_source(**spec: Any) -> dict[str, Any]:
    return claim_in_ns("source", [names.CLONE_FINALIZER], deleting=True, phase="Bound", **spec)


# -- clones


@each_row(
    ("objects", "more", "expected"),
    [
        ([], {}, Decision(why.NotProtected())),
        ([claim_in_ns(deleting=True)], {}, Decision(why.NotProtected())),
        ([claim_in_ns("source", [names.CLONE_FINALIZER])], {}, Decision(why.NotDeleted())),
        ([deleted_source()], {}, FREED),
        ([deleted_source()], {"clones": False}, Decision(why.OfAnother())),
        ([deleted_source(volumeName="pv")], {}, FREED),
        ([deleted_source(volumeName="pv")], {"volume_of": "other"}, Decision(why.OfAnother())),
        ([deleted_source(), claim_in_ns("c", dataSource=OF_CLAIM)], {}, Decision(why.InUse(("ns/c",)))),
        ([deleted_source(), claim_in_ns("c", dataSource=OF_CLAIM, phase="Bound")], {}, FREED),
        ([deleted_source()], {"adopted": {origin_of(CLAIM_SOURCE): {"gone"}}}, Decision(why.InUse(("gone",)))),
    ],
    ids=[
        "gone",
        "bare",
        "not deleted",
        "unused",
        "no clones",
        "our volume",
        "other driver",
        "waited for",
        "bound",
        "in the making",
    ],
)
def test_P61_a_claim_keeps_the_finalizer_while_it_is_cloned(
    objects: list[dict[str, Any]], more: dict[str, Any], expected: Decision[Action]
):
    assert expected == decided(CLAIM_SOURCE, *objects, **more)


def test_P61_a_clone_of_another_namespaces_claim_counts_where_it_says_so():
    """`dataSource` is of the clone's own namespace, `dataSourceRef` may name another. The peer looks at the former
    alone.
    """
    namesake = claim_in_ns("namesake", namespace="elsewhere", dataSource=OF_CLAIM)
    far = claim_in_ns("far", namespace="elsewhere", dataSourceRef={**OF_CLAIM, "namespace": "ns"})
    assert (TakeOff(),) == decided(CLAIM_SOURCE, deleted_source(), namesake).actions
    assert why.InUse(("elsewhere/far",)) == decided(CLAIM_SOURCE, deleted_source(), namesake, far).because


# -- snapshots


@each_row(
    ("objects", "more", "expected"),
    [
        ([source_snapshot()], {}, Decision(why.NotProtected())),
        ([source_snapshot()], OURS, FREED),
        ([], OURS, FREED),
        (
            [source_snapshot(), claim_in_ns("c", dataSource=OF_SNAPSHOT)],
            {**OURS, "due": {"uid-c"}},
            Decision(why.InUse(("ns/c",))),
        ),
        ([source_snapshot(), claim_in_ns("c", dataSource=OF_SNAPSHOT)], OURS, FREED),
        (
            [source_snapshot(), claim_in_ns("c", dataSource=OF_SNAPSHOT)],
            {**OURS, "done": {"uid-c"}},
            FREED,
        ),
        ([source_snapshot()], {**OURS, "adopted": {origin_of(SNAPSHOT_SOURCE): {"u"}}}, Decision(why.InUse(("u",)))),
    ],
    ids=["not protected", "unused", "not seen yet", "waited for", "waits for a node", "made", "in the making"],
)
def test_P50_a_snapshot_keeps_our_finalizer_until_its_last_volume_is_made(
    objects: list[dict[str, Any]], more: dict[str, Any], expected: Decision[Action]
):
    assert expected == decided(SNAPSHOT_SOURCE, *objects, **more)


STRAY = source_snapshot(names.SNAPSHOT_FINALIZER, content="content")
NO_CONTENT = source_snapshot(names.SNAPSHOT_FINALIZER)


@each_row(
    ("snapshot", "more", "expected"),
    [
        (STRAY, {}, Decision(why.Stray(GRACE_S), (NoteUnused(NOW),), after_s=GRACE_S)),
        (STRAY, {"unused_since": NOW - 1}, Decision(why.Stray(GRACE_S), (NoteUnused(NOW - 1),), after_s=GRACE_S - 1)),
        (
            STRAY,
            {"unused_since": LONG_AGO},
            Decision(why.LookingUp("content"), (NoteUnused(LONG_AGO), LookUp("content")), again=True),
        ),
        (
            STRAY,
            {"unused_since": LONG_AGO, "drivers": {"content": "other"}},
            Decision(why.OfAnother(), (NoteUnused(LONG_AGO),)),
        ),
        (
            STRAY,
            {"unused_since": LONG_AGO, "drivers": {"content": "csi.test"}},
            OLD_FREED,
        ),
        (
            STRAY,
            {"unused_since": LONG_AGO, "drivers": {"content": ""}},
            OLD_FREED,
        ),
        (NO_CONTENT, {"unused_since": LONG_AGO}, OLD_FREED),
    ],
    ids=["found", "waited a while", "whose is it", "other driver", "our driver", "no such content", "no content"],
)
def test_P53_a_stray_finalizer_goes_after_an_interval(
    snapshot: dict[str, Any], more: dict[str, Any], expected: Decision[Action]
):
    assert expected == decided(SNAPSHOT_SOURCE, snapshot, **more)


def test_P53_a_snapshot_that_somebody_needs_begins_a_new_interval():
    assert Decision(why.InUse(("ns/c",))) == decided(
        SNAPSHOT_SOURCE,
        STRAY,
        claim_in_ns("c", dataSource=OF_SNAPSHOT),
        unused_since=LONG_AGO,
        drivers={"content": "csi.test"},
    )


def test_P50_the_masks_name_fields_that_are_there():
    for mask in (SNAPSHOT, FOR_CLAIMS):
        check(mask, VolumeSnapshot)
        check(mask.part("metadata"), ObjectMeta)


def test_P53_reasons_are_told_in_words():
    reasons = (
        why.NotProtected(),
        why.OfAnother(),
        why.NotDeleted(),
        why.Unused(),
        why.Stray(1.0),
        why.LookingUp("content"),
    )
    assert all(" " in str(reason) for reason in reasons)
    assert "volumes are being made from it, for a, b, c and others" == str(why.InUse(("a", "b", "c", "d")))
