"""Pods' own in-tree volumes as their CSI drivers see them, held to what the real csi-translation-lib makes of the same
volumes (27 A1).

data/translated-inline.json is the output of hack/translation-oracle (k8s.io/csi-translation-lib 0.36) on
data/in-tree-inline.json: `cd hack/translation-oracle && go run . inline <
../../tests/unit/api/data/in-tree-inline.json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.api.core import CSIPersistentVolumeSource, PersistentVolume
from mooring.api.inline_volumes import inline_volumes_of, translated_inline
from mooring.api.migration import TranslationError, csi_driver_of, is_migratable
from mooring.api.pods import FOREIGN_SOURCES, Pod, Volume
from tests.support.builders import a_pod
from tests.support.rows import each_row

DATA = Path(__file__).parent / "data"
OWN: list[dict[str, Any]] = json.loads((DATA / "in-tree-inline.json").read_text())
ANSWERS: list[dict[str, Any]] = json.loads((DATA / "translated-inline.json").read_text())


@each_row(("own", "answer"), list(zip(OWN, ANSWERS, strict=True)), ids=range(len(OWN)))
def test_translation_agrees_with_the_real_library(own: dict[str, Any], answer: dict[str, Any]) -> None:
    volume = msgspec.convert(own["volume"], Volume)
    if "error" not in answer:
        expected = msgspec.convert(answer["volume"], PersistentVolume)
        found = translated_inline(volume, own["namespace"])
        assert (expected.metadata.name, expected.spec.access_modes, "Filesystem") == (
            found.metadata.name,
            found.spec.access_modes,
            found.spec.volume_mode,
        )
        assert _source(expected) == _source(found)
        assert csi_driver_of(volume) == _source(found).driver
    elif is_migratable(volume):
        with pytest.raises(TranslationError):
            translated_inline(volume, own["namespace"])
    else:
        assert "nfs" in own["volume"]


def _source(pv: PersistentVolume) -> CSIPersistentVolumeSource:
    """No attributes are as good as an empty map of them."""
    assert pv.spec.csi is not None
    return msgspec.structs.replace(pv.spec.csi, volume_attributes=pv.spec.csi.volume_attributes or None)


def test_the_corpus_has_every_source() -> None:
    assert 8 == len({field for own in OWN for field in own["volume"]} - {"name"})


def test_a_vsphere_volume_keeps_its_policy() -> None:
    """The real library reads it from an object that is not there, and ends."""
    own = msgspec.convert({"name": "v", "vsphereVolume": {"volumePath": "p", "storagePolicyName": "gold"}}, Volume)
    assert {"storagepolicyname": "gold"} == _source(translated_inline(own, "default")).volume_attributes


def test_of_a_pod_what_can_not_be_translated_is_left_out() -> None:
    wrong = {"name": "wrong", "azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Dedicated"}}
    good = {"name": "good", "cinder": {"volumeID": "c0ffee"}}
    pod = msgspec.convert(a_pod("p", "claim", volumes=[wrong, good, {"name": "scratch", "emptyDir": {}}]), Pod)
    assert ["cinder.csi.openstack.org-c0ffee"] == [pv.metadata.name for pv in inline_volumes_of(pod)]


@each_row("name", sorted(FOREIGN_SOURCES.values()))
def test_a_source_that_nobody_took_over_is_known_as_such(name: str) -> None:
    volume = msgspec.convert({"name": "v", name: {"server": "s"}}, Volume)
    assert [name] == [wire for field, wire in FOREIGN_SOURCES.items() if getattr(volume, field) is not None]
    assert not is_migratable(volume)


def test_of_one_pod_they_are_translated_once_and_of_an_equal_one_apart() -> None:
    """The namespace is in the handle of some."""
    share = {"name": "share", "azureFile": {"secretName": "s", "shareName": "f"}}
    pod = msgspec.convert(a_pod("p", volumes=[share]), Pod)
    assert inline_volumes_of(pod) is inline_volumes_of(pod)
    other = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, namespace="other"))
    assert [("file.csi.azure.com", "#s#f#share#other")] == list(inline_volumes_of(other).by_handle)
