"""Decides where the driver has said nothing of a snapshot, or of a group: it refused, did not answer, or could not be believed. Pure.

See the table in `decide_after.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mooring.base.text import quoted
from mooring.csi.errors import DriverError
from mooring.sidecars.snapshotter.decide_after import After, named_volumes, refused, unchecked
from mooring.sidecars.snapshotter.decision import Failure
from mooring.sidecars.snapshotter.kinds import Content
from mooring.sidecars.snapshotter.requests import CreateOrder
from mooring.sidecars.snapshotter.view import handle_of, imported_handle, is_given_up, row_of

_NAMED_MAX: Final = 3


def after_unasked(content: Content, error: DriverError) -> After:
    """The driver did not answer about one that was there before."""
    row = row_of(content)
    return After(failure=unchecked(content, f"failed to list {row.noun} for {row.noun_of_content} {content.metadata.name}: {error}"))


def is_refusal(error: DriverError) -> bool:
    """True for an answer by which this one request has made nothing."""
    return error.final and not error.answered


def after_refused(content: Content, order: CreateOrder, error: DriverError, *, is_first: bool) -> After:
    """The request to make it failed. is_first: no request before this one can have made anything."""
    over, going = is_first and is_refusal(error), is_given_up(content)
    if over and going:
        return After(unmarks=True, nothing_made=True, again=True)
    if going and is_refusal(error):
        return After(failure=_open(content, order, f"the driver refuses to tell: {quoted(str(error))}"))
    return After(unmarks=over, nothing_made=over, failure=refused(content, str(error)))


def after_looked_for(content: Content, order: CreateOrder, unknown: Sequence[str]) -> After:
    """The driver has listed the snapshots of the volume. unknown: the handles of those that no content names."""
    if not unknown:
        return After(unmarks=True, nothing_made=True, again=True)
    more = f" and {len(unknown) - _NAMED_MAX} more" if len(unknown) > _NAMED_MAX else ""
    text = f"no content names {', '.join(map(quoted, unknown[:_NAMED_MAX]))}{more}, which the driver lists"
    return After(failure=_open(content, order, text))


def after_unlisted(content: Content, order: CreateOrder, error: DriverError) -> After:
    """The driver has not listed the snapshots of the volume."""
    return After(failure=_open(content, order, f"the driver does not list its snapshots: {quoted(str(error))}"))


def after_unsaved(content: Content, error: str) -> Failure:
    """The API server does not take what the driver has answered, as an id of megabytes. The mark stays: a deletion has to find it out.

    Differs from csi-snapshotter, where only the log tells of that.
    """
    row, text = row_of(content), f"the API server refused the driver's answer: {error}"
    if imported_handle(content) is None and not handle_of(content):
        return Failure(row.creation_failed, f"{row.creation_text}{text}")
    return unchecked(content, text)


def _open(content: Content, order: CreateOrder, text: str) -> Failure:
    """The failure of a content that can't go, since nobody knows what the driver made."""
    row = row_of(content)
    what = f"{row.noun} {quoted(order.name)} of {named_volumes(content)}"
    way_out = f"where the storage has none, take the annotation {row.being_created} off"
    return Failure(row.creation_failed, f"{row.creation_text}an earlier request may have made {what}: {way_out}; {text}")
