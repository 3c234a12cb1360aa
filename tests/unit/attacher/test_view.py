"""What is kept of the objects, and which updates are worth a look."""

from __future__ import annotations

from typing import Any

from mooring.api.core import PersistentVolume
from mooring.api.names import sanitised
from mooring.api.storage import CSINode, VolumeAttachment
from mooring.control.slim import changed, check
from mooring.sidecars.attacher.controller import worth_a_look
from mooring.sidecars.attacher.view import VOLUME, keeps_of_attachment, keeps_of_volume, node_mask, volume_of
from tests.support.builders import DRIVER, FINALIZER, a_csi_node, a_held_pv, a_va, an_attached_va, typed
from tests.support.rows import each_row
from tests.unit.attacher.views import a_view, facts

ERROR = {"message": "m", "time": "2026-01-01T00:00:00Z"}


def versions(old: dict[str, Any], new: dict[str, Any], same: bool = False) -> bool:
    old["metadata"]["resourceVersion"] = "1"
    new["metadata"]["resourceVersion"] = "1" if same else "2"
    return worth_a_look(typed(old), typed(new))


@each_row("field", ["attachError", "detachError"])
@each_row("before", [{}, {"attachError": {**ERROR, "message": "older"}}], ids=["added", "changed"])
def test_AT33_an_update_that_only_tells_of_errors_is_ignored(field, before):
    assert not versions(a_va(status=before), a_va(status={**before, field: ERROR}))


def test_AT33_managed_fields_beside_errors_are_ignored():
    with_fields = a_va(status={"attachError": ERROR})
    with_fields["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    assert not versions(a_va(status={"attachError": ERROR}), with_fields)


def test_AT33_empty_and_absent_collections_are_equal():
    assert not versions(
        a_va(status={"attachError": ERROR}), a_va(finalizers=[], status={"attachError": {**ERROR, "message": "n"}})
    )


def test_AT34_an_unchanged_version_is_a_resync_and_is_processed():
    assert versions(a_va(status={"attachError": ERROR}), a_va(status={"attachError": ERROR}), same=True)


@each_row(
    "new",
    [
        a_va(status={"attachError": ERROR}, node="node2"),
        a_va(status={"attachError": ERROR}, annotations={"touched": "yes"}),
        a_va(status={"attachError": ERROR}, finalizers=["x/y"]),
        a_va(status={"attachError": ERROR}, deleting=True),
        a_va(status={"attached": True, "attachError": ERROR}),
    ],
    ids=["spec", "annotations", "finalizers", "deleted", "attached"],
)
def test_AT35_other_changes_are_processed_though_errors_are_present(new):
    assert versions(a_va(status={"attachError": ERROR}), new)


def test_AT02_updates_without_errors_are_processed():
    assert versions(a_va(), a_va())
    assert worth_a_look(None, typed(a_va()))


@each_row(
    ("name", "finalizer"),
    [("csi/test", "external-attacher/csi-test"), ("s!a@n#i$t(i%z^e&d*", "external-attacher/s-a-n-i-t-i-z-e-d-X")],
)
def test_finalizers_are_sanitised(name, finalizer):
    assert finalizer == a_view(driver=facts(name=name)).finalizer


@each_row(("text", "clean"), [("test!driver/foo", "test-driver-foo"), ("driver\\", "driver-X"), ("a.b.c", "a-b-c")])
def test_names_are_sanitised(text, clean):
    assert clean == sanitised(text)


def test_of_a_foreign_attachment_only_its_volume_is_kept():
    keeps = keeps_of_attachment(DRIVER)
    foreign = typed(an_attached_va(attacher="other"))
    check(keeps(foreign), VolumeAttachment)
    kept = keeps(foreign).of(foreign)
    assert (None, False, "pv1") == (kept.metadata.annotations, kept.status.attached, volume_of(kept))
    own = typed(an_attached_va())
    assert own is keeps(own).of(own)


def kept_of(pv: dict[str, Any]) -> PersistentVolume:
    struct = typed(pv)
    kept: PersistentVolume = keeps_of_volume(struct).of(struct)
    return kept


@each_row("source", [{"azureFile": {"shareName": "s", "secretName": "n"}}, {"gcePersistentDisk": {"pdName": "d"}}])
def test_the_claim_is_kept_where_translation_reads_its_namespace(source):
    pv = a_held_pv(source=source)
    pv["spec"]["claimRef"] = {"namespace": "ns", "name": "c"}
    assert ("azureFile" in source) == (kept_of(pv).spec.claim_ref is not None)


def test_of_a_volume_nothing_is_lost_that_is_read():
    check(VOLUME, PersistentVolume)
    pv = kept_of(a_held_pv(labels={"topology.kubernetes.io/zone": "z", "app": "x"}, annotations={"a": "b"}))
    assert ({"topology.kubernetes.io/zone": "z"}, None, (FINALIZER,)) == (
        pv.metadata.labels,
        pv.metadata.annotations,
        pv.metadata.finalizers,
    )


def test_another_drivers_registration_is_no_change():
    mask = node_mask(DRIVER)
    check(mask, CSINode)
    old = typed(a_csi_node())
    both = typed(a_csi_node(drivers={DRIVER: "nodeID1", "other": "x"}))
    moved = typed(a_csi_node(drivers={DRIVER: "nodeID2"}))
    assert mask.of(old) == mask.of(both)
    assert not changed(old, both, mask)
    assert changed(old, moved, mask)


def test_attachments_of_inline_volumes_are_indexed_by_handle():
    inline = {"csi": {"driver": DRIVER, "volumeHandle": "h"}}
    assert "inline h" == volume_of(typed(a_va(pv=None, inline=inline)))
    assert "" == volume_of(typed(a_va(pv=None)))
