"""The cache that follows the API server, and its handlers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest

from mooring.api.core import PERSISTENT_VOLUMES as PVS
from mooring.api.core import PersistentVolume
from mooring.api.meta import Key
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.kube.cache.feed import YIELD_EVERY
from mooring.kube.cache.informer import SILENCE_S_MAX, Cause, Change, FreshCache, Informer
from mooring.kube.cluster import Patch, PatchType
from mooring.kube.errors import NOT_SERVED, ApiError, Forbidden, Gone, NotFound, NotServed, ServerError
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.kube.fake_cluster import FakeCluster, lost
from tests.unit.kube.objects import pv_at

pytestmark = in_virtual_time
Told = list[tuple[Cause, str | None, str | None]]  # cause, version before, version after


class Followed:
    """An informer at work and what its handler was told."""

    def __init__(self, cluster: FakeCluster, **options: object) -> None:
        self.informer: Informer[PersistentVolume] = Informer(
            cluster,
            PVS,
            clock=LoopClock(),
            randomness=Random(1),
            indexes={"driver": lambda pv: [pv.spec.csi.driver] if pv.spec.csi else []},
            **options,  # type: ignore[arg-type]
        )
        self.told: Told = []
        self.informer.on_change(self._hear)

    def _hear(self, change: Change[PersistentVolume]) -> None:
        old, new = (obj.metadata.resource_version if obj else None for obj in (change.old, change.new))
        (changed,) = {Key("", obj.metadata.name) for obj in (change.old, change.new) if obj}
        stored = self.informer.store.get(changed)
        if change.new is None:
            assert stored is None or stored.metadata.uid != change.old.metadata.uid
        else:
            assert stored is change.new or int(stored.metadata.resource_version) > int(
                change.new.metadata.resource_version
            )
        self.told.append((change.cause, old, new))

    def version_of(self, name: str) -> str | None:
        obj = self.informer.store.get(Key("", name))
        return obj.metadata.resource_version if obj else None


@contextlib.asynccontextmanager
async def following(cluster: FakeCluster, **options: object) -> AsyncIterator[Followed]:
    followed = Followed(cluster, **options)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(followed.informer.run(), name=followed.informer.name)
        async with asyncio.timeout(60):
            await followed.informer.synced()
        await settle()  # the watch is open
        yield followed
        task.cancel()


def a_cluster(*names: str, driver: str = "d") -> FakeCluster:
    cluster = FakeCluster()
    for name in names:
        cluster.put(PVS, name, spec={"csi": {"driver": driver, "volumeHandle": name}})
    return cluster


async def settle() -> None:
    await asyncio.sleep(0.01)


@pytest.fixture
async def cluster() -> FakeCluster:
    return a_cluster("a")


async def test_it_knows_when_it_heard_something_last(cluster: FakeCluster):
    async with following(cluster) as followed:
        listed_at = followed.informer.heard_at
        await asyncio.sleep(30)
        assert listed_at == followed.informer.heard_at
        cluster.bookmark()
        await settle()
        bookmarked_at = followed.informer.heard_at
        assert bookmarked_at > listed_at
        await asyncio.sleep(30)
        cluster.put(PVS, "b")
        await settle()
        assert followed.informer.heard_at > bookmarked_at


async def test_what_keeps_it_from_being_filled_is_told_with_its_kind(cluster: FakeCluster):
    cluster.fail("list", ServerError("busy"))
    cluster.fail("list", Forbidden("persistentvolumes is forbidden", reason="Forbidden"))
    followed = Followed(cluster)
    seen = [followed.informer.obstacle]
    async with asyncio.TaskGroup() as group:
        task = group.create_task(followed.informer.run())
        while not followed.informer.has_synced:
            seen.append(followed.informer.obstacle)
            await asyncio.sleep(0.1)
        assert [
            "",
            "can't follow persistentvolumes: busy",
            "can't follow persistentvolumes: persistentvolumes is forbidden",
        ] == list(dict.fromkeys(seen))
        assert "" == followed.informer.obstacle
        task.cancel()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Forbidden("cannot watch", reason="Forbidden"), "can't follow persistentvolumes: cannot watch"),
        (ServerError("busy"), ""),
    ],
    ids=["a missing right", "what passes"],
)
@pytest.mark.parametrize(
    "sign", [FakeCluster.bookmark, FakeCluster.end_watches], ids=["a bookmark", "an end in good time"]
)
async def test_a_watch_that_is_forbidden_is_told_as_long_as_it_is(
    cluster, error: ApiError, told: str, sign: Callable[[FakeCluster], None]
):
    cluster.fail("watch", error, times=3)
    async with following(cluster) as followed:
        assert told == followed.informer.obstacle
        await asyncio.sleep(30)
        sign(cluster)
        await settle()
        assert "" == followed.informer.obstacle


async def test_a_server_that_was_set_back_is_told_until_the_ghosts_are_gone(cluster: FakeCluster):
    restore = cluster.backup()
    async with following(cluster) as followed:
        cluster.put(PVS, "ghost")
        cluster.put(PVS, "a", spec={"csi": {"driver": "other"}})
        await settle()
        assert "3" == followed.version_of("a")
        restore()
        cluster.fail("list", ServerError("starting"), times=3)
        cluster.bookmark()
        await asyncio.sleep(1)
        assert followed.informer.has_synced
        assert "was set back from version 3 to 1" in followed.informer.obstacle
        await asyncio.sleep(30)
        assert (None, "1", "") == (followed.version_of("ghost"), followed.version_of("a"), followed.informer.obstacle)


async def test_a_server_that_was_set_back_is_noticed_also_where_an_own_write_alone_was_ahead_of_it(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
):
    """The watch was far behind, so that its version is one that the restored server has, too: what was written would
    stay for ever.
    """
    async with following(cluster) as followed:
        written = await cluster.get(PVS, "a")
        followed.informer.wrote(
            msgspec.structs.replace(written, metadata=msgspec.structs.replace(written.metadata, resource_version="50"))
        )
        assert "50" == followed.version_of("a")
        cluster.put(PVS, "b")
        cluster.end_watches(lost())
        await asyncio.sleep(10)
        assert "was set back from version 50 to 2" in capsys.readouterr().err
        assert ("1", "2", "") == (followed.version_of("a"), followed.version_of("b"), followed.informer.obstacle)


async def test_an_answer_from_before_shows_at_once_that_the_server_was_set_back(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
):
    """The watch may say nothing for ten minutes. By now the server has given more versions than the cache has seen."""
    restore = cluster.backup()
    async with following(cluster) as followed:
        cluster.put(PVS, "a", spec={"csi": {"driver": "lost"}})
        cluster.put(PVS, "ghost")
        await settle()
        restore()
        for number in range(5):
            cluster.put(PVS, f"new{number}")
        cluster.end_watches()  # those of the former server; the next one goes on from version 3
        await settle()
        assert ("2", "3") == (followed.version_of("a"), followed.version_of("ghost"))
        read = await followed.informer.write(Key("", "a"), cluster.get(PVS, "a"))
        assert "1" == read.metadata.resource_version
        await settle()
        assert ("1", None, "2") == (followed.version_of("a"), followed.version_of("ghost"), followed.version_of("new0"))
        assert "was set back from version 6 to 1" in capsys.readouterr().err
        cluster.put(PVS, "newer")
        await settle()
        assert "7" == followed.version_of("newer")


async def test_several_answers_from_before_at_a_time_call_for_one_list(cluster: FakeCluster):
    restore = cluster.backup()
    async with following(cluster) as followed:
        cluster.put(PVS, "a", spec={"csi": {"driver": "lost"}})
        await settle()
        restore()
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(followed.informer.write(Key("", "a"), cluster.get(PVS, "a")))
        await settle()
        assert "1" == followed.version_of("a")
        assert 2 == len(cluster.asked("list"))


async def test_an_answer_from_before_while_a_list_is_on_its_way_calls_for_another_one(cluster: FakeCluster):
    """That list may be of before, too."""
    restore = cluster.backup()
    async with following(cluster) as followed:
        cluster.put(PVS, "a", spec={"csi": {"driver": "lost"}})
        await settle()
        cluster.fail("list", None, late=True, delay_s=0.5)
        cluster.forget_history()
        cluster.end_watches(Gone("too old resource version", reason="Expired"))
        await settle()  # it is listed, and the answer is on its way
        restore()
        cluster.put(PVS, "b")
        await followed.informer.write(Key("", "a"), cluster.get(PVS, "a"))
        await asyncio.sleep(1)
        assert ("1", "2") == (followed.version_of("a"), followed.version_of("b"))


async def test_answers_that_overtake_each_other_call_for_no_list(cluster: FakeCluster):
    async with following(cluster) as followed:

        async def patch_whose_answer_is_slow() -> PersistentVolume:
            answer = await cluster.patch(PVS, "a", Patch(PatchType.MERGE, {"metadata": {"labels": {"by": "us"}}}))
            await asyncio.sleep(5)
            return answer

        async with asyncio.TaskGroup() as group:
            group.create_task(followed.informer.write(Key("", "a"), patch_whose_answer_is_slow()))
            await asyncio.sleep(1)
            await followed.informer.write(
                Key("", "a"), cluster.patch(PVS, "a", Patch(PatchType.MERGE, {"spec": {"volumeMode": "Block"}}))
            )
        await settle()
        assert 1 == len(cluster.asked("list"))


@pytest.mark.parametrize("may_be_missing", [True, False])
async def test_a_kind_that_may_be_missing_has_no_objects_until_it_is_served(cluster: FakeCluster, may_be_missing: bool):
    """Any other keeps its cache empty and unfilled: a proxy may have lost its way, and nobody must think that nothing
    is there.
    """
    cluster.fail("list", NotServed(NOT_SERVED), times=3)
    followed = Followed(cluster, may_be_missing=may_be_missing)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(followed.informer.run())
        await settle()
        assert (may_be_missing, 0) == (followed.informer.has_synced, len(followed.informer.store))
        await asyncio.sleep(30)
        assert (True, 1) == (followed.informer.has_synced, len(followed.informer.store))
        task.cancel()


async def test_it_is_synced_once_everything_was_listed():
    cluster = a_cluster("a", "b", "c")
    cluster.fail("list", None, delay_s=5)
    followed = Followed(cluster, page_limit=1)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(followed.informer.run())
        await asyncio.sleep(4)
        assert not followed.informer.has_synced
        await followed.informer.synced()
        assert followed.informer.has_synced
        assert len(followed.informer.store) == 3
        assert followed.told == [(Cause.RELIST, None, "1"), (Cause.RELIST, None, "2"), (Cause.RELIST, None, "3")]
        task.cancel()


async def test_the_store_follows_the_watch_and_handlers_hear_of_it(cluster: FakeCluster):
    async with following(cluster) as followed:
        cluster.put(PVS, "a", spec={"csi": {"driver": "other"}})
        cluster.remove(PVS, "a")
        await settle()
        assert followed.told[1:] == [(Cause.WATCH, "1", "2"), (Cause.WATCH, "2", None)]
        assert len(followed.informer.store) == 0


async def test_an_own_write_enters_at_once_and_its_echo_calls_nobody(cluster: FakeCluster):
    async with following(cluster) as followed:
        answer = await cluster.patch(PVS, "a", Patch(PatchType.MERGE, {"metadata": {"finalizers": ["f"]}}))
        followed.informer.wrote(answer)
        assert followed.version_of("a") == "2"
        await settle()
        assert followed.told == [(Cause.RELIST, None, "1"), (Cause.OWN_WRITE, "1", "2")]


async def test_the_write_that_ends_an_object_ends_it_here_at_once_and_for_good():
    cluster = a_cluster()
    cluster.put(PVS, "a", metadata={"finalizers": ["f"], "deletionTimestamp": "2026-11-20T09:00:00Z"})
    async with following(cluster) as followed:
        cluster.watch_lag_s = 1.0
        cluster.put(PVS, "a", metadata={"labels": {"x": "y"}})  # an event on its way
        answer = await cluster.patch(PVS, "a", Patch(PatchType.MERGE, {"metadata": {"finalizers": None}}))
        followed.informer.wrote(answer)
        assert len(followed.informer.store) == 0
        await asyncio.sleep(5)
        assert followed.told == [(Cause.RELIST, None, "1"), (Cause.OWN_WRITE, "1", None)]


async def test_an_object_in_its_grace_period_is_still_there_without_finalizers():
    """As a Pod is that its kubelet has not ended yet."""
    cluster = a_cluster()
    cluster.put(PVS, "a", metadata={"finalizers": ["f"]})
    async with following(cluster) as followed:
        uid = followed.informer.store.values()[0].metadata.uid
        going = pv_at("a", 2, uid=uid, deletionTimestamp="2026-11-20T09:00:00Z", deletionGracePeriodSeconds=30)
        followed.informer.wrote(going)
        assert followed.told == [(Cause.RELIST, None, "1"), (Cause.OWN_WRITE, "1", "2")]


async def test_what_prune_leaves_out_is_not_kept_and_leaves_when_it_no_longer_belongs():
    def only_mine(pv: PersistentVolume) -> PersistentVolume | None:
        return pv if pv.spec.csi and pv.spec.csi.driver == "mine" else None

    cluster = a_cluster("a", driver="mine")
    cluster.put(PVS, "b", spec={"csi": {"driver": "theirs"}})
    async with following(cluster, prune=only_mine) as followed:
        assert [pv.metadata.name for pv in followed.informer.store.values()] == ["a"]
        cluster.put(PVS, "a", spec={"csi": {"driver": "theirs"}})
        cluster.put(PVS, "b", spec={"csi": {"driver": "mine"}})
        await settle()
        assert [pv.metadata.name for pv in followed.informer.store.values()] == ["b"]
        followed.informer.wrote(
            await cluster.patch(PVS, "b", Patch(PatchType.MERGE, {"spec": {"csi": {"driver": "theirs"}}}))
        )
        assert len(followed.informer.store) == 0


async def test_prune_shapes_what_is_kept():
    def without_claim(pv: PersistentVolume) -> PersistentVolume:
        return msgspec.structs.replace(pv, spec=msgspec.structs.replace(pv.spec, claim_ref=None))

    cluster = FakeCluster()
    cluster.put(PVS, "a", spec={"claimRef": {"name": "c"}, "accessModes": ["ReadWriteOnce"]})
    async with following(cluster, prune=without_claim) as followed:
        (volume,) = followed.informer.store.values()
        assert volume.spec.claim_ref is None
        assert volume.spec.access_modes == ("ReadWriteOnce",)


async def test_prune_may_drop_finalizers_without_ending_the_object():
    def bare(pv: PersistentVolume) -> PersistentVolume:
        return msgspec.structs.replace(pv, metadata=msgspec.structs.replace(pv.metadata, finalizers=None))

    cluster = FakeCluster()
    cluster.put(PVS, "a", metadata={"finalizers": ["f", "g"], "deletionTimestamp": "2026-11-20T09:00:00Z"})
    async with following(cluster, prune=bare) as followed:
        followed.informer.wrote(
            await cluster.patch(PVS, "a", Patch(PatchType.MERGE, {"metadata": {"finalizers": ["f"]}}))
        )
        assert followed.version_of("a") == "2"


async def test_a_relist_finds_what_the_watch_missed():
    cluster = a_cluster("a", "b", "c")
    async with following(cluster) as followed:
        kept = followed.informer.store.get(Key("", "c"))
        cluster.end_watches(lost())
        cluster.put(PVS, "b", metadata={"labels": {"x": "y"}})
        cluster.remove(PVS, "a")
        cluster.forget_history()
        await asyncio.sleep(3)
        assert followed.told[3:] == [(Cause.RELIST, "2", "4"), (Cause.RELIST, "1", None)]
        assert followed.informer.store.get(Key("", "c")) is kept, "an unchanged object was decoded and kept anew"


async def test_what_a_list_has_and_can_not_be_read_is_not_gone(capsys: pytest.CaptureFixture[str]):
    """A pod or a PersistentVolume that counts as deleted has its volume detached, or deleted."""
    cluster = a_cluster("a", "b")
    async with following(cluster) as followed:
        cluster.end_watches(lost())
        await settle()
        cluster.put(PVS, "a", spec={"csi": {"driver": 5}})
        cluster.remove(PVS, "b")
        cluster.put(PVS, "b", spec={"csi": {"driver": 5}})
        cluster.forget_history()
        await asyncio.sleep(10)
        assert "1" == followed.version_of("a"), "as it was last known"
        assert followed.version_of("b") is None, "another object has its name"
        assert 'name="a"' in capsys.readouterr().err
        cluster.fail("watch", lost())  # so that the changes come while nothing is watched
        cluster.end_watches(lost())
        await settle()
        cluster.remove(PVS, "a")
        cluster.forget_history()
        await asyncio.sleep(120)
        assert followed.version_of("a") is None


async def test_what_a_relist_repeats_is_not_pruned_again():
    """A list of 20,000 objects of which three changed should cost three."""
    pruned: list[str] = []

    def watched(pv: PersistentVolume) -> PersistentVolume:
        pruned.append(pv.metadata.name)
        return pv

    cluster = a_cluster("a", "b", "c")
    async with following(cluster, prune=watched):
        cluster.end_watches(Gone("too old", reason="Expired"))
        cluster.put(PVS, "b", metadata={"labels": {"x": "y"}})
        await asyncio.sleep(3)
        assert pruned == ["a", "b", "c", "b"]


async def test_indexes_follow():
    cluster = a_cluster("a", "b", driver="one")
    async with following(cluster) as followed:
        cluster.put(PVS, "a", spec={"csi": {"driver": "two"}})
        await settle()
        assert [
            [pv.metadata.name for pv in followed.informer.store.by("driver", value)] for value in ("one", "two")
        ] == [["b"], ["a"]]


async def test_resync_delivers_everything_again():
    cluster = a_cluster(*(f"pv{number}" for number in range(3)))
    async with following(cluster, resync_s=600) as followed:
        followed.told.clear()
        await asyncio.sleep(601)
        assert followed.told == [(Cause.RESYNC, str(version), str(version)) for version in (1, 2, 3)]
        await asyncio.sleep(600)
        assert len(followed.told) == 6


async def test_resync_lets_others_have_their_turn_and_delivers_no_ghosts():
    count = YIELD_EVERY + 50
    cluster = a_cluster(*(f"pv{number:03}" for number in range(count)))
    followed = Followed(cluster, resync_s=600)
    last = f"pv{count - 1:03}"

    def remove_it(change: Change[PersistentVolume]) -> None:
        if change.cause is Cause.RESYNC and ("persistentvolumes", "", last) in cluster.objects:
            cluster.remove(PVS, last)

    followed.informer.on_change(remove_it)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(followed.informer.run())
        await asyncio.sleep(601)
        task.cancel()
    assert followed.told[count + YIELD_EVERY] == (Cause.WATCH, str(count), None)
    assert [cause for cause, _, _ in followed.told].count(Cause.RESYNC) == count - 1


async def test_without_resync_nothing_is_repeated(cluster: FakeCluster):
    async with following(cluster) as followed:
        await asyncio.sleep(7200)
        assert len(followed.told) == 1


async def test_it_may_run_again_and_finds_what_changed_meanwhile():
    """Leadership was lost and won again."""
    cluster = a_cluster("a", "b")
    followed = Followed(cluster)
    for _ in range(2):
        async with asyncio.TaskGroup() as group:
            task = group.create_task(followed.informer.run())
            await followed.informer.synced()
            task.cancel()
        if cluster.objects.get(("persistentvolumes", "", "a")):
            cluster.remove(PVS, "a")
    assert followed.told == [(Cause.RELIST, None, "1"), (Cause.RELIST, None, "2"), (Cause.RELIST, "1", None)]


async def test_a_handler_that_comes_late_is_refused():
    async with following(a_cluster()) as followed:
        with pytest.raises(AssertionError):
            followed.informer.on_change(lambda change: None)


@each_row("seed", range(10))
async def test_whatever_happens_to_the_connection_the_store_is_true_in_the_end(seed: int):
    cluster = a_cluster("a", "b")
    randomness = Random(seed)
    async with following(cluster, page_limit=2) as followed:
        for _ in range(200):
            name = "abcdef"[randomness.below(6)]
            match randomness.below(8):
                case 0:
                    cluster.end_watches(lost())
                case 1:
                    cluster.end_watches(Gone("too old", reason="Expired"))
                case 2:
                    cluster.forget_history()
                case 3:
                    cluster.fail(("list", "watch")[randomness.below(2)], ServerError("boom"))
                case 4 if ("persistentvolumes", "", name) in cluster.objects:
                    cluster.remove(PVS, name)
                case 5 if ("persistentvolumes", "", name) in cluster.objects:
                    followed.informer.wrote(
                        await cluster.patch(
                            PVS, name, Patch(PatchType.MERGE, {"spec": {"volumeMode": str(cluster.version)}})
                        )
                    )
                case _:
                    cluster.put(PVS, name, spec={"volumeMode": str(cluster.version)})
            await asyncio.sleep(randomness.uniform(0, 2))
        cluster.faults.clear()
        await asyncio.sleep(120)
        truth = {place[2]: obj["metadata"]["resourceVersion"] for place, obj in cluster.objects.items()}
        assert {pv.metadata.name: pv.metadata.resource_version for pv in followed.informer.store.values()} == truth


async def test_the_event_of_an_own_write_is_told_as_our_own_even_when_it_comes_before_the_answer() -> None:
    """Else the very write that a worker makes would wake its key again."""
    cluster = FakeCluster()
    await cluster.create(PVS, {"metadata": {"name": "pv1"}, "spec": {}})
    async with following(cluster) as followed:
        followed.told.clear()

        async def patch_whose_answer_is_slow(label: str) -> PersistentVolume:
            answer = await cluster.patch(PVS, "pv1", Patch(PatchType.MERGE, {"metadata": {"labels": {"by": label}}}))
            await asyncio.sleep(5)  # the watch has long shown it
            return answer

        async with asyncio.TaskGroup() as group:
            group.create_task(followed.informer.write(Key("", "pv1"), patch_whose_answer_is_slow("us")))
            await asyncio.sleep(1)
            await cluster.patch(PVS, "pv1", Patch(PatchType.MERGE, {"metadata": {"labels": {"by": "others"}}}))
            await asyncio.sleep(1)
            assert [] == followed.told
        assert [Cause.OWN_WRITE, Cause.WATCH] == [cause for cause, _, _ in followed.told]


async def test_what_a_read_shows_is_told_as_others_change_unless_a_write_of_ours_has_made_it() -> None:
    cluster = a_cluster("a")
    cluster.watch_lag_s = 30.0
    async with following(cluster) as followed:
        followed.told.clear()

        async def patch_whose_answer_is_slow() -> PersistentVolume:
            answer = await cluster.patch(PVS, "a", Patch(PatchType.MERGE, {"metadata": {"labels": {"by": "us"}}}))
            await asyncio.sleep(1)
            return answer

        cluster.put(PVS, "a", metadata={"labels": {"by": "others"}})
        await followed.informer.read(Key("", "a"), cluster.get(PVS, "a"))
        async with asyncio.TaskGroup() as group:
            group.create_task(followed.informer.write(Key("", "a"), patch_whose_answer_is_slow()))
            await settle()
            await followed.informer.read(Key("", "a"), cluster.get(PVS, "a"))
        await asyncio.sleep(60)
        assert [(Cause.WATCH, "1", "2"), (Cause.OWN_WRITE, "2", "3")] == followed.told


async def test_what_is_listed_since_the_watch_is_silent_is_told_as_others_change() -> None:
    cluster = a_cluster("a")
    cluster.watch_lag_s = 2 * SILENCE_S_MAX
    async with following(cluster) as followed:
        followed.told.clear()
        cluster.put(PVS, "a", metadata={"labels": {"by": "others"}})
        cluster.put(PVS, "b")
        await asyncio.sleep(SILENCE_S_MAX + 1)
        await FreshCache(cluster, LoopClock(), followed.informer).look()
        assert [(Cause.WATCH, "1", "2"), (Cause.WATCH, None, "3")] == followed.told


async def test_what_came_while_a_write_failed_is_told_as_it_is() -> None:
    cluster = FakeCluster()
    await cluster.create(PVS, {"metadata": {"name": "pv1"}, "spec": {}})
    async with following(cluster) as followed:
        followed.told.clear()

        async def patch_whose_answer_is_lost() -> PersistentVolume:
            await cluster.patch(PVS, "pv1", Patch(PatchType.MERGE, {"metadata": {"labels": {"by": "us"}}}))
            await asyncio.sleep(5)
            raise ServerError("lost")

        with pytest.raises(ServerError):
            await followed.informer.write(Key("", "pv1"), patch_whose_answer_is_lost())
        assert [Cause.WATCH] == [cause for cause, _, _ in followed.told]


async def test_what_a_write_finds_gone_is_gone_here_too() -> None:
    """However late the watch is; and its late events do not bring it back."""
    cluster = FakeCluster()
    await cluster.create(PVS, {"metadata": {"name": "pv1"}, "spec": {}})
    async with following(cluster) as followed:
        followed.told.clear()

        async def refused() -> PersistentVolume:
            raise NotFound("no such object", reason="NotFound", details={"name": "pv1"})

        with pytest.raises(NotFound):
            await followed.informer.write(Key("", "pv1"), refused())
        assert followed.informer.store.get(Key("", "pv1")) is None
        await cluster.patch(PVS, "pv1", Patch(PatchType.MERGE, {"metadata": {"labels": {"by": "others"}}}))
        await asyncio.sleep(1)
        assert [(Cause.OWN_WRITE, None)] == [(cause, after) for cause, _, after in followed.told]


async def test_a_path_that_is_not_there_says_nothing_about_the_object() -> None:
    """A proxy's 404, or an API server that does not serve the kind yet: no Status that names it."""
    cluster = FakeCluster()
    await cluster.create(PVS, {"metadata": {"name": "pv1"}, "spec": {}})
    async with following(cluster) as followed:

        async def refused() -> PersistentVolume:
            raise NotServed(NOT_SERVED)

        with pytest.raises(NotServed):
            await followed.informer.write(Key("", "pv1"), refused())
        assert followed.informer.store.get(Key("", "pv1")) is not None
