"""docs/versions.md and docs/api-fields.yaml say what the code needs of the API, as the code has it now."""

from __future__ import annotations

import msgspec

from mooring.api.meta import Kind, ObjectMeta
from tests.support import api_needs
from tests.support.layers import GO_SOURCES, not_tested


def test_the_file_of_fields_has_what_the_code_needs() -> None:
    """To mend it: python -m tests.support.api_needs."""
    assert api_needs.FIELDS.read_text() == api_needs.fields_file()


def test_the_page_has_what_the_code_needs() -> None:
    """To mend it: python -m tests.support.api_needs."""
    found = api_needs.sources()
    if found is None:
        not_tested(GO_SOURCES, "no Go module k8s.io/api in Go's cache")
    page = api_needs.PAGE.read_text()
    assert page == api_needs.with_table(page, found)


class Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    sizes: dict[str, int] | None = None


class Thing(msgspec.Struct, rename="camel"):
    metadata: ObjectMeta = ObjectMeta()
    spec: tuple[Spec, ...] = ()


def test_fields_are_leaves_as_they_are_on_the_wire() -> None:
    assert ["spec.nodeName", "spec.sizes"] == list(api_needs.fields_of(Thing))


def test_every_kind_of_the_code_is_there() -> None:
    assert {("storage.k8s.io", "VolumeAttachment"), ("", "Pod"), ("snapshot.storage.k8s.io", "VolumeSnapshot")} <= {
        (kind.group, kind.name) for kind in api_needs.kinds() if isinstance(kind, Kind)
    }
