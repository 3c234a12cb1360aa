"""URLs of resources, and names that have no business in one."""

from __future__ import annotations

import pytest

from mooring.api.core import PERSISTENT_VOLUMES, SECRETS
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.kube.client.paths import list_query, paths_of, watch_query
from mooring.kube.cluster import Selection
from mooring.kube.errors import BadRequest
from tests.support.rows import each_row


def test_paths_name_group_version_namespace_and_subresource() -> None:
    assert paths_of(PERSISTENT_VOLUMES).object("pv", "") == "/api/v1/persistentvolumes/pv"
    assert (
        paths_of(VOLUME_ATTACHMENTS).object("va", "", "status") == "/apis/storage.k8s.io/v1/volumeattachments/va/status"
    )
    assert paths_of(SECRETS).object("s", "ns") == "/api/v1/namespaces/ns/secrets/s"
    assert paths_of(SECRETS).collection(None) == "/api/v1/secrets"
    assert paths_of(SECRETS).collection("ns") == "/api/v1/namespaces/ns/secrets"
    assert paths_of(VOLUME_ATTACHMENTS).collection(None) == "/apis/storage.k8s.io/v1/volumeattachments"


@each_row("name", ["", ".", "..", "a/b", "../../secrets/x", "a%2fb", "\ud800"])
def test_a_name_that_no_object_can_have_is_never_asked_for(name: str) -> None:
    with pytest.raises(BadRequest):
        paths_of(SECRETS).object(name, "ns")
    with pytest.raises(BadRequest):
        paths_of(SECRETS).object("s", name)


@each_row(
    ("name", "escaped"),
    [
        ("a.b-c", "a.b-c"),
        ("..a", "..a"),
        ("a.", "a."),
        ("x?watch=true#y", "x%3Fwatch%3Dtrue%23y"),
        ("a\r\nb c", "a%0D%0Ab%20c"),
        ("größe", "gr%C3%B6%C3%9Fe"),
    ],
)
def test_odd_names_are_escaped(name: str, escaped: str) -> None:
    assert paths_of(VOLUME_ATTACHMENTS).object(name, "").endswith(f"/volumeattachments/{escaped}")


def test_a_list_s_query_has_only_what_was_asked_for() -> None:
    assert list_query(Selection(), 0, "", "") == ""
    selection = Selection(label_selector="a=b,c", field_selector="metadata.name=x")
    assert (
        list_query(selection, 500, "", "0")
        == "?labelSelector=a%3Db%2Cc&fieldSelector=metadata.name%3Dx&limit=500&resourceVersion=0"
    )


def test_a_continue_token_goes_without_the_version() -> None:
    assert list_query(Selection(), 500, "to/ken", "7") == "?limit=500&continue=to%2Fken"


def test_a_watch_asks_for_bookmarks_and_its_end() -> None:
    assert (
        watch_query(Selection(), "5", 1.5) == "?watch=true&allowWatchBookmarks=true&resourceVersion=5&timeoutSeconds=2"
    )
    assert watch_query(Selection(), "5", 0) == "?watch=true&allowWatchBookmarks=true&resourceVersion=5"
