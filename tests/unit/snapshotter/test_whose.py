"""Whose snapshot an answer is about, as a table: of the content's volume in another spelling, or of another volume."""

from __future__ import annotations

import pytest

from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.snapshotter.decide_after import is_alike, stranger
from tests.support.builders import typed
from tests.unit.snapshotter.situations import CUT, a_made_content, a_view

DISK = "projects/p1/zones/z1/disks/data"
ALIKE = (
    ("vol", "vol"),
    ("/subscriptions/S/resourceGroups/RG/disks/d1", "/subscriptions/s/resourcegroups/rg/disks/d1"),
    (DISK, "data"),
    (DISK, f"https://storage.example.com/v1/{DISK}"),
    (DISK, f"/{DISK}/"),
    ("projects/UNSPECIFIED/zones/UNSPECIFIED/disks/data", DISK),
    ("4b1f/10.0.0.1/scsi", "4b1f"),
    ("vol", ""),
)
STRANGE = (
    ("vol", "other-vol"),
    ("vol", "volume"),
    ("vol-1", "vol-2"),
    (DISK, "projects/p1/zones/z2/disks/data"),
    (DISK, "projects/p1/zones/z1/disks/other"),
    (DISK, "zones/z1"),
    ("projects/UNSPECIFIED/zones/UNSPECIFIED/disks/data", "projects/p1/zones/z1/disks/other"),
)


@pytest.mark.parametrize(("handle", "told"), ALIKE)
def test_other_letters_and_other_paths_are_spellings(handle: str, told: str):
    assert is_alike(handle, told)
    assert is_alike(told, handle)


@pytest.mark.parametrize(("handle", "told"), STRANGE)
def test_what_only_resembles_it_is_another_volume(handle: str, told: str):
    assert not is_alike(handle, told)
    assert not is_alike(told, handle)


def found(told: str, *others: dict[str, object], handle: str = "h") -> str:
    """What shows that the snapshot `h` is not of the volume `pool/vol`."""
    content = a_made_content(source={"volumeHandle": "pool/vol"})
    view = a_view(content, *others)
    return stranger(view, typed(content), csi.Snapshot(snapshot_id=handle, source_volume_id=told))


def other(volume: str, **more: object) -> dict[str, object]:
    return {**a_made_content(name="other", uid="other-uid", source={"volumeHandle": volume}, **more)}


def test_a_spelling_that_is_exactly_the_volume_of_another_content_is_that_volume():
    assert "" == found("POOL/VOL") == found("vol") == found("pool/vol", other("vol")) == found("", other("vol"))
    assert 'a snapshot of volume "vol"' == found("vol", other("vol"))
    assert 'a snapshot of volume "elsewhere"' == found("elsewhere")


@pytest.mark.parametrize("told", ["pool/vol", "POOL/VOL", ""])
def test_a_handle_that_another_content_has_of_another_volume_is_that_one(told: str):
    assert 'a snapshot of volume "elsewhere", as another content has it' == found(told, other("elsewhere", status=CUT))
    assert "" == found(told, other("elsewhere", status=CUT), handle="h2")


def test_an_import_is_of_no_volume():
    content = a_made_content(handle="h")
    assert "" == stranger(a_view(content), typed(content), csi.Snapshot(snapshot_id="h", source_volume_id="any"))
