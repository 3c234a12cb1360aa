"""What caches keep of objects."""

import dataclasses

import msgspec
import pytest

from mooring.api.core import CSIPersistentVolumeSource, PersistentVolume, PersistentVolumeSpec
from mooring.api.meta import ObjectMeta
from mooring.api.pods import Container, Pod, PodSpec, VolumeMount
from mooring.api.storage import CSINode, CSINodeDriver, CSINodeSpec
from mooring.control.slim import NAME_ONLY, WHOLE, Pruner, always, changed, check, items, only, slim, slimmed

PV = PersistentVolume(
    metadata=ObjectMeta(
        name="pv",
        uid="u",
        resource_version="7",
        deletion_timestamp="2026-01-01T00:00:00Z",
        finalizers=("f",),
        labels={"zone": "a", "team": "x"},
        annotations={"note": "1"},
    ),
    spec=PersistentVolumeSpec(
        csi=CSIPersistentVolumeSource(driver="d", volume_handle="h"),
        storage_class_name="fast",
        access_modes=("ReadWriteOnce",),
    ),
)


def test_a_mask_keeps_the_identity_and_what_it_names():
    kept = slim(metadata=slim("finalizers", labels=only("zone")), spec=slim("csi")).of(PV)
    meta = ObjectMeta(name="pv", uid="u", resource_version="7", finalizers=("f",), labels={"zone": "a"})
    assert PersistentVolume(metadata=meta, spec=PersistentVolumeSpec(csi=PV.spec.csi)) == kept


def test_fields_that_are_not_kept_take_no_memory():
    kept = slim(metadata=slim(), spec=slim("csi")).of(PV)
    assert ("name", "namespace", "uid", "resource_version") == kept.metadata.__struct_fields__
    assert ("csi",) == kept.spec.__struct_fields__
    assert ("", None, None) == (kept.spec.storage_class_name, kept.metadata.labels, kept.metadata.deletion_timestamp)
    assert kept.spec.__sizeof__() < PV.spec.__sizeof__() / 3


def test_what_is_said_of_the_type_holds_with_fewer_fields():
    kept = slim(metadata=slim(), spec=slim("csi")).of(PV)
    assert (ObjectMeta.unique_fields, True) == (kept.metadata.unique_fields, kept.metadata.is_unique)
    assert PersistentVolume.referred_to_by == kept.referred_to_by == {"name"}


def test_an_object_with_fewer_fields_compares_and_is_written_like_one_with_all():
    kept, whole = (
        slim(metadata=slim("labels")).of(PV),
        PersistentVolume(msgspec.structs.replace(PV.metadata, finalizers=None)),
    )
    assert kept != whole
    assert whole != kept
    same = PersistentVolume(ObjectMeta(name="pv", uid="u", resource_version="7", labels=PV.metadata.labels))
    assert same == kept == slim(metadata=slim("labels", "annotations"), status=slim("phase")).of(same)
    assert kept != PV.metadata
    assert isinstance(kept, PersistentVolume)
    assert not isinstance(kept, CSINode)
    assert msgspec.to_builtins(same) == msgspec.to_builtins(kept)
    assert repr(kept.metadata).startswith("ObjectMeta(name='pv'")


def test_the_choice_of_other_fields_is_no_change():
    one = PersistentVolume(ObjectMeta(name="pv", uid="u", resource_version="7"))
    later = msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, resource_version="8"))
    assert not changed(slim(metadata=slim()).of(one), slim(metadata=slim("labels"), spec=slim("csi")).of(later))
    assert changed(slim(metadata=slim()).of(one), slim(metadata=slim("labels")).of(PV))


def test_a_part_of_a_part_may_be_taken():
    """A reader of a shared cache gets its own part of what the cache keeps for all."""
    both = slim(metadata=slim("labels", "finalizers"), spec=slim("csi")).of(PV)
    assert slim(metadata=slim("labels")).of(PV) == slim(metadata=slim("labels")).of(both)
    assert PersistentVolumeSpec(csi=PV.spec.csi) == slimmed(metadata=slim()).of(both).spec


def test_methods_stay():
    used = (
        slim(spec=slim("containers"), metadata=slim())
        .of(Pod(ObjectMeta(), PodSpec((Container(volume_mounts=(VolumeMount("data"),)),))))
        .spec
    )
    assert (frozenset({"data"}), frozenset()) == used.used


def test_entries_of_which_none_is_there_are_no_mapping():
    assert slim(metadata=slim(labels=only("rack"))).of(PV).metadata.labels is None
    assert slim(metadata=slim(labels=only("rack"))).of(PersistentVolume(metadata=ObjectMeta())).metadata.labels is None


def test_two_readers_get_what_both_need():
    one = slim(metadata=slim("finalizers", labels=only("zone")), spec=slim("csi"))
    other = slim(metadata=slim("annotations", labels=only("team")), spec=slim("storage_class_name"))
    assert (
        slim(
            metadata=slim("finalizers", "annotations", labels=only("zone", "team")),
            spec=slim("csi", "storage_class_name"),
        )
        == one | other
    )
    assert one | other == other | one
    assert WHOLE == one | WHOLE
    assert WHOLE == WHOLE | one
    assert slim("spec", metadata=slim()) == slim("spec", metadata=slim()) | slim(spec=slim("csi"))


def test_a_mask_may_keep_all_but_parts_of_some_fields():
    bare = slimmed(metadata=slim("labels"))
    kept = bare.of(PV)
    assert PersistentVolume(metadata=kept.metadata, spec=PV.spec) == kept
    assert (None, {"zone": "a", "team": "x"}) == (kept.metadata.finalizers, kept.metadata.labels)
    assert slimmed(metadata=slim("labels", "finalizers")) == bare | slim("status", metadata=slim("finalizers"))
    assert slimmed() == bare | slim("metadata")
    assert bare | slim(spec=slim("csi")) == slim(spec=slim("csi")) | bare == slimmed(metadata=slim("labels"))


@dataclasses.dataclass(frozen=True)
class OfDriver:
    name: str

    def __call__(self, driver: CSINodeDriver) -> bool:
        return driver.name == self.name


def test_items_of_one_test_join_and_those_of_two_keep_all():
    node = CSINode(
        metadata=ObjectMeta(name="n"), spec=CSINodeSpec(drivers=(CSINodeDriver(name="a"), CSINodeDriver(name="b")))
    )
    a, b = (slim(metadata=slim(), spec=slim(drivers=items(OfDriver(name)))) for name in "ab")
    assert ("a",) == tuple(driver.name for driver in (a | a).of(node).spec.drivers)
    assert ("a", "b") == tuple(driver.name for driver in (a | b).of(node).spec.drivers)


def test_an_object_is_left_out_when_no_reader_wants_it():
    prune = Pruner((lambda pv: NAME_ONLY if pv.metadata.name == "pv" else None, lambda pv: None))
    assert PersistentVolume(metadata=ObjectMeta(name="pv", uid="u", resource_version="7")) == prune(PV)
    assert prune(PersistentVolume(metadata=ObjectMeta(name="other"))) is None


def test_the_wish_of_one_reader_for_everything_wins():
    assert Pruner((always(NAME_ONLY), always(WHOLE)))(PV) == PV


def test_a_mask_of_a_misspelt_field_is_found():
    check(slim("spec", metadata=slim()), PersistentVolume)
    with pytest.raises(AssertionError, match="PersistentVolume has no field spce"):
        check(slim("spce"), PersistentVolume)
