"""What is sent to the driver: capability, access modes; and what is shown to users."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.base.text import shortened
from mooring.csi.volume_capability import AccessModeError, access_mode
from mooring.sidecars.attacher.decide import publish_order
from mooring.sidecars.attacher.requests import UnpublishOrder, is_single_node
from mooring.sidecars.attacher.view import ResolvedVolume, as_csi
from tests.support.builders import a_held_pv, typed
from tests.support.rows import each_row
from tests.unit.attacher.views import facts

ALL_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
RWOP_MIXED = "Kubernetes does not support use of ReadWriteOncePod with other access modes on the same PersistentVolume"
ROX_RWO = "CSI does not support ReadOnlyMany and ReadWriteOnce on the same PersistentVolume"


@each_row(
    ("modes", "plain", "multi_writer"),
    [
        (["ReadWriteOncePod", "ReadWriteMany"], RWOP_MIXED, RWOP_MIXED),
        (["ReadWriteOncePod", "ReadWriteOnce"], RWOP_MIXED, RWOP_MIXED),
        (["ReadWriteOncePod"], 1, 6),
        (["ReadWriteMany"], 5, 5),
        (["ReadWriteMany", "ReadWriteOnce", "ReadOnlyMany"], 5, 5),
        (["ReadOnlyMany", "ReadWriteOnce"], ROX_RWO, ROX_RWO),
        (["ReadOnlyMany"], 3, 3),
        (["ReadWriteOnce"], 1, 7),
        (["ReadWriteOnce", "ReadWriteOnce"], 1, 7),
        ([], "unsupported AccessMode combination: []", "unsupported AccessMode combination: []"),
        (
            ["Foo", "Bar"],
            "unsupported AccessMode combination: [Foo Bar]",
            "unsupported AccessMode combination: [Foo Bar]",
        ),
    ],
)
def test_AT31_the_access_mode_table(modes, plain, multi_writer):
    for capable, expected in ((False, plain), (True, multi_writer)):
        if isinstance(expected, int):
            assert expected == access_mode(modes, capable)
        else:
            with pytest.raises(AccessModeError) as caught:
                access_mode(modes, capable)
            assert expected == str(caught.value)


def test_every_set_of_modes_is_a_single_node_one_or_maps_to_several_nodes():
    for size in range(1, 5):
        for modes in itertools.combinations(ALL_MODES, size):
            try:
                mode = access_mode(modes, False)
            except AccessModeError:
                continue
            assert is_single_node(modes) is (mode == 1)


@each_row(
    ("csi", "spec", "expected"),
    [
        ({"fsType": "ext3"}, {}, {"fs_type": "ext3"}),
        ({}, {}, {"fs_type": "ext4"}),
        ({}, {"volumeMode": "Filesystem"}, {"fs_type": "ext4"}),
        ({}, {"mountOptions": ["a", "b"]}, {"fs_type": "ext4", "mount_flags": ["a", "b"]}),
        ({"fsType": "ext3"}, {"volumeMode": "Block", "mountOptions": ["a"]}, None),
    ],
    ids=["fsType", "default", "filesystem", "mountOptions", "block"],
)
def test_AT30_the_access_type(csi, spec, expected):
    volume = as_csi(typed(a_held_pv(spec=spec, **csi)))
    assert isinstance(volume, ResolvedVolume)
    made = publish_order(facts(), volume, "nodeID1", "ext4").capability
    if expected is None:
        assert "block" == made.WhichOneof("access_type")
        return
    assert (expected["fs_type"], expected.get("mount_flags", [])) == (made.mount.fs_type, list(made.mount.mount_flags))
    assert "" == made.mount.volume_mount_group


def test_an_unpublish_without_node_id_cannot_be_made():
    with pytest.raises(AssertionError):
        UnpublishOrder("handle1", "")


@given(st.text(max_size=2000), st.integers(10, 1100))
def test_shown_errors_fit_and_stay_valid(text, bytes_max):
    cut = shortened(text, bytes_max)
    raw = cut.encode()
    assert len(raw) <= bytes_max
    if len(text.encode(errors="replace")) <= bytes_max:
        assert text.encode(errors="replace") == raw
    else:
        assert cut.endswith("...")
        assert text.encode(errors="replace").decode().startswith(cut[:-3])
        assert len(raw) > bytes_max - 4
