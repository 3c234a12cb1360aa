"""What a refusal of a write means: one rule for all controllers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim
from mooring.api.meta import annotation, finalizers_of
from mooring.control.decision import PATIENCE, Failed
from mooring.control.object_writer import TRIES_MAX, ObjectWriter
from mooring.control.result import Stale, Vanished
from mooring.kube.cache.informer import Cause, Informer
from mooring.kube.cluster import Patch
from mooring.kube.errors import ApiError, Conflict, Forbidden, Invalid, ServerError, TooManyRequests, Unreachable
from mooring.kube.patch import add, json_patch, merge_patch
from mooring.kube.patch import test as is_as
from tests.support.builders import Json, a_claim
from tests.support.cluster_world import ClusterWorld
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time

CLAIMS = PERSISTENT_VOLUME_CLAIMS
GET, PATCH, UPDATE, DELETE = (f"{verb} {CLAIMS.plural}" for verb in ("get", "patch", "update", "delete"))


class Writing:
    """A claim that the cache shows as it was, however it is by now: nothing follows the server here."""

    def __init__(self) -> None:
        self.world = ClusterWorld()
        self.cache: Informer[PersistentVolumeClaim] = Informer(
            self.world.cluster, CLAIMS, clock=self.world.clock, randomness=self.world.randomness
        )
        self.writer = ObjectWriter(self.world.cluster, CLAIMS, self.cache)
        self.causes: list[Cause] = []
        self.cache.on_change(lambda change: self.causes.append(change.cause))

    async def begin(self) -> PersistentVolumeClaim:
        await self.world.create(a_claim("books"))
        claim = await self.world.users.get(CLAIMS, "books", "default")
        self.cache.wrote(claim)
        self.causes.clear()
        return claim

    async def annotate(self, name: str, value: str) -> None:
        """Somebody else does."""
        await self.world.patch(CLAIMS, "books", {"metadata": {"annotations": {name: value}}})

    async def make_anew(self) -> None:
        await self.remove()
        await self.world.create(a_claim("books"))

    async def remove(self) -> None:
        await self.world.patch(CLAIMS, "books", {"metadata": {"finalizers": None}})
        await self.world.remove(CLAIMS, "books")

    async def stored(self, name: str) -> str:
        return annotation(await self.world.users.get(CLAIMS, "books", "default"), name)


def marks(claim: PersistentVolumeClaim, value: str = "yes") -> Patch:
    return merge_patch({"metadata": {"annotations": {"example.com/mark": value}}}, of=claim)


def wrong(claim: PersistentVolumeClaim) -> Patch:
    """It breaks a rule, whatever else is in the claim."""
    return merge_patch({"metadata": {"labels": {"no label": "at all"}}}, of=claim)


async def failure(write: Awaitable[Any]) -> Failed:
    with pytest.raises(Failed) as raised:
        await write
    return raised.value


# -- moved


async def test_the_answer_enters_the_cache_at_once():
    writing = Writing()
    claim = await writing.begin()
    answer = await writing.writer.patch(claim, marks(claim))
    assert (
        "yes" == annotation(answer, "example.com/mark") == annotation(writing.writer.current(claim), "example.com/mark")
    )
    assert [PATCH] == writing.world.story


@each_row(
    "form", [marks, lambda claim: json_patch([add("/metadata/annotations/a", "b")], of=claim)], ids=["merge", "json"]
)
async def test_a_write_to_what_has_changed_is_decided_anew_on_what_is_there(
    form: Callable[[PersistentVolumeClaim], Patch],
):
    writing = Writing()
    claim = await writing.begin()
    await writing.annotate("example.com/other", "there")
    with pytest.raises(Stale) as raised:
        await writing.writer.patch(claim, form(claim), strictly=True)
    assert not isinstance(raised.value, Vanished)
    assert "there" == annotation(writing.writer.current(claim), "example.com/other"), "the cache has it by now"
    assert "" == await writing.stored("example.com/mark")


async def test_a_test_of_the_patch_that_fails_since_the_object_moved_is_no_failure():
    writing = Writing()
    claim = await writing.begin()
    await writing.annotate("example.com/mark", "there")
    step = is_as("/metadata/annotations", None)
    with pytest.raises(Stale):
        await writing.writer.patch(claim, json_patch([step], of=claim))


async def test_a_write_that_does_not_depend_on_the_version_is_made():
    writing = Writing()
    claim = await writing.begin()
    await writing.annotate("example.com/other", "there")
    await writing.writer.patch(claim, marks(claim))
    assert "yes" == await writing.stored("example.com/mark")


async def test_a_finalizer_is_added_once_and_removed_alone() -> None:
    writing = Writing()
    claim = await writing.begin()
    others = finalizers_of(claim)
    held = await writing.writer.add_finalizer(claim, "example.com/hold")
    assert (*others, "example.com/hold") == finalizers_of(held)
    assert held is await writing.writer.add_finalizer(held, "example.com/hold")
    released = await writing.writer.remove_finalizer(held, "example.com/hold")
    assert others == finalizers_of(released)
    assert released is await writing.writer.remove_finalizer(released, "example.com/hold")
    assert [PATCH, PATCH] == writing.world.story


async def test_a_status_is_set_where_it_differs_and_its_other_fields_stay() -> None:
    writing = Writing()
    claim = await writing.begin()
    phase = claim.status.phase
    grown = await writing.writer.set_status(claim, {"capacity": {"storage": "1Gi"}})
    assert ({"storage": "1Gi"}, phase) == (grown.status.capacity, grown.status.phase)
    assert grown is await writing.writer.set_status(grown, {"capacity": {"storage": "1Gi"}})
    assert None is (await writing.writer.set_status(grown, {"capacity": None})).status.capacity
    assert 2 == len(writing.world.story)


async def test_a_status_of_an_object_that_is_another_one_by_now_is_not_set() -> None:
    writing = Writing()
    claim = await writing.begin()
    await writing.make_anew()
    with pytest.raises(Vanished):
        await writing.writer.set_status(claim, {"capacity": {"storage": "1Gi"}})


@each_row("kept", ["gone", "another"])
async def test_an_object_that_is_no_more_has_vanished(kept: str):
    writing = Writing()
    claim = await writing.begin()
    await (writing.remove() if kept == "gone" else writing.make_anew())
    with pytest.raises(Vanished):
        await writing.writer.patch(claim, marks(claim))
    with pytest.raises(Vanished):
        writing.writer.current(claim)


async def test_a_change_by_others_that_a_look_finds_is_told_as_theirs():
    """The event of it is dropped as an echo: a room that leaves its own writes alone would never hear of it."""
    writing = Writing()
    claim = await writing.begin()
    await writing.annotate("example.com/other", "there")
    with pytest.raises(Stale):
        await writing.writer.patch(claim, marks(claim), strictly=True)
    await writing.annotate("example.com/other", "changed")
    found = await writing.writer.look(claim)
    assert [Cause.WATCH, Cause.WATCH] == writing.causes
    await writing.writer.patch(found, marks(found))
    assert [Cause.OWN_WRITE] == writing.causes[2:]


@each_row("kept", ["gone", "another"])
async def test_an_object_that_a_look_does_not_find_was_ended_by_others(kept: str):
    writing = Writing()
    claim = await writing.begin()
    await (writing.remove() if kept == "gone" else writing.make_anew())
    with pytest.raises(Vanished):
        await writing.writer.look(claim)
    assert {Cause.WATCH} == set(writing.causes)


# -- wrong for ever, or passing


async def test_a_write_that_is_wrong_whatever_the_object_is_told():
    """As Stale it would be tried at full speed, and nobody would hear of it."""
    writing = Writing()
    claim = await writing.begin()
    failed = await failure(writing.writer.patch(claim, wrong(claim), failing="could not be marked"))
    assert (1, False, False) == (failed.patience, failed.is_shown, failed.is_unanswered)
    assert str(failed).startswith("could not be marked: ")
    assert isinstance(failed.__cause__, Invalid)
    assert [PATCH, GET] == writing.world.story, "the object decides whether it was the write"


async def test_a_test_that_fails_though_nothing_moved_is_told_too():
    writing = Writing()
    claim = await writing.begin()
    failed = await failure(writing.writer.patch(claim, json_patch([is_as("/spec/volumeName", "none such")], of=claim)))
    assert (1, True) == (failed.patience, isinstance(failed.__cause__, Invalid))


@each_row(
    ("error", "patience", "unanswered"),
    [
        (Unreachable("cut"), PATIENCE, True),
        (ServerError("a webhook is down"), PATIENCE, True),
        (TooManyRequests("later"), PATIENCE, False),
        (Conflict("try again", reason="Conflict"), PATIENCE, False),
        (Forbidden("no right"), 1, False),
    ],
)
async def test_what_passes_is_told_once_it_lasts(error: ApiError, patience: int, unanswered: bool):
    writing = Writing()
    claim = await writing.begin()
    writing.world.cluster.refuse(PATCH, error=error)
    failed = await failure(writing.writer.patch(claim, marks(claim)))
    assert (patience, unanswered) == (failed.patience, failed.is_unanswered)
    assert f"PersistentVolumeClaim books could not be saved: {error}" == str(failed)


@each_row("error", [Invalid("a test failed", reason="Invalid"), Conflict("modified", reason="Conflict")])
async def test_both_refusals_are_told_where_the_object_can_t_be_read_either(error: ApiError):
    """The second one alone would hide what is wrong with the write, and a missing right to read would look like one to
    write.
    """
    writing = Writing()
    claim = await writing.begin()
    writing.world.cluster.refuse(PATCH, error=error)
    writing.world.cluster.refuse(GET, error=Forbidden("no right to get"))
    failed = await failure(writing.writer.patch(claim, marks(claim)))
    assert PATIENCE == failed.patience
    assert (
        f"PersistentVolumeClaim books could not be saved: {error}; it could not be read anew: no right to get"
        == str(failed)
    )


async def test_what_must_not_be_lost_is_sent_again_after_a_conflict_without_a_change():
    """Else the driver would be called once more for an answer that it has given."""
    writing = Writing()
    claim = await writing.begin()
    writing.world.cluster.refuse(PATCH, error=Conflict("refused", reason="Conflict"))
    assert await writing.writer.amend(claim, lambda now: marks(now))


async def test_a_server_that_can_t_be_reached_after_a_conflict_is_not_asked_at_once():
    writing = Writing()
    claim = await writing.begin()
    writing.world.cluster.refuse(PATCH, error=Conflict("refused", reason="Conflict"))
    writing.world.cluster.refuse(GET, error=Unreachable("no answer"))
    failed = await failure(writing.writer.amend(claim, marks))
    assert isinstance(failed.__cause__, Unreachable), "the cause is what keeps it from being saved"
    assert [PATCH, GET] == writing.world.story


@each_row(
    ("step", "error"),
    [
        (PATCH, Unreachable("no answer")),
        (PATCH, Conflict("try again", reason="Conflict")),
        (GET, Unreachable("no answer")),
    ],
)
async def test_a_room_may_tell_what_passes_at_once(step: str, error: ApiError):
    writing = Writing()
    claim = await writing.begin()
    writing.world.cluster.refuse(step, error=error)
    at_once = ObjectWriter(writing.world.cluster, CLAIMS, writing.cache, patience=1)
    work = at_once.look(claim) if step == GET else at_once.patch(claim, marks(claim))
    assert 1 == (await failure(work)).patience


async def test_a_room_may_tell_at_once_that_the_server_was_set_back():
    writing = Writing()
    claim = await writing.begin()
    ahead = type(claim)(metadata=_of_version(claim, "999999"), spec=claim.spec, status=claim.status)
    at_once = ObjectWriter(writing.world.cluster, CLAIMS, writing.cache, patience=1)
    assert 1 == (await failure(at_once.look(ahead))).patience


async def test_a_server_that_was_set_back_refuses_what_is_known_for_a_while():
    """At once, each try would be refused, until the cache has listed all anew."""
    writing = Writing()
    claim = await writing.begin()
    newer = await writing.world.users.patch(CLAIMS, "books", marks(claim), "default")
    writing.world.cluster.refuse(PATCH, error=Conflict("modified", reason="Conflict"))
    ahead = type(newer)(metadata=_of_version(newer, "999999"), spec=newer.spec, status=newer.status)
    failed = await failure(writing.writer.patch(ahead, marks(ahead)))
    assert (
        "PersistentVolumeClaim books could not be saved: modified; it could not be read anew: the API server "
        "was set back"
    ) == str(failed)


def _of_version(claim: PersistentVolumeClaim, version: str) -> Any:
    return msgspec.structs.replace(claim.metadata, resource_version=version)


# -- a late write, and the fence before it


async def late_patch(writing: Writing, claim: PersistentVolumeClaim) -> None:
    await writing.writer.patch(claim, marks(claim), strictly=True)


async def late_delete(writing: Writing, claim: PersistentVolumeClaim) -> None:
    await writing.writer.delete(claim, strictly=True)


@each_row("late", [late_patch, late_delete])
async def test_behind_a_fence_no_late_write_is_carried_out(late: Callable[[Writing, Any], Awaitable[None]]):
    writing = Writing()
    claim = await writing.begin()
    fenced = await writing.writer.fence(claim)
    with pytest.raises(Stale):
        await late(writing, claim)
    found = await writing.world.users.get(CLAIMS, "books", "default")
    assert fenced.metadata.resource_version == found.metadata.resource_version
    assert found.metadata.resource_version != (await writing.writer.fence(fenced)).metadata.resource_version


@each_row(("late", "step"), [(late_patch, PATCH), (late_delete, DELETE)])
async def test_a_fence_shows_a_write_that_was_carried_out(late: Callable[[Writing, Any], Awaitable[None]], step: str):
    writing = Writing()
    claim = await writing.begin()
    writing.world.cluster.refuse(step, times=1, error=Unreachable("cut"), after=True)
    await failure(late(writing, claim))
    with pytest.raises(Stale):
        await writing.writer.fence(claim)


async def test_a_strict_deletion_takes_only_the_version_that_it_names():
    writing = Writing()
    claim = await writing.begin()
    await writing.annotate("example.com/other", "there")
    with pytest.raises(Stale):
        await writing.writer.delete(claim, strictly=True)
    await writing.writer.delete(writing.writer.current(claim), strictly=True)
    assert "deletionTimestamp" in (await writing.world.get(CLAIMS, "books"))["metadata"]


# -- writes whose answer was lost


async def test_a_write_without_an_answer_is_looked_for_before_more_is_done():
    writing = Writing()
    claim = await writing.begin()
    await writing.writer.settle(claim)
    assert [] == writing.world.story
    writing.world.cluster.refuse(PATCH, error=Unreachable("cut"), after=True)
    await failure(writing.writer.patch(claim, marks(claim)))
    with pytest.raises(Stale):
        await writing.writer.settle(claim)
    assert "yes" == annotation(writing.writer.current(claim), "example.com/mark")
    await writing.writer.settle(writing.writer.current(claim))
    assert [PATCH, GET] == writing.world.story, "it is known now"


async def test_a_write_that_was_never_done_holds_up_nothing():
    writing = Writing()
    claim = await writing.begin()
    writing.world.cluster.refuse(PATCH, error=Unreachable("cut"))
    await failure(writing.writer.patch(claim, marks(claim)))
    await writing.writer.settle(claim)
    assert [PATCH, GET] == writing.world.story


# -- what must not be lost


async def test_a_driver_s_answer_is_saved_on_the_object_as_it_is_now():
    writing = Writing()
    claim = await writing.begin()
    await writing.annotate("example.com/other", "there")
    seen: list[str] = []

    def patch_of(now: PersistentVolumeClaim) -> Patch:
        seen.append(annotation(now, "example.com/other"))
        return marks(now)

    assert await writing.writer.amend(claim, patch_of)
    assert (["", "there"], "yes") == (seen, await writing.stored("example.com/mark"))
    assert not await writing.writer.amend(claim, lambda now: None)


async def test_an_object_that_keeps_moving_is_left_to_the_next_decision():
    writing = Writing()
    claim = await writing.begin()
    tries = 0

    async def moves() -> None:
        nonlocal tries
        tries += 1
        await writing.annotate("example.com/other", str(tries))

    class Moving(ObjectWriter[PersistentVolumeClaim]):
        async def patch(self, *args: Any, **more: Any) -> Any:
            await moves()
            return await super().patch(*args, **more)

    with pytest.raises(Stale):
        await Moving(writing.world.cluster, CLAIMS, writing.cache).amend(claim, marks)
    assert TRIES_MAX == tries


# -- whole objects


def selects(body: Json) -> bool:
    notes = body["metadata"].setdefault("annotations", {})
    if "example.com/mark" in notes:
        return False
    notes["example.com/mark"] = "yes"
    return True


async def test_an_edit_keeps_what_the_cache_does_not_show():
    writing = Writing()
    claim = await writing.begin()
    await writing.world.patch(CLAIMS, "books", {"metadata": {"generateName": "kept-"}})
    assert await writing.writer.edit(claim, selects)
    body = await writing.world.get(CLAIMS, "books")
    assert ("yes", "kept-") == (body["metadata"]["annotations"]["example.com/mark"], body["metadata"]["generateName"])
    assert [GET, UPDATE] == writing.world.story


async def test_an_edit_with_nothing_to_do_writes_nothing_and_reads_once():
    writing = Writing()
    claim = await writing.begin()
    assert await writing.writer.edit(claim, selects)
    writing.world.story.clear()
    assert not await writing.writer.edit(writing.writer.current(claim), selects)
    assert [] == writing.world.story, "the last answer is the whole object"


async def test_an_edit_that_was_refused_is_made_anew():
    writing = Writing()
    claim = await writing.begin()
    writing.world.cluster.refuse(UPDATE, error=TooManyRequests("later"))
    await failure(writing.writer.edit(claim, selects))
    assert await writing.writer.edit(claim, selects)
    assert "yes" == await writing.stored("example.com/mark")


async def test_a_strict_edit_is_of_the_object_as_it_was_decided_on():
    writing = Writing()
    claim = await writing.begin()
    await writing.annotate("example.com/other", "there")
    with pytest.raises(Stale):
        await writing.writer.edit(claim, selects, strictly=True)
    assert await writing.writer.edit(claim, selects)
    await writing.make_anew()
    with pytest.raises(Vanished):
        await writing.writer.edit(claim, selects)


# -- deletions


async def test_what_is_gone_already_need_not_be_deleted():
    writing = Writing()
    claim = await writing.begin()
    await writing.make_anew()
    await writing.writer.delete(claim)
    assert await writing.world.find(CLAIMS, "books"), "another of its name stays"
    await writing.remove()
    await writing.writer.delete(claim)


async def test_a_deletion_that_is_refused_fails():
    writing = Writing()
    claim = await writing.begin()
    writing.world.cluster.refuse(DELETE, error=Forbidden("a policy keeps it"))
    failed = await failure(writing.writer.delete(claim, failing="could not be deleted"))
    assert "could not be deleted: a policy keeps it" == str(failed)
