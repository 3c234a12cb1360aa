"""One broken object costs itself, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.api.storage import VOLUME_ATTACHMENTS, VolumeAttachment
from mooring.base.json_text import DEPTH_MAX
from mooring.kube.client import codec, rest
from mooring.kube.client.codec import ODD_MAX, TOLD_MAX, codec_of, status_of
from mooring.kube.cluster import EventType, UnreadItem
from mooring.kube.errors import Gone, ServerError
from tests.support.builders import a_va
from tests.support.rows import each_row
from tests.unit.kube.kubeconfigs import SECRET

TYPED = codec_of(VolumeAttachment)
WHOLE = codec_of(dict)


def a_line(kind: str, obj: object) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode()


def test_a_codec_is_made_once_per_type() -> None:
    assert codec_of(VolumeAttachment) is TYPED


def test_a_page_has_items_version_and_token() -> None:
    body = json.dumps({"metadata": {"resourceVersion": "9", "continue": "tok"}, "items": [a_va("a"), a_va("b")]})
    page = TYPED.page(VOLUME_ATTACHMENTS, body.encode())
    assert (["a", "b"], "9", "tok") == (
        [item.metadata.name for item in page.items],
        page.resource_version,
        page.continue_token,
    )


@each_row("body", [b'{"metadata":{"resourceVersion":"9"},"items":null}', b'{"metadata":{"resourceVersion":"9"}}'])
def test_a_page_without_items_is_empty(body: bytes) -> None:
    assert ((), "9") == (
        TYPED.page(VOLUME_ATTACHMENTS, body).items,
        TYPED.page(VOLUME_ATTACHMENTS, body).resource_version,
    )


@each_row(
    "broken",
    [
        json.dumps({**a_va("bad"), "spec": {"attacher": 5}}).encode(),
        json.dumps({**a_va("bad"), "status": {"attachmentMetadata": {"a": {SECRET: SECRET}}}}).encode(),
        b'{"metadata":{"name":"bad"},"spec":{"nodeName":"\xff' + SECRET.encode() + b'"}}',
        b'{"spec":{}}',
        b"null",
        b"[]",
    ],
)
def test_a_broken_item_is_skipped_and_named(broken: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    items = b",".join([json.dumps(a_va("a")).encode(), broken, json.dumps(a_va("b")).encode()])
    page = TYPED.page(
        VOLUME_ATTACHMENTS, b'{"metadata":{"resourceVersion":"9","continue":"tok"},"items":[' + items + b"]}"
    )
    assert (["a", "b"], "9", "tok") == (
        [item.metadata.name for item in page.items],
        page.resource_version,
        page.continue_token,
    )
    assert ["bad" if b'"bad"' in broken else ""] == [one.name for one in page.unread]
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert told.startswith("E")
    assert "volumeattachments.storage.k8s.io" in told
    assert ('name="bad"' in told) == (b'"bad"' in broken)
    assert SECRET not in told


@each_row(
    "body",
    [b"", b"<html>", b"[]", b'{"items":5}', b'{"items":[', b'{"items":[{"metadata"', b"\xff", b'{"items":' * 5000],
)
def test_what_is_no_list_is_no_page(body: bytes) -> None:
    with pytest.raises(ValueError):
        TYPED.page(VOLUME_ATTACHMENTS, body)


@each_row("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_changes_are_decoded_typed_or_whole(kind: str) -> None:
    line = a_line(kind, a_va("größe", resourceVersion="12"))
    typed, whole = TYPED.event(VOLUME_ATTACHMENTS, line), WHOLE.event(VOLUME_ATTACHMENTS.whole(), line)
    assert typed is not None
    assert whole is not None
    assert (EventType(kind), "12", EventType(kind), "12") == (
        typed.type,
        typed.resource_version,
        whole.type,
        whole.resource_version,
    )
    assert typed.object is not None
    assert typed.object.metadata.name == "größe"
    assert whole.object == a_va("größe", resourceVersion="12")


def test_a_bookmark_has_only_a_version() -> None:
    line = a_line(
        "BOOKMARK",
        {
            "kind": "VolumeAttachment",
            "metadata": {"resourceVersion": "20", "creationTimestamp": None},
            "spec": {"attacher": ""},
        },
    )
    event = TYPED.event(VOLUME_ATTACHMENTS, line)
    assert event is not None
    assert (EventType.BOOKMARK, None, "20", False) == (
        event.type,
        event.object,
        event.resource_version,
        event.initial_events_end,
    )


def test_the_closing_bookmark_is_known_by_its_annotation() -> None:
    metadata = {"resourceVersion": "20", "annotations": {"k8s.io/initial-events-end": "true"}}
    event = TYPED.event(VOLUME_ATTACHMENTS, a_line("BOOKMARK", {"metadata": metadata}))
    assert event is not None
    assert event.initial_events_end


@each_row("codec", [TYPED, WHOLE])
def test_an_error_event_is_raised(codec: Any) -> None:
    status = {
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "message": "too old resource version: 5 (100)",
        "reason": "Expired",
        "code": 410,
    }
    with pytest.raises(Gone, match=r"too old resource version: 5 \(100\)"):
        codec.event(VOLUME_ATTACHMENTS, a_line("ERROR", status))


@each_row("status", [{}, {"code": "410"}, [], None, "gone"])
def test_an_error_event_that_makes_no_sense_is_an_error_too(status: object) -> None:
    with pytest.raises(ServerError):
        TYPED.event(VOLUME_ATTACHMENTS, a_line("ERROR", status))


@each_row(
    "line",
    [
        a_line("MODIFIED", {**a_va("bad"), "spec": {"attacher": [SECRET]}}),
        b'{"type":"ADDED","object":{"metadata":{"name":"bad"},"spec":{"nodeName":"\xff"}}}',
        a_line("NEWS", a_va("bad")),
    ],
)
def test_a_broken_event_is_skipped_and_told(line: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    assert TYPED.event(VOLUME_ATTACHMENTS, line) is None
    told = capsys.readouterr().err
    assert told.startswith("E")
    assert SECRET not in told


def test_an_object_that_nests_too_deep_costs_itself_alone() -> None:
    """C skips it, up to about a thousand levels; an answer with more is refused as a whole."""
    deep = {**a_va("bad", uid="u1"), "deep": json.loads("[" * (DEPTH_MAX + 1) + "]" * (DEPTH_MAX + 1))}
    page = WHOLE.page(VOLUME_ATTACHMENTS.whole(), json.dumps({"items": [a_va("a"), deep, a_va("b")]}).encode())
    assert (["a", "b"], (UnreadItem("", "bad", "u1"),)) == (
        [one["metadata"]["name"] for one in page.items],
        page.unread,
    )
    events = [WHOLE.event(VOLUME_ATTACHMENTS.whole(), a_line("ADDED", obj)) for obj in (a_va("a"), deep, a_va("b"))]
    assert [True, False, True] == [event is not None for event in events]


def test_a_page_names_what_it_could_not_read() -> None:
    body = json.dumps({"items": [{**a_va("bad", uid="u1"), "spec": {"attacher": 5}}, a_va("good")]}).encode()
    page = TYPED.page(VOLUME_ATTACHMENTS, body)
    assert (["good"], (UnreadItem("", "bad", "u1"),)) == ([item.metadata.name for item in page.items], page.unread)


def test_what_is_deleted_and_can_not_be_read_makes_the_cache_list_again() -> None:
    with pytest.raises(Gone, match="bad was deleted"):
        TYPED.event(VOLUME_ATTACHMENTS, a_line("DELETED", {**a_va("bad"), "spec": {"attacher": [SECRET]}}))


def a_page_of(odd: int) -> bytes:
    return (
        b'{"metadata":{"resourceVersion":"9"},"items":['
        + b",".join([json.dumps(a_va("a")).encode(), *[b"1"] * odd])
        + b"]}"
    )


def test_many_broken_items_take_a_few_lines_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    """Two bytes each in the answer, and a line of a hundred each in the log: that filled disks."""
    page = TYPED.page(VOLUME_ATTACHMENTS, a_page_of(ODD_MAX))
    assert (1, ODD_MAX) == (len(page.items), len(page.unread))
    *told, last = capsys.readouterr().err.splitlines()
    assert TOLD_MAX == len(told)
    assert last.endswith(f"count={ODD_MAX - TOLD_MAX}")


def test_a_list_of_little_but_broken_items_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given up where the bound is reached, however many are left: each takes a while."""
    decoded = 0

    def report(*_: object, is_told: bool) -> UnreadItem:
        nonlocal decoded
        decoded += 1
        return UnreadItem()

    monkeypatch.setattr(codec, "_report", report)
    with pytest.raises(ValueError, match=f"more than {ODD_MAX} of its items can't be read"):
        TYPED.page(VOLUME_ATTACHMENTS, a_page_of(200_000))
    assert ODD_MAX + 1 == decoded


@each_row("line", [b"<html>", b'{"type":"ADDED","object":{"meta', b"{}", b'{"type":5}', b"\xff", b"[]"])
def test_what_is_no_event_is_no_line_of_a_watch(line: bytes) -> None:
    with pytest.raises(ValueError):
        TYPED.event(VOLUME_ATTACHMENTS, line)


def test_only_a_status_is_a_status() -> None:
    assert status_of(b'{"kind":"Status","code":404}') == {"kind": "Status", "code": 404}
    assert [None] * 4 == [status_of(body) for body in (b'{"kind":"Pod"}', b"[]", b"404 page not found", b"\xff")]


def test_many_broken_events_take_a_few_lines_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    chunk = b"".join(a_line(kind, obj) + b"\n" for kind, obj in [("ODD", a_va("a")), ("ADDED", 1)] * 100)
    assert [] == list(rest._events(VOLUME_ATTACHMENTS, rest.LineSplitter(10_000), chunk, "/path"))
    assert TOLD_MAX == capsys.readouterr().err.count("\n")
