"""The kubelet's folders and names, and names that try to lead out of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from mooring.api.volume_names import attachment_name, unique_name
from mooring.node.layout import BadName, KubeletLayout, inline_unique_name, inline_volume_id
from tests.support.rows import each_row

R = Path("/var/lib/kubelet")
LAYOUT = KubeletLayout(R)
HEX = hashlib.sha256(b"h/1").hexdigest()


@each_row(
    ("path", "expected"),
    [
        (LAYOUT.registry, "plugins_registry"),
        (LAYOUT.staging("d", "h/1"), f"plugins/kubernetes.io/csi/d/{HEX}/globalmount"),
        (LAYOUT.target("u", "pv"), "pods/u/volumes/kubernetes.io~csi/pv/mount"),
        (LAYOUT.target("u", "a/b"), "pods/u/volumes/kubernetes.io~csi/a~b/mount"),
        (LAYOUT.block_map("pv"), "plugins/kubernetes.io/csi/volumeDevices/pv/dev"),
        (LAYOUT.block_record_folder("pv"), "plugins/kubernetes.io/csi/volumeDevices/pv/data"),
        (LAYOUT.block_staging("pv"), "plugins/kubernetes.io/csi/volumeDevices/staging/pv"),
        (LAYOUT.block_publish("pv", "u"), "plugins/kubernetes.io/csi/volumeDevices/publish/pv/u"),
        (LAYOUT.block_link("u", "pv"), "pods/u/volumeDevices/kubernetes.io~csi/pv"),
    ],
)
def test_folders_are_the_kubelets(path: Path, expected: str) -> None:
    assert R / expected == path


def test_names_are_the_kubelets() -> None:
    assert "csi-" + hashlib.sha256(b"hdn").hexdigest() == attachment_name("d", "h", "n")
    assert "csi-" + hashlib.sha256(b"uv").hexdigest() == inline_volume_id("u", "v")
    assert "kubernetes.io/csi/d^h^1" == unique_name("d", "h^1")
    assert "kubernetes.io/csi/u-v" == inline_unique_name("u", "v")


HOSTILE = {
    "empty": "",
    "here": ".",
    "up": "..",
    "slash": "a/b",
    "out": "../../etc",
    "nul": "a\0b",
    "long": "a" * 300,
    "wide": "ä" * 128,
}
PLACES: dict[str, Callable[[str], Path]] = {
    "staging": lambda name: LAYOUT.staging(name, "h"),
    "pod": LAYOUT.pod,
    "target": lambda name: LAYOUT.target(name, "pv"),
    "block_staging": LAYOUT.block_staging,
    "block_publish": lambda name: LAYOUT.block_publish("pv", name),
    "block_link": lambda name: LAYOUT.block_link("u", name),
}


@each_row("name", HOSTILE.values(), ids=HOSTILE.keys())
@each_row("place", PLACES.values(), ids=PLACES.keys())
def test_a_name_that_is_no_folders_is_refused(place: Callable[[str], Path], name: str) -> None:
    with pytest.raises(BadName):
        place(name)


@each_row("name", ["", ".", "..", "a\0b", "a" * 300])
def test_an_escaped_name_is_checked_too(name: str) -> None:
    with pytest.raises(BadName):
        LAYOUT.target("u", name)
    with pytest.raises(BadName):
        LAYOUT.block_volume(name)


@each_row("handle", ["", "..", "../../etc", "a\0b", "x" * 300, "☃\n"])
def test_a_handle_is_hashed_whatever_it_is(handle: str) -> None:
    assert 64 == len(LAYOUT.staging("d", handle).parent.name)


@each_row("name", ["ä☃", "...", "-", "a b", "a" * 255])
def test_an_odd_name_that_is_one_folders_is_taken(name: str) -> None:
    assert name == LAYOUT.pod(name).name
