"""The journal of intents on the embedded API server, in virtual time."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import copy
import random
import re
import traceback
import zlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from mooring.api.coordination import LEASES
from mooring.api.core import NODES, PERSISTENT_VOLUMES, SecretReference
from mooring.api.meta import Kind
from mooring.base.metrics import Metrics
from mooring.kube.cluster import Patch, PatchType
from mooring.kube.errors import (
    NOT_SERVED,
    AlreadyExists,
    Conflict,
    Forbidden,
    NotServed,
    ServerError,
    TooLarge,
    Unreachable,
)
from mooring.sidecars.provisioner.intents import lease_codec, lease_store
from mooring.sidecars.provisioner.intents.journal import TIDY_S, Journal, JournalMetrics
from mooring.sidecars.provisioner.intents.lease_codec import UNATTENDED_S, JournalLocation
from mooring.sidecars.provisioner.intents.lease_store import AGAIN_S, REFRESH_S, RETAKE_S, Superseded
from mooring.sidecars.provisioner.model.intent import ClaimIntents, Intent, IntentState, OwnVolume
from tests.support.cluster_world import ClusterWorld, metric
from tests.support.intents import an_entry
from tests.support.provisioning import CREATE as CREATE_VOLUME
from tests.support.provisioning import DELETE as DELETE_VOLUME
from tests.support.provisioning import ProvisioningWorld
from tests.support.recording import RecordingCluster
from tests.support.rows import each_row
from tests.support.scripted_driver import Lose
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time
PLACE = JournalLocation("storage", "csi.test")
CREATE, UPDATE, GET = "create leases", "update leases", "get leases"
IN_MEMORY = "mooring_provisioner_intents_in_memory"


def an_intent(uid: str = "u1", **more: Any) -> ClaimIntents:
    return an_entry(a_request(uid, **more))


def a_request(uid: str = "u1", **more: Any) -> Intent:
    values = {
        "request": f'{{"name": "pvc-{uid}"}}',
        "volume": '{"metadata": {}}',
        "secret": SecretReference("s", "ns"),
        **more,
    }
    return Intent(uid, "default", f"claim-{uid}", f"pvc-{uid}", **values)


def filler(packed_bytes: int) -> str:
    """A text that packs to about this size."""
    return base64.b64encode(random.Random(packed_bytes).randbytes(packed_bytes * 99 // 100)).decode()


class JournalWorld(ClusterWorld):
    async def base(self) -> JournalWorld:
        await self.make_namespace("storage")
        return self

    @contextlib.asynccontextmanager
    async def journal(
        self, identity: str = "me", place: JournalLocation = PLACE, metrics: JournalMetrics | None = None
    ) -> AsyncIterator[Journal]:
        """A running journal; its process is killed at the end."""
        made = Journal(self.cluster, place, identity, self.clock, metrics)
        await made.start()
        running = asyncio.create_task(made.run(), name="journal")
        try:
            yield made
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def stored(self, place: JournalLocation = PLACE) -> dict[str, ClaimIntents]:
        """What a new holder would find."""
        found = {lease["metadata"]["name"]: lease for lease in (await self.users.list(LEASES.whole())).items}
        count = lease_codec.count_of(found.get(place.page_name(0))) or len(found)
        leases = [found[name] for number in range(count) if (name := place.page_name(number)) in found]
        return {intent.uid: intent for lease in leases for intent in lease_codec.entries_of(lease)}

    async def page(self, number: int = 0) -> dict[str, Any]:
        return await self.users.get(LEASES.whole(), PLACE.page_name(number), "storage")


@pytest.fixture
async def world() -> JournalWorld:
    return await JournalWorld().base()


@pytest.fixture
async def journal(world: JournalWorld) -> AsyncIterator[Journal]:
    async with world.journal() as made:
        yield made


async def test_what_was_begun_is_stored_and_found_by_the_next_holder(world: JournalWorld):
    async with world.journal("first") as journal:
        await journal.write(an_intent())
        assert {"u1": an_intent()} == await world.stored() == journal.open()
    async with world.journal("second") as journal:
        assert {"u1": an_intent()} == journal.open()
        assert "second" == lease_codec.holder_of(await world.page())


def packed(text: bytes) -> str:
    return "1:" + base64.b64encode(zlib.compress(text)).decode()


FORMER = '{"uid":"u1","namespace":"ns","claim_name":"c","volume_name":"pvc-u1","request":"%s","volume":"{}"%s}'
ONE, TWO = (Intent("u1", "ns", "c", "pvc-u1", request, "{}") for request in "12")


@each_row(
    ("more", "read"),
    [
        ("", an_entry(ONE)),
        (',"unattended":true,"stored_handle":null', an_entry(ONE, own=OwnVolume.UNSEEN)),
        (',"unattended":true,"stored_handle":"h"', an_entry(ONE, own=OwnVolume.STORED)),
        (',"stored_handle":""', an_entry(ONE, own=OwnVolume.DELETED)),
        (',"doubts":[%s]' % (FORMER % ("2", "")), an_entry(TWO, ONE)),
        (
            ',"dying_handle":"h"',
            an_entry(msgspec.structs.replace(ONE, dying_handle="h"), state=IntentState.DELETING),
        ),
    ],
)
def test_an_entry_that_the_last_version_wrote_is_read_and_written_anew(more: str, read: ClaimIntents):
    text = f"[{FORMER % ('1', more)}]"
    lease = {"metadata": {"annotations": {lease_codec.INTENTS: packed(text.encode())}}}
    assert (read,) == lease_codec.entries_of(lease)
    assert read == lease_codec.decoded(lease_codec.encoded(read))


@each_row("entry", ['{"uid":"u1","requests":[]}', '{"uid":"u1"}'])
def test_an_entry_without_a_request_is_no_entry(entry: str):
    with pytest.raises(lease_codec.UnreadablePage):
        lease_codec.decoded(entry.encode())


@each_row(
    ("state", "found"),
    [
        (IntentState.ASKED, IntentState.UNKNOWN),
        (IntentState.MADE, IntentState.UNKNOWN),
        (IntentState.REFUSED, IntentState.REFUSED),
        (IntentState.DELETING, IntentState.DELETING),
    ],
)
def test_what_this_process_alone_knows_is_unknown_to_the_next(state: IntentState, found: IntentState):
    assert an_entry(ONE, state=found) == lease_codec.decoded(lease_codec.encoded(an_entry(ONE, state=state)))


def test_a_page_ends_the_record_of_who_set_which_field_and_what_was_read_stays_as_it_is():
    record = [{"manager": "somebody", "operation": "Apply", "fieldsV1": {"f:metadata": {"f:labels": {"f:team": {}}}}}]
    before = {
        "metadata": {"name": "page", "labels": {"team": "a"}, "managedFields": record},
        "spec": {"holderIdentity": "other"},
    }
    was = copy.deepcopy(before)
    written = lease_codec.page_body(PLACE, 0, before, "me", [b"{}"], 1.0, count=1)
    assert [{}] == written["metadata"]["managedFields"]
    assert "a" == written["metadata"]["labels"]["team"]
    assert 1 == written["spec"]["leaseTransitions"]
    assert was == before


async def test_what_the_claim_wanted_before_is_found_with_what_it_wants_now(world: JournalWorld):
    entry = an_entry(a_request(node_name="n1"), a_request(request="{}", secret=None), a_request())
    async with world.journal("first") as journal:
        await journal.write(entry)
    async with world.journal("second") as journal:
        assert {"u1": entry} == journal.open()


async def test_all_who_come_while_a_write_is_under_way_share_the_next(world: JournalWorld, journal: Journal):
    await asyncio.gather(*(journal.write(an_intent(f"u{number}")) for number in range(100)))
    assert 100 == len(await world.stored())
    assert world.story.count(UPDATE) <= 2
    assert [CREATE] == [step for step in world.story if step != GET][:1]


async def test_an_end_goes_along_with_the_next_begin(world: JournalWorld, journal: Journal):
    await journal.write(an_intent("u1"))
    await journal.end("u1")
    await journal.write(an_intent("u2"))
    assert ["u2"] == list(await world.stored())
    assert 2 == world.story.count(UPDATE)
    await asyncio.sleep(10 * TIDY_S)
    assert 2 == world.story.count(UPDATE)


async def test_an_end_alone_is_stored_after_some_seconds(world: JournalWorld, journal: Journal):
    await journal.write(an_intent())
    await journal.end("u1")
    await journal.end("unknown")
    await asyncio.sleep(TIDY_S - 1)
    assert ["u1"] == list(await world.stored())
    await asyncio.sleep(2)
    assert {} == await world.stored()


@each_row("after", [False, True], ids=["refused", "answer lost"])
async def test_an_end_that_could_not_be_stored_is_stored_later(after: bool):
    """Nothing else may ever be begun, and whoever starts next would find it open."""
    world = await JournalWorld().base()
    async with world.journal() as journal:
        await journal.write(an_intent())
        world.cluster.refuse(UPDATE, times=2, error=ServerError("overloaded", code=500), after=after)
        await journal.end("u1")
        await asyncio.sleep(3 * TIDY_S + 1)
        assert {} == await world.stored()


async def test_who_lets_a_volume_go_waits_until_its_end_is_stored(world: JournalWorld, journal: Journal):
    await journal.write(an_intent())
    await journal.end("u1")
    await journal.wait_for_end("u1")
    assert {} == await world.stored()
    done = len(world.story)
    await journal.wait_for_end("u1")
    await journal.wait_for_end("unknown")
    assert done == len(world.story)


async def test_an_end_in_good_order_leaves_nothing_behind(world: JournalWorld, journal: Journal):
    await journal.write(an_intent())
    await journal.end("u1")
    await journal.tidy()
    assert {} == await world.stored()


async def test_the_same_intent_again_writes_once_that_the_journal_is_held_still(world: JournalWorld, journal: Journal):
    await asyncio.gather(*(journal.write(an_intent(f"u{number}")) for number in range(5)))
    world.story.clear()
    await asyncio.gather(*(journal.write(an_intent(f"u{number}")) for number in range(5)))
    assert [UPDATE] == world.story
    await journal.write(an_intent())
    await journal.write(an_intent(node_name="n2"))
    assert "n2" == (await world.stored())["u1"].last.node_name


@each_row("after", [False, True], ids=["refused", "answer lost"])
async def test_who_was_refused_has_begun_nothing(after):
    world = await JournalWorld().base()
    world.cluster.refuse(UPDATE, error=Unreachable("connection reset"), after=after)
    async with world.journal() as journal:
        with pytest.raises(Unreachable):
            await journal.write(an_intent())
        assert {} == journal.open()
        await asyncio.sleep(TIDY_S + 1)
        assert {} == await world.stored()
        await journal.write(an_intent())
        assert ["u1"] == list(await world.stored())


async def test_a_refused_change_leaves_what_was_open_before(world: JournalWorld, journal: Journal):
    await journal.write(an_intent())
    world.cluster.refuse(UPDATE, error=ServerError("no"))
    with pytest.raises(ServerError):
        await journal.write(an_intent(node_name="n2"))
    await journal.write(an_intent())
    assert {"u1": an_intent()} == journal.open() == await world.stored()


async def test_an_intent_is_written_again_when_a_change_of_it_may_have_been_stored(
    world: JournalWorld, journal: Journal
):
    """Else the next process would repeat the call that was never made."""
    await journal.write(an_intent())
    world.cluster.refuse(UPDATE, error=Unreachable("connection reset"), after=True)
    with pytest.raises(Unreachable):
        await journal.write(an_intent(node_name="n2"))
    assert {"u1": an_intent(node_name="n2")} == await world.stored()
    assert {"u1": an_intent()} == journal.open()
    await journal.write(an_intent())
    assert {"u1": an_intent()} == await world.stored()


async def test_who_lets_a_volume_go_waits_though_its_begin_may_not_have_been_stored(
    world: JournalWorld, journal: Journal
):
    """The write was taken, and only its answer lost: the next process would find the intent open."""
    await journal.write(an_intent("u2"))
    world.cluster.refuse(UPDATE, error=Unreachable("connection reset"), after=True)
    with pytest.raises(Unreachable):
        await journal.write(an_intent("u1"))
    assert {"u1", "u2"} == set(await world.stored())
    await journal.wait_for_end("u1")
    assert {"u2"} == set(await world.stored())


async def test_without_the_right_to_write_there_nothing_is_begun_until_it_is_granted(world: JournalWorld):
    """Whoever is about to create a volume hears which right is missing, and so does its user."""
    rule = world.cluster.refuse(CREATE, times=None, error=Forbidden("leases is forbidden"))
    async with world.journal() as journal:
        for _ in range(3):
            with pytest.raises(Forbidden, match="leases is forbidden"):
                await journal.write(an_intent())
        assert 1 == world.story.count(CREATE), "no storm of refused requests"
        assert {} == journal.open()
        rule.times = 0
        await asyncio.sleep(AGAIN_S + 1)
        await journal.write(an_intent())
        assert ["u1"] == list(await world.stored())


class Reviewed(RecordingCluster):
    """A user with only these rights; None where the API server can't say, and answers what he asks by the error."""

    rights: frozenset[str] | None = frozenset()
    evaluation_error = ""

    async def create(self, kind: Kind[Any], body: Any, namespace: str = "") -> Any:
        if kind.name != "SelfSubjectAccessReview":
            return await super().create(kind, body, namespace)
        self.story.append("review")
        if self.rights is None:
            raise NotServed(NOT_SERVED)
        attributes = body["spec"]["resourceAttributes"]
        assert ("coordination.k8s.io", "leases", "storage") == (
            attributes["group"],
            attributes["resource"],
            attributes["namespace"],
        )
        return {
            **body,
            "status": {"allowed": attributes["verb"] in self.rights, "evaluationError": self.evaluation_error},
        }


async def without_rights(rights: frozenset[str] | None = frozenset(), evaluation_error: str = "") -> JournalWorld:
    world = await JournalWorld().base()
    world.cluster = cluster = Reviewed(world.users, world.story)
    cluster.rights, cluster.evaluation_error = rights, evaluation_error
    for verb in ("create", "update", "get"):
        cluster.refuse(f"{verb} leases", times=None, error=Forbidden("leases is forbidden"), perhaps=True)
    return world


@each_row("rights", [frozenset(), frozenset({"get", "update"})], ids=["none", "almost all"])
async def test_who_may_not_write_there_for_certain_goes_on_in_memory(rights):
    """A swapped image must work under the rights that upstream's has."""
    world, metrics = await without_rights(rights), Metrics()
    async with world.journal(metrics=metrics.once(JournalMetrics)) as journal:
        assert 1 == metric(metrics, IN_MEMORY)
        asked = len(world.story)
        await journal.write(an_intent())
        assert {"u1": an_intent()} == journal.open()
        await journal.end("u1")
        await journal.wait_for_end("u1")
        await journal.tidy()
        await asyncio.sleep(100)
        assert {} == journal.open()
        assert asked == len(world.story), "nothing more is asked of Leases"
        assert 3 == world.story.count("review")
    assert 0 == metric(metrics, IN_MEMORY), "another one may lead by now"


@each_row(
    ("rights", "evaluation_error"),
    [(None, ""), (frozenset(), "webhook: no answer"), (frozenset({"get", "create", "update"}), "")],
    ids=["can't be asked", "can't be told", "passing"],
)
async def test_where_no_right_is_missing_for_certain_nothing_is_begun(rights, evaluation_error):
    """A refusal that passes must not make the provisioner forgetful."""
    world, metrics = await without_rights(rights, evaluation_error), Metrics()
    async with world.journal(metrics=metrics.once(JournalMetrics)) as journal:
        with pytest.raises(Forbidden, match="leases is forbidden"):
            await journal.write(an_intent())
        assert {} == journal.open()
        assert 0 == metric(metrics, IN_MEMORY)


async def test_in_memory_nothing_is_adopted_that_an_earlier_provisioner_left(
    world: JournalWorld, capsys: pytest.CaptureFixture[str]
):
    """Who may read there and not write can't end it. Its volume's object stays, for it would be found again as a lost
    one.
    """
    async with world.journal("first") as first:
        await first.write(an_intent("u1"))
    world.story.clear()
    world.cluster = cluster = Reviewed(world.users, world.story)
    cluster.rights = frozenset({"get"})
    cluster.refuse(UPDATE, times=None, error=Forbidden("leases is forbidden"))
    async with world.journal("second") as journal:
        found: list[str] = []
        journal.on_found(found.extend)
        assert re.search(
            "volumes begun by an earlier provisioner cannot be finished without that right.* count=1",
            capsys.readouterr().err,
        )
        await asyncio.sleep(2 * REFRESH_S)
        await journal.write(an_intent("u2"))
        await asyncio.sleep(2 * REFRESH_S)
        assert ["u2"] == list(journal.open())
        await journal.end("u2")
        await journal.wait_for_end("u2")
        with pytest.raises(Forbidden, match="no right to write that it is over"):
            await journal.wait_for_end("u1")
        await journal.tidy()
        await asyncio.sleep(2 * TIDY_S)
    assert [] == found
    assert 1 == world.story.count(UPDATE)
    assert "could not write" not in capsys.readouterr().err


async def test_rights_that_are_lost_later_make_nobody_forgetful(world: JournalWorld):
    world.cluster = Reviewed(world.users, world.story)
    async with world.journal() as journal:
        await journal.write(an_intent("u1"))
        world.cluster.refuse(UPDATE, times=None, error=Forbidden("leases is forbidden"))
        for _ in range(2):
            with pytest.raises(Forbidden):
                await journal.write(an_intent("u2"))
            await asyncio.sleep(RETAKE_S + 1)
        assert 0 == world.story.count("review")


async def test_a_journal_that_is_found_late_goes_before_what_was_about_to_be_begun(world: JournalWorld):
    async with world.journal("first") as first:
        await first.write(an_intent(node_name="n1"))
    found: list[str] = []
    world.cluster.refuse(UPDATE, error=Unreachable("away"))
    async with world.journal("second") as second:
        second.on_found(lambda intents: found.extend(intents))
        await asyncio.sleep(AGAIN_S - 1)
        assert [] == found
        with pytest.raises(Unreachable):
            await second.write(an_intent(node_name="n2"))
        await asyncio.sleep(2)
        assert ["u1"] == found
        assert "n1" == second.open()["u1"].last.node_name


async def test_what_a_living_holder_has_open_is_not_taken_over_before_its_journal_is(world: JournalWorld):
    """It may end it, and its user keep the volume."""
    async with world.journal("first") as first:
        await first.write(an_intent("u1"))
        await asyncio.sleep(2 * REFRESH_S)
        rule = world.cluster.refuse(UPDATE, times=None, error=Unreachable("away"))
        found: list[str] = []
        async with world.journal("second") as second:
            second.on_found(found.extend)
            await asyncio.sleep(3 * AGAIN_S)
            assert ([], {}) == (found, second.open())
            rule.times = 0
            await first.end("u1")
            await first.wait_for_end("u1")
            await asyncio.sleep(2 * AGAIN_S)
            await second.write(an_intent("u2"))
            assert ([], ["u2"]) == (found, list(second.open()))


async def test_a_former_holder_begins_nothing_more(world: JournalWorld):
    async with world.journal("first") as first:
        await first.write(an_intent("u1"))
        async with world.journal("second") as second:
            with pytest.raises(Superseded):
                await first.write(an_intent("u2"))
            await second.write(an_intent("u3"))
            assert {"u1", "u3"} == set(await world.stored())


async def test_a_former_holder_begins_nothing_on_a_new_page_either(world: JournalWorld):
    """The new holder has not listed that page, so it must not count."""
    large = filler(lease_codec.PAGE_BYTES_MAX - 500)
    async with world.journal("first") as first:
        await first.write(an_intent("u1", request=large))
        async with world.journal("second"):
            with pytest.raises(Superseded):
                await first.write(an_intent("u2", request=large))


async def test_who_stood_still_while_another_one_ended_its_intent_may_not_repeat_the_call(world: JournalWorld):
    """A process that was stopped, or a machine that was frozen: for all it knows the intent is stored. The volume would
    be nobody's.
    """
    async with world.journal("first") as first:
        await first.write(an_intent("u1"))
        async with world.journal("second") as second:
            await second.end("u1")
            await second.wait_for_end("u1")
            with pytest.raises(Superseded):
                await first.write(an_intent("u1"))
            assert {} == await world.stored()


class Gated(RecordingCluster):
    """Its writes wait until they are let through."""

    def __init__(self, world: JournalWorld) -> None:
        super().__init__(world.users, [])
        self.waits, self.goes_on = asyncio.Event(), asyncio.Event()

    async def replace(self, *args: Any, **kwargs: Any) -> Any:
        self.waits.set()
        await self.goes_on.wait()
        return await super().replace(*args, **kwargs)


@contextlib.asynccontextmanager
async def taken_over_meanwhile(world: JournalWorld) -> AsyncIterator[Journal]:
    """The second journal has read all pages before the first begins u2 on a new page, whose last write gets no
    answer.
    """
    large, gated = filler(lease_codec.PAGE_BYTES_MAX - 500), Gated(world)
    async with world.journal("first") as first:
        await first.write(an_intent("u1", request=large))
        second = Journal(gated, PLACE, "second", world.clock)
        starting = asyncio.create_task(second.start(), name="second")
        await gated.waits.wait()
        world.cluster.refuse(UPDATE, name=PLACE.page_name(0), error=Unreachable("connection reset"))
        with pytest.raises(Unreachable):
            await first.write(an_intent("u2", request=large))
        gated.goes_on.set()
        await starting
        running = asyncio.create_task(second.run(), name="second")
        with pytest.raises(Superseded):
            await first.write(an_intent("u2", request=large))
        yield second
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_what_a_former_holder_left_on_a_page_that_does_not_count_was_never_begun(world: JournalWorld):
    async with taken_over_meanwhile(world) as second:
        assert {"u1"} == set(second.open())
        await second.write(an_intent("u2"))
        await second.end("u2")
        await second.wait_for_end("u2")
        async with world.journal("third") as third:
            assert {"u1"} == set(third.open())
            assert () == lease_codec.entries_of(await world.page(1)), "nobody else shall find it either"


async def test_a_new_page_is_used_though_a_former_holder_has_left_it_behind(world: JournalWorld):
    async with taken_over_meanwhile(world) as second:
        await second.write(an_intent("u3", request="x" * 1000))
        async with world.journal("third") as third:
            assert {"u1", "u3"} == set(third.open())


async def test_what_a_former_holder_ends_while_it_is_taken_over_is_not_open(world: JournalWorld):
    """It may have let the volume go by then, which somebody wants to keep."""
    gated = Gated(world)
    async with world.journal("first") as first:
        await first.write(an_intent("u1"))
        second = Journal(gated, PLACE, "second", world.clock)
        starting = asyncio.create_task(second.start(), name="second")
        await gated.waits.wait()
        await first.end("u1")
        await first.wait_for_end("u1")
        await first.write(an_intent("u2"))
        gated.goes_on.set()
        await starting
        assert {"u2"} == set(second.open())


async def test_who_takes_the_journal_back_keeps_open_what_the_other_one_has_open(world: JournalWorld):
    """Also what it had ended itself, if that was not stored by then: the other one relies on what it has read."""
    async with world.journal("first") as first:
        await first.write(an_intent("u1"))
        await first.end("u1")
        async with world.journal("second") as second:
            assert {"u1"} == set(second.open())
            with pytest.raises(Superseded):
                await first.write(an_intent("u2"))
            await asyncio.sleep(RETAKE_S + 1)
            await first.write(an_intent("u2"))
            with pytest.raises(Superseded):
                await second.write(an_intent("u1"))
            assert {"u1", "u2"} == set(await world.stored()) == set(first.open())


@each_row("lost", ["labels", "annotation", "page 0"])
async def test_a_page_is_found_by_its_name_alone(lost: str):
    """Labels and annotations come off: by kubectl, by a restored backup, by a webhook."""
    world = await JournalWorld().base()
    async with world.journal("first") as journal:
        for uid in ("u0", "u1"):
            await journal.write(an_intent(uid, request=filler(80_000)))
    if lost == "page 0":
        await world.users.delete(LEASES, PLACE.page_name(0), "storage")
    else:
        body = {"metadata": {"labels": None} if lost == "labels" else {"annotations": {lease_codec.DRIVER: None}}}
        for number in (0, 1):
            await world.users.patch(LEASES, PLACE.page_name(number), Patch(PatchType.MERGE, body), "storage")
    async with world.journal("second") as journal:
        assert ({"u1"} if lost == "page 0" else {"u0", "u1"}) == set(journal.open())
        await journal.write(an_intent("u2"))
        assert PLACE.label == (await world.page())["metadata"]["labels"][lease_codec.INTENTS]
    async with world.journal("third") as journal:
        assert {"u1", "u2"} <= set(journal.open())


async def test_an_intent_that_grows_beyond_its_page_stands_in_one_place(world: JournalWorld):
    """Else its end would leave the former text behind."""
    async with world.journal("first") as journal:
        await journal.write(an_intent("u0", request=filler(80_000)))
        await journal.write(an_intent("u2", request=filler(60_000)))
        await journal.write(an_intent("u1"))
        grown = an_intent("u1", request=filler(30_000))
        await journal.write(grown)
        async with world.journal("second") as second:
            assert grown == second.open()["u1"]
            await second.end("u1")
            await second.wait_for_end("u1")
            assert {"u0", "u2"} == set(await world.stored())


async def test_an_intent_that_moves_to_another_page_is_missing_on_neither(world: JournalWorld, journal: Journal):
    await journal.write(an_intent("u0", request=filler(80_000)))
    await journal.write(an_intent("u1"))
    world.cluster.refuse(CREATE, error=Unreachable("connection reset"))
    grown, beside = an_intent("u1", request=filler(30_000)), an_intent("u2")
    refused, _ = await asyncio.gather(journal.write(grown), journal.write(beside), return_exceptions=True)
    assert isinstance(refused, Unreachable)
    assert {"u0", "u1", "u2"} == set(await world.stored())


async def test_an_intent_whose_change_was_refused_stays_where_it_stands(world: JournalWorld, journal: Journal):
    await journal.write(an_intent("u1", request=filler(60_000)))
    world.cluster.refuse(UPDATE, error=ServerError("no"))
    changed, beside = an_intent("u1"), an_intent("u2", request=filler(60_000))
    refused = await asyncio.gather(journal.write(changed), journal.write(beside), return_exceptions=True)
    assert [ServerError, ServerError] == [type(error) for error in refused]
    await journal.write(an_intent("u3", request=filler(60_000)))
    assert {"u1", "u3"} == set(await world.stored())


async def test_nothing_is_kept_of_what_has_ended(journal: Journal):
    for number in range(10):
        await journal.write(an_intent(f"u{number}"))
        await journal.end(f"u{number}")
    await journal.tidy()
    assert {} == journal._store._lease_of


async def test_an_error_that_is_told_again_and_again_does_not_grow(world: JournalWorld):
    """An exception that is raised anew keeps the frames of all who ever met it, and what they held."""
    world.cluster.refuse(CREATE, times=None, error=ServerError("no"))
    depths = set()
    async with world.journal() as journal:
        for _ in range(3):
            with pytest.raises(ServerError) as caught:
                await journal.write(an_intent())
            depths.add(len(traceback.extract_tb(caught.value.__traceback__)))
    assert 1 == len(depths)


async def test_who_asks_hears_what_keeps_the_journal_and_what_comes_next(world: JournalWorld):
    """Deletion shows it on the PersistentVolume, creation on the claim: always in the same words, so that events are
    counted up.
    """
    rule = world.cluster.refuse(CREATE, times=None, error=Forbidden("leases is forbidden"))
    told = set()
    async with world.journal("first") as first:
        for wait_s in (0.0, 1.0, AGAIN_S):
            await asyncio.sleep(wait_s)
            for asked in (first.write(an_intent()), first.wait_for_end("u1")):
                with pytest.raises(Forbidden) as caught:
                    await asked
                told.add(str(caught.value))
        assert {"could not take over the journal of intents, tried again every 5 s: leases is forbidden"} == told
        rule.times = 0
        await asyncio.sleep(AGAIN_S)
        async with world.journal("second"):
            for asked in (first.write(an_intent()), first.wait_for_end("u1")):
                with pytest.raises(Superseded, match="end one of the two, or let them elect a leader"):
                    await asked


@each_row("there", [True, False])
async def test_the_journal_of_one_node_goes_with_its_node(there: bool):
    world, place = await JournalWorld().base(), JournalLocation("storage", "csi.test", "node1")
    wanted = None
    if there:
        node = await world.users.create(NODES.whole(), {"metadata": {"name": "node1"}})
        wanted = [{"apiVersion": "v1", "kind": "Node", "name": "node1", "uid": node["metadata"]["uid"]}]
    async with world.journal(place=place) as journal:
        await journal.write(an_intent())
        page = await world.users.get(LEASES.whole(), place.page_name(0), "storage")
        assert wanted == page["metadata"].get("ownerReferences")


class Overtaken(RecordingCluster):
    """Before the GET of this number, from 1, somebody else takes the journal over and begins u9."""

    def __init__(self, world: JournalWorld, at: int) -> None:
        super().__init__(world.users, [])
        self._world, self.left = world, at

    async def get(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        self.left -= 1
        if self.left == 0:
            other = Journal(self._world.users, PLACE, "other", self._world.clock)
            await other.start()
            running = asyncio.create_task(other.run(), name="other")
            await other.write(an_intent("u9"))
            running.cancel()
        return await super().get(kind, name, namespace)


@each_row("at", [1, 2])
@each_row("counts", [True, False], ids=["known page", "new page"])
async def test_who_is_overtaken_while_it_looks_again_writes_nothing_over(counts: bool, at: int):
    """A page that it reads after it has made sure that it holds the journal may be the new holder's by then."""
    world = await JournalWorld().base()
    large = filler(lease_codec.PAGE_BYTES_MAX - 500)
    world.cluster = cluster = Overtaken(world, 0)
    async with world.journal("first") as first:
        await first.write(an_intent("u1", request=large))
        if counts:
            await first.write(an_intent("u2"))
            await world.users.patch(
                LEASES, PLACE.page_name(1), Patch(PatchType.MERGE, {"metadata": {"labels": {"a": "b"}}}), "storage"
            )
        else:
            await world.users.create(LEASES.whole(), {"metadata": {"name": PLACE.page_name(1)}}, "storage")
        cluster.left = at
        with contextlib.suppress(Superseded):
            await first.write(an_intent("u3"))
        assert {"u1", "u9"} <= set(await world.stored())
        assert first._store.held is (lease_codec.holder_of(await world.page()) == "first")


async def test_after_a_while_a_living_former_holder_takes_the_journal_back(
    world: JournalWorld, capsys: pytest.CaptureFixture[str]
):
    """Two provisioners without an election: neither may end, and neither loses what the other has begun."""
    found: list[str] = []
    async with world.journal("first") as first:
        first.on_found(lambda intents: found.extend(intents))
        await first.write(an_intent("u1"))
        async with world.journal("second") as second:
            await second.write(an_intent("u2"))
            with pytest.raises(Superseded):
                await first.write(an_intent("u3"))
            assert re.search("end one of the two, or let them elect a leader.* again_in_s=30", capsys.readouterr().err)
            await asyncio.sleep(RETAKE_S + 1)
            assert 1 == capsys.readouterr().err.count("took over the journal of intents: volumes are created again")
            await first.write(an_intent("u3"))
        assert ["u2"] == found
        assert {"u1", "u2", "u3"} == set(first.open()) == set(await world.stored())


async def test_what_others_do_to_the_lease_does_not_stop_the_holder(world: JournalWorld, journal: Journal):
    await journal.write(an_intent("u1"))
    touched = Patch(PatchType.MERGE, {"metadata": {"labels": {"seen": "yes"}}})
    await world.users.patch(LEASES, PLACE.page_name(0), touched, "storage")
    await journal.write(an_intent("u2"))
    await world.users.delete(LEASES, PLACE.page_name(0), "storage")
    await journal.write(an_intent("u3"))
    assert {"u1", "u2", "u3"} == set(await world.stored())


async def test_many_intents_take_several_pages_and_all_are_found(world: JournalWorld):
    wanted = {f"u{number}": an_intent(f"u{number}", request=filler(32_000)) for number in range(8)}
    async with world.journal("first") as journal:
        for intent in wanted.values():
            await journal.write(intent)
        assert 3 <= len((await world.users.list(LEASES)).items) <= 4
    async with world.journal("second") as journal:
        assert wanted == journal.open()


async def test_the_journal_has_an_end(monkeypatch):
    monkeypatch.setattr(lease_store, "PAGES_MAX", 1)
    world = await JournalWorld().base()
    async with world.journal() as journal:
        await journal.write(an_intent("u1", request=filler(80_000)))
        with pytest.raises(TooLarge):
            await journal.write(an_intent("u2", request=filler(80_000)))
        assert ["u1"] == list(journal.open())


async def test_a_request_that_fits_into_no_object_is_refused_at_once(world: JournalWorld, journal: Journal):
    with pytest.raises(TooLarge, match="too large to be written down"):
        await journal.write(an_intent(request=filler(lease_codec.ENTRY_BYTES_MAX)))
    assert ({}, {}) == (journal.open(), await world.stored())
    await journal.write(an_intent(request="y" * 600_000))  # packed it counts


async def test_a_journal_that_fills_up_says_so_before_it_is_full(monkeypatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(lease_store, "PAGES_MAX", 4)
    monkeypatch.setattr(lease_store, "PAGES_MANY", 2)
    world = await JournalWorld().base()
    async with world.journal() as journal:
        for number in range(2):
            await journal.write(an_intent(f"u{number}", request=filler(80_000)))
        assert "fills up" not in capsys.readouterr().err
        await journal.write(an_intent("u2", request=filler(80_000)))
        assert re.search("the journal of intents fills up.*pages=3 pages_max=4 intents=2", capsys.readouterr().err)
    assert {"u0", "u1", "u2"} == set(await world.stored())


async def found_beside(world: JournalWorld, text: bytes) -> None:
    """A later version has left this entry, and an intent that can be read."""
    texts = [text, lease_codec.encoded(an_intent("u1"))]
    body = lease_codec.page_body(PLACE, 0, None, "later", texts, world.clock.wall_s())
    await world.users.create(LEASES.whole(), body, "storage")


LATER = b'{"uid":"u0","request":{"an":"object"},"new":[1]}'


async def test_an_intent_of_a_later_version_is_kept_and_holds_up_nobody_else(
    world: JournalWorld, capsys: pytest.CaptureFixture[str]
):
    """After a rollback: the version that wrote it comes back, and knows what it means."""
    await found_beside(world, LATER)
    async with world.journal() as journal:
        assert {"u1"} == set(journal.open())
        assert re.search("an intent can't be read: it is kept.*uid=.u0", capsys.readouterr().err)
        with pytest.raises(Conflict, match="a later version"):
            await journal.write(an_intent("u0"))
        with pytest.raises(Conflict, match="a later version"):
            await journal.wait_for_end("u0")
        await journal.write(an_intent("u2"))
        await journal.end("u1")
        await journal.wait_for_end("u1")
        assert {"u0", "u2"} == set(lease_codec.texts_of(await world.page()))
    async with world.journal("next") as journal:
        assert {"u2"} == set(journal.open())
        assert LATER == lease_codec.texts_of(await world.page())["u0"]


async def test_an_intent_keeps_the_fields_that_a_later_version_gave_it(world: JournalWorld):
    known = lease_codec.encoded(an_intent("u0"))
    await found_beside(world, known[:-1] + b',"new":[1]}')
    async with world.journal() as journal:
        await journal.write(an_intent("u2"))
        assert {"u0", "u1", "u2"} == set(journal.open())
    assert b'"new":[1]' in lease_codec.texts_of(await world.page())["u0"]


@each_row("is_awaited", [True, False])
async def test_a_request_of_a_later_version_is_told_on_its_claim_and_not_repeated(is_awaited):
    """It may ask for more than this version can say."""
    world = ProvisioningWorld()
    await world.make_class()
    uid = (await world.make_claim())["metadata"]["uid"]
    if not is_awaited:
        await world.delete_claim()
    later = an_entry(Intent(uid, "default", "c", f"pvc-{uid}", '{"a_field_of_csi_2": true}', "{}"))
    place = JournalLocation("default", "csi.test")
    body = lease_codec.page_body(place, 0, None, "later", [lease_codec.encoded(later)], world.clock.wall_s())
    await world.users.create(LEASES.whole(), body, "default")
    world.intents = Journal(world.cluster, place, "me", world.clock)
    async with world.provisioning():
        assert "the request that an earlier provisioner wrote down can't be read" in await world.failed()
        await world.settle(1000)
        assert ([uid], []) == (list(world.intents.open()), world.driver.made(CREATE_VOLUME))
        await world.make_claim("other")
        await world.provisioned("other")


DAMAGES = {
    "of a later version": "9:whatever",
    "not base64": "1:whatever!",
    "not packed": "1:AAAA",
    "cut off": packed(b'[{"uid"'),
    "nobody's": packed(b"[{}]"),
    "too deep": packed(b"[" * 100_000),
}


@each_row("damaged", DAMAGES.values(), ids=DAMAGES)
async def test_a_damaged_page_is_kept_as_it_is_and_another_one_used(damaged: str):
    world = await JournalWorld().base()
    async with world.journal("first") as journal:
        await journal.write(an_intent("u1"))
    damage = {"metadata": {"annotations": {lease_codec.INTENTS: damaged}}}
    await world.users.patch(LEASES, PLACE.page_name(0), Patch(PatchType.MERGE, damage), "storage")
    async with world.journal("second") as journal:
        await journal.write(an_intent("u2"))
        assert damaged == (await world.page())["metadata"]["annotations"][lease_codec.INTENTS]
        assert "second" == lease_codec.holder_of(await world.page())
        assert ["u2"] == [intent.uid for intent in lease_codec.entries_of(await world.page(1))]


async def test_what_stands_behind_a_page_that_is_missing_is_found(world: JournalWorld):
    """Somebody has deleted a Lease: that costs what stood there, and no more."""
    async with world.journal("first") as journal:
        for number in range(3):
            await journal.write(an_intent(f"u{number}", request=filler(100_000)))
    assert ["u2"] == [intent.uid for intent in lease_codec.entries_of(await world.page(2))]
    await world.users.delete(LEASES, PLACE.page_name(1), "storage")
    async with world.journal("second") as journal:
        assert {"u0", "u2"} == set(journal.open())


@each_row("number", [0, 1])
@each_row("harm", ["deleted", "garbled", "emptied", "of-another-driver"])
async def test_whatever_is_done_to_a_page_what_was_begun_is_stored(number: int, harm: str):
    world = await JournalWorld().base()
    notes = {
        "garbled": {lease_codec.INTENTS: "9:whatever"},
        "emptied": {lease_codec.INTENTS: None},
        "of-another-driver": {lease_codec.DRIVER: "other"},
    }
    async with world.journal() as journal:
        for uid in ("u0", "u1"):
            await journal.write(an_intent(uid, request=filler(80_000)))
        name = PLACE.page_name(number)
        if harm == "deleted":
            await world.users.delete(LEASES, name, "storage")
        else:
            await world.users.patch(
                LEASES,
                name,
                Patch(PatchType.MERGE, {"metadata": {"annotations": notes[harm], "labels": None}}),
                "storage",
            )
        again = an_intent(f"u{number}", request="z" * 1000)
        await journal.write(again)
        assert again == (await world.stored())[f"u{number}"]
        assert {"u0", "u1"} == set(await world.stored()) == set(journal.open())
    async with world.journal("second") as journal:
        assert {"u0", "u1"} == set(journal.open())


async def test_a_page_that_another_process_makes_meanwhile_is_taken_over_at_once(world: JournalWorld):
    world.cluster.refuse(CREATE, error=AlreadyExists("made meanwhile"))
    async with world.journal() as journal:
        await journal.write(an_intent())
        assert ["u1"] == list(await world.stored())
    assert 2 == world.story.count(CREATE)


async def test_a_page_that_was_there_already_and_does_not_count_is_written_anew(world: JournalWorld):
    body = {
        "metadata": {
            "name": PLACE.page_name(1),
            "annotations": {lease_codec.INTENTS: "9:whatever", lease_codec.DRIVER: "csi.test"},
        }
    }
    async with world.journal() as journal:
        await world.users.create(LEASES.whole(), body, "storage")
        await journal.write(an_intent("u0", request=filler(80_000)))
        await journal.write(an_intent("u1", request=filler(80_000)))
        assert ["u1"] == [intent.uid for intent in lease_codec.entries_of(await world.page(1))]


async def test_two_drivers_and_two_nodes_have_journals_of_their_own(world: JournalWorld):
    alike = (
        JournalLocation("storage", "csi-test"),
        JournalLocation("storage", "csi.test", "node1"),
        JournalLocation("storage", "csi.test", "node2"),
    )
    async with contextlib.AsyncExitStack() as stack:
        journals = [await stack.enter_async_context(world.journal("me", place)) for place in (PLACE, *alike)]
        for number, journal in enumerate(journals):
            await journal.write(an_intent(f"u{number}"))
        assert [["u0"], ["u1"], ["u2"], ["u3"]] == [list(await world.stored(place)) for place in (PLACE, *alike)]


async def test_a_start_whose_answer_was_lost_is_made_good(world: JournalWorld):
    world.cluster.refuse(CREATE, error=Unreachable("gone"), after=True)
    async with world.journal() as journal:
        await asyncio.sleep(AGAIN_S + 1)
        await journal.write(an_intent())
        assert "me" == lease_codec.holder_of(await world.page())


# -- what nobody looked after


@each_row(("away_s", "unattended"), [(UNATTENDED_S - 1, False), (UNATTENDED_S + 1, True)])
async def test_what_is_found_late_is_marked_for_good(away_s: float, unattended: bool):
    world = await JournalWorld().base()
    async with world.journal("first") as journal:
        await journal.write(an_intent())
    await asyncio.sleep(away_s)
    for who in ("second", "third"):
        async with world.journal(who) as journal:
            assert unattended is (journal.open()["u1"].own is OwnVolume.UNSEEN)


async def test_what_is_open_for_long_is_not_taken_for_unattended(world: JournalWorld):
    async with world.journal("first") as journal:
        await journal.write(an_intent())
        await asyncio.sleep(10 * UNATTENDED_S)
        assert 10 * UNATTENDED_S / REFRESH_S + 2 > world.story.count(UPDATE)
    async with world.journal("second") as journal:
        assert journal.open()["u1"].own is OwnVolume.NONE


@each_row(("away_s", "policy"), [(60.0, "Delete"), (2 * UNATTENDED_S, "Retain")])
async def test_a_volume_that_may_have_been_kept_on_purpose_is_retained(away_s: float, policy: str):
    """By whoever let another provisioner finish the claim meanwhile, and took the volume out of its claim."""
    world = ProvisioningWorld()
    place = JournalLocation("default", "csi.test")
    world.intents = Journal(world.users, place, "first", world.clock)
    await world.make_class(reclaimPolicy="Delete")
    name = f"pvc-{(await world.make_claim())['metadata']['uid']}"
    world.driver.script(CREATE_VOLUME, Lose())
    async with world.provisioning():
        await world.failed()
    await world.delete_claim()
    await asyncio.sleep(away_s)
    world.intents = Journal(world.users, place, "second", world.clock)
    async with world.provisioning():
        assert policy == (await world.volume(name))["spec"]["persistentVolumeReclaimPolicy"]
        if policy == "Retain":
            assert f"it may have been kept on purpose, so {name} is retained" in await world.event("VolumeRetained")
        await world.patch(PERSISTENT_VOLUMES, name, {"status": {"phase": "Released"}}, subresource="status")
        await world.settle(100)
        assert (policy == "Retain") is bool(world.driver.volumes)
        assert {} == world.intents.open()


async def test_nobody_keeps_a_volume_whose_claim_still_waits_for_it():
    world = ProvisioningWorld()
    world.intents = Journal(world.users, JournalLocation("default", "csi.test"), "first", world.clock)
    await world.make_class(reclaimPolicy="Delete")
    name = f"pvc-{(await world.make_claim())['metadata']['uid']}"
    world.driver.script(CREATE_VOLUME, Lose(), Lose())
    async with world.provisioning():
        await world.failed()
    await asyncio.sleep(2 * UNATTENDED_S)
    world.intents = Journal(world.users, JournalLocation("default", "csi.test"), "second", world.clock)
    async with world.provisioning(calls=2):
        await world.delete_claim()
        assert "Delete" == (await world.volume(name))["spec"]["persistentVolumeReclaimPolicy"]


async def test_a_volume_that_may_have_been_kept_on_purpose_is_not_deleted_for_being_unusable():
    world = ProvisioningWorld()
    place = JournalLocation("default", "csi.test")
    world.intents = Journal(world.users, place, "first", world.clock)
    await world.base()
    world.driver.script(CREATE_VOLUME, Lose())
    async with world.provisioning():
        await world.failed()
    await world.delete_claim()
    world.driver.volumes = dict.fromkeys(world.driver.volumes, 1)
    await asyncio.sleep(2 * UNATTENDED_S)
    world.intents = Journal(world.users, place, "second", world.clock)
    async with world.provisioning():
        await world.failed("is left alone: it may have been kept on purpose")
        await world.settle(100)
        assert [] == world.driver.made(DELETE_VOLUME)
        assert {} == world.intents.open()
