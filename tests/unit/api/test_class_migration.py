"""Classes of in-tree plugins, and volumes made for them, held to what the real csi-translation-lib makes of the same
objects.

data/translated-classes.json and data/in-tree-again.json are the output of hack/translation-oracle, with `classes` and
`back`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.api.class_migration import class_as_csi
from mooring.api.migration import TranslationError, is_migratable
from mooring.api.storage import StorageClass
from mooring.api.volume_migration import as_in_tree
from tests.support.builders import typed
from tests.support.rows import each_row

DATA = Path(__file__).parent / "data"


def pairs(asked: str, answered: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return list(zip(json.loads((DATA / asked).read_text()), json.loads((DATA / answered).read_text()), strict=True))


CLASSES, BACK = (
    pairs("in-tree-classes.json", "translated-classes.json"),
    pairs("csi-volumes.json", "in-tree-again.json"),
)


@each_row(("given", "answer"), CLASSES, ids=range(len(CLASSES)))
def test_a_class_is_translated_as_by_the_real_library(given, answer):
    storage_class = msgspec.convert(given, StorageClass)
    if "error" in answer:
        with pytest.raises(TranslationError):
            class_as_csi(storage_class)
        return
    translated, wanted = class_as_csi(storage_class), msgspec.convert(answer["class"], StorageClass)
    assert (wanted.parameters or {}) == (translated.parameters or {})
    assert (wanted.allowed_topologies, wanted.provisioner) == (translated.allowed_topologies, translated.provisioner)


@each_row(("given", "answer"), BACK, ids=range(len(BACK)))
def test_a_volume_goes_back_as_by_the_real_library(given, answer):
    if "error" in answer:
        with pytest.raises(TranslationError):
            as_in_tree(given)
        return
    changed = as_in_tree(given)
    wanted = answer["volume"]
    assert wanted["metadata"].get("labels") == changed["metadata"].get("labels")
    assert wanted["metadata"]["annotations"] == changed["metadata"]["annotations"]
    assert wanted["spec"].get("nodeAffinity") == changed["spec"].get("nodeAffinity")
    assert typed(wanted).spec == typed(changed).spec
    assert is_migratable(typed(changed).spec)


def test_the_corpus_has_failures_of_both_kinds():
    assert 3 <= sum("error" in answer for _, answer in CLASSES)
    assert 5 <= sum("error" in answer for _, answer in BACK)


def test_a_disk_s_uri_has_a_largest_length() -> None:
    """A driver says what it is, and what it costs to find the disk's name in it grows with its fourth power."""
    csi = {"driver": "disk.csi.azure.com", "volumeHandle": "/subscriptions//resourceGroups/" * 100}
    with pytest.raises(TranslationError, match="at most 1024 letters, this one has 3100"):
        as_in_tree({"metadata": {}, "spec": {"csi": csi}})
