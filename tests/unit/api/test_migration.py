"""In-tree volumes as their CSI drivers see them, held to what the real csi-translation-lib makes of the same volumes.

data/translated-volumes.json is the output of hack/translation-oracle (k8s.io/csi-translation-lib 0.36) on
data/in-tree-volumes.json: `cd hack/translation-oracle && go run . < ../../tests/unit/api/data/in-tree-volumes.json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.api.core import CSIPersistentVolumeSource
from mooring.api.migration import (
    TranslationError,
    driver_and_handle,
    driver_of,
    is_migratable,
    repaired_handle,
    translated,
)
from tests.support.builders import a_held_pv, typed
from tests.support.rows import each_row

DATA = Path(__file__).parent / "data"
VOLUMES: list[dict[str, Any]] = json.loads((DATA / "in-tree-volumes.json").read_text())
ANSWERS: list[dict[str, Any]] = json.loads((DATA / "translated-volumes.json").read_text())


@each_row(("volume", "answer"), list(zip(VOLUMES, ANSWERS, strict=True)), ids=range(len(VOLUMES)))
def test_translation_agrees_with_the_real_library(volume, answer):
    pv = typed(volume)
    assert is_migratable(pv.spec)
    if "error" in answer:
        with pytest.raises(TranslationError):
            translated(pv)
        return
    spec = translated(pv)
    assert msgspec.convert(answer["csi"], CSIPersistentVolumeSource) == spec.csi
    assert tuple(answer.get("accessModes", ())) == (spec.access_modes or ())
    assert not is_migratable(spec)


@each_row(("volume", "answer"), list(zip(VOLUMES, ANSWERS, strict=True)), ids=range(len(VOLUMES)))
def test_drivers_and_handles_agree_with_the_real_library(volume, answer):
    pv = typed(volume)
    found = driver_and_handle(pv)
    assert found == (("", "") if "error" in answer else (answer["csi"]["driver"], answer["csi"]["volumeHandle"]))
    assert driver_of(pv) == found[0] or ("error" in answer and driver_of(pv) != "")


def test_the_corpus_has_every_source_and_failures():
    sources = {field for volume in VOLUMES for field in volume["spec"] if field not in ("accessModes", "claimRef")}
    assert 7 == len(sources)
    assert 6 <= sum("error" in answer for answer in ANSWERS)


def test_a_csi_volume_is_not_migratable():
    pv = typed(a_held_pv())
    assert not is_migratable(pv.spec)
    assert pv.spec.csi is not None
    assert (pv.spec.csi.driver, pv.spec.csi.volume_handle) == driver_and_handle(pv)
    assert pv.spec.csi.driver == driver_of(pv)


GCE = "pd.csi.storage.gke.io"
NODE = "projects/p/zones/us-central1-a/instances/n"


@each_row(
    ("driver", "handle", "repaired"),
    [
        (GCE, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d", "projects/p/zones/us-central1-a/disks/d"),
        (GCE, "projects/UNSPECIFIED/zones/z/disks/d", "projects/p/zones/z/disks/d"),
        (GCE, "projects/UNSPECIFIED/regions/UNSPECIFIED/disks/d", "projects/p/regions/us-central1/disks/d"),
        (GCE, "projects/q/zones/UNSPECIFIED/disks/d", "projects/q/zones/UNSPECIFIED/disks/d"),
        ("other", "anything", "anything"),
    ],
)
def test_gaps_in_a_handle_are_filled_from_the_node(driver, handle, repaired):
    assert repaired == repaired_handle(driver, handle, NODE)


@each_row(("handle", "node"), [("a/b", NODE), ("projects/UNSPECIFIED/zones/z/disks/d", "n")])
def test_handles_of_other_shapes_are_refused(handle, node):
    with pytest.raises(TranslationError):
        repaired_handle(GCE, handle, node)
