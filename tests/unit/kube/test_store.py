"""The cache of one kind's objects."""

import pytest

from mooring.api.core import PersistentVolume
from mooring.api.meta import Key
from mooring.kube.cache import store as store_module
from mooring.kube.cache.relist import Relist
from mooring.kube.cache.store import FEW, Cause, Change, Store
from tests.unit.kube.objects import pv_at

PV1 = Key("", "pv1")


def a_store() -> Store[PersistentVolume]:
    return Store(
        {
            "driver": lambda pv: [pv.spec.csi.driver] if pv.spec.csi else [],
            "label": lambda pv: (pv.metadata.labels or {}).values(),
        }
    )


@pytest.fixture
def store() -> Store[PersistentVolume]:
    return a_store()


def relist(store: Store[PersistentVolume], version: int, *objects: PersistentVolume) -> list[Change[PersistentVolume]]:
    listing = Relist(store)
    return listing.page(objects, str(version)) + listing.end(str(version))


def test_what_the_watch_shows_is_found(store: Store[PersistentVolume]):
    first, second = pv_at(version=1), pv_at(version=2)
    assert store.apply(first) == (Change(None, first, Cause.WATCH),)
    assert store.apply(second) == (Change(first, second, Cause.WATCH),)
    assert store.get(PV1) is second
    assert len(store) == 1
    assert store.values() == (second,)
    assert store.version == "2"


def test_what_came_last_stands_last(store: Store[PersistentVolume]):
    store.apply(pv_at("pv1", version=1))
    store.apply(pv_at("pv2", version=2))
    assert ["pv1", "pv2"] == [pv.metadata.name for pv in store.values()]
    store.apply(pv_at("pv1", version=3))
    assert ["pv1", "pv2"] == [pv.metadata.name for pv in store.values()]
    assert ["pv1", "pv2"] == [store.at(place).metadata.name for place in store.places()]


def test_a_change_names_its_object_whether_it_came_changed_or_went():
    first, second = pv_at(version=1), pv_at(version=2)
    changes = Change(None, first, Cause.WATCH), Change(first, second, Cause.WATCH), Change(second, None, Cause.WATCH)
    assert [first, second, second] == [change.object for change in changes]
    assert [PV1] * 3 == [change.key for change in changes]


def test_versions_are_compared_as_numbers(store: Store[PersistentVolume]):
    store.apply(pv_at(version=9))
    assert len(store.apply(pv_at(version=10))) == 1
    assert store.apply(pv_at(version=9)) == ()


def test_an_event_that_is_not_newer_changes_nothing(store: Store[PersistentVolume]):
    store.wrote(pv_at(version=5))
    assert store.apply(pv_at(version=4)) == ()
    assert store.apply(pv_at(version=5)) == ()
    assert store.get(PV1).metadata.resource_version == "5"


def test_versions_that_are_no_numbers_count_in_the_order_of_arrival(store: Store[PersistentVolume]):
    store.apply(pv_at(version="b"))
    assert len(store.apply(pv_at(version="a"))) == 1
    assert store.apply(pv_at(version="a")) == ()
    assert len(store.delete(pv_at(version="c"))) == 1


def test_an_object_without_a_version_never_replaces_one_that_has_it(store: Store[PersistentVolume]):
    store.apply(pv_at(version=1))
    assert store.apply(pv_at(version="")) == ()
    assert store.version == "1"


def test_a_deletion_takes_the_object_out(store: Store[PersistentVolume]):
    volume = pv_at(version=1)
    store.apply(volume)
    assert store.delete(pv_at(version=2)) == (Change(volume, None, Cause.WATCH),)
    assert store.get(PV1) is None
    assert store.by("driver", "csi.example.com") == ()
    assert store.delete(pv_at(version=2)) == ()


def test_a_deletion_does_not_touch_a_later_namesake(store: Store[PersistentVolume]):
    store.wrote(pv_at(version=7, uid="second"))
    assert store.delete(pv_at(version=5, uid="first")) == ()
    assert store.get(PV1).metadata.uid == "second"


def test_a_name_used_again_is_an_end_and_a_beginning(store: Store[PersistentVolume]):
    first, second = pv_at(version=1, uid="first"), pv_at(version=5, uid="second")
    store.apply(first)
    assert store.apply(second) == (Change(first, None, Cause.WATCH), Change(None, second, Cause.WATCH))
    assert store.get(PV1) is second


def test_an_own_write_is_seen_at_once_and_only_once(store: Store[PersistentVolume]):
    store.apply(pv_at(version=1))
    written = pv_at(version=2)
    (change,) = store.wrote(written)
    assert (change.new, change.cause) == (written, Cause.OWN_WRITE)
    assert store.apply(pv_at(version=2)) == ()


def test_an_own_write_below_the_version_of_all_enters_where_the_object_is_older_yet(store: Store[PersistentVolume]):
    """The watch would have told of it, were it not that the server was set back: the own write is seen, or it would be
    made for ever.
    """
    store.apply(pv_at(version=11))
    store.bookmark("100016")
    written = pv_at(version=25)
    assert [written] == [change.new for change in store.wrote(written)]
    assert written is store.get(PV1)
    assert "100016" == store.version
    assert () == store.wrote(pv_at(version=20)), "an answer that another one has overtaken"


def test_another_object_of_the_name_enters_below_the_version_of_all_where_the_one_here_is_older(
    store: Store[PersistentVolume],
):
    """The server was set back, and the object made anew: else whoever writes to the former one would be refused for
    ever, at once.
    """
    former, anew = pv_at(version=16, uid="former"), pv_at(version=49, uid="anew")
    store.apply(former)
    store.bookmark("100035")
    assert (Change(former, None, Cause.OWN_WRITE), Change(None, anew, Cause.OWN_WRITE)) == store.wrote(anew)
    assert () == store.wrote(pv_at(version=40, uid="former")), "an answer from before"
    assert anew is store.get(PV1)


def test_an_answer_that_comes_after_its_deletion_does_not_bring_the_object_back(store: Store[PersistentVolume]):
    """The answer and the watch travel on two connections; nobody would ever take the ghost out again."""
    store.apply(pv_at(version=1))
    store.delete(pv_at(version=3))
    assert store.wrote(pv_at(version=2)) == ()
    assert len(store) == 0


def test_the_write_that_ends_an_object_ends_it_here_too(store: Store[PersistentVolume]):
    volume = pv_at(version=1, deleting=True, finalizers=("f",))
    store.apply(volume)
    assert store.bury(pv_at(version=1, deleting=True)) == (Change(volume, None, Cause.OWN_WRITE),)
    assert store.apply(pv_at(version=2, deleting=True, finalizers=("f",))) == (), "an older event resurrected it"
    assert store.delete(pv_at(version=3)) == ()
    assert len(store.apply(pv_at(version=4, uid="another"))) == 1


def test_an_object_that_our_write_found_replaced_does_not_come_back(store: Store[PersistentVolume]):
    """The watch is still to show its life and its end; when the newer one is ended too, those events would find the
    name free.
    """
    store.apply(pv_at(version=1, uid="first"))
    assert [None, "second"] == [
        change.new and change.new.metadata.uid for change in store.wrote(pv_at(version=5, uid="second"))
    ]
    store.bury(pv_at(version=5, uid="second", deleting=True))
    assert store.apply(pv_at(version=2, uid="first")) == (), "an older event resurrected it"
    assert store.delete(pv_at(version=3, uid="first")) == ()
    assert len(store) == 0


def test_a_write_that_leaves_finalizers_ends_nothing(store: Store[PersistentVolume]):
    store.apply(pv_at(version=1, deleting=True, finalizers=("f", "g")))
    (change,) = store.wrote(pv_at(version=2, deleting=True, finalizers=("g",)))
    assert change.new is not None


def test_the_end_of_an_older_namesake_leaves_the_newer_one(store: Store[PersistentVolume]):
    store.apply(pv_at(version=9, uid="second"))
    assert store.bury(pv_at(version=3, uid="first", deleting=True)) == ()
    assert len(store) == 1


def test_tombstones_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(store_module, "TOMBSTONES_MAX", 3)
    store = a_store()
    for number in range(5):
        store.apply(pv_at(f"pv{number}", number + 1))
        store.bury(pv_at(f"pv{number}", number + 1, deleting=True))
    assert store.tombstones_lost == 2
    assert store.apply(pv_at("pv4", 9)) == ()


def test_the_watch_clears_a_tombstone(store: Store[PersistentVolume]):
    store.apply(pv_at(version=1))
    store.bury(pv_at(version=1, deleting=True))
    store.delete(pv_at(version=2))
    assert store._tombstones == {}


def test_a_list_brings_what_is_new_and_takes_out_what_it_lacks(store: Store[PersistentVolume]):
    gone, stays, changes = pv_at("gone", 1), pv_at("stays", 2), pv_at("changes", 3)
    for volume in (gone, stays, changes):
        store.apply(volume)
    changed, new = pv_at("changes", 8), pv_at("new", 9)
    assert relist(store, 10, pv_at("stays", 2), changed, new) == [
        Change(changes, changed, Cause.RELIST),
        Change(None, new, Cause.RELIST),
        Change(gone, None, Cause.RELIST),
    ]
    assert {volume.metadata.name for volume in store.values()} == {"stays", "changes", "new"}
    assert store.version == "10"


def test_a_list_from_before_an_own_write_is_of_a_server_that_was_set_back(store: Store[PersistentVolume]):
    """The watch had not come so far: by its version alone the server seems to have gone on, and what was written would
    stay for ever.
    """
    store.apply(pv_at(version=22))
    store.wrote(pv_at(version=200_033, uid="after-the-backup"))
    relist = Relist(store)
    restored = pv_at(version=100_030, uid="restored")
    relist.page([restored], "100036")
    relist.end("100036")
    assert restored is store.get(PV1)
    assert "100036" == store.version


def test_a_list_from_before_one_that_broke_off_is_of_a_server_that_was_set_back(store: Store[PersistentVolume]):
    """Of the first list one page came in, and nothing else tells how far the server was: that page would be believed
    for ever.
    """
    Relist(store).page([pv_at("pv1", 100_064), pv_at("lost", 100_065)], "100069")
    restored = pv_at("pv1", 60)
    relist(store, 72, restored)
    assert (restored,) == store.values()
    assert "72" == store.version


def test_a_list_from_before_is_believed_also_when_it_breaks_off_itself(store: Store[PersistentVolume]):
    Relist(store).page([pv_at("pv1", 100_064)], "100069")
    Relist(store).page([pv_at("pv1", 60)], "72")
    changed = pv_at("pv1", 73)
    relist(store, 74, changed)
    assert (changed,) == store.values()


def test_an_object_that_we_ended_is_back_when_the_server_was_set_back(store: Store[PersistentVolume]):
    """The watch had not come so far, and by its version the server has gone on: nobody would look after the object."""
    store.apply(pv_at(version=21, deleting=True, finalizers=("f",)))
    store.bury(pv_at(version=21, deleting=True))
    restored = pv_at(version=21, deleting=True, finalizers=("f",))
    relist(store, 52, restored)
    assert restored is store.get(PV1)


def test_an_own_write_newer_than_the_list_survives_it(store: Store[PersistentVolume]):
    listing = Relist(store)
    store.wrote(pv_at("created", 11))
    store.wrote(pv_at("changed", 12))
    assert listing.page([pv_at("changed", 3)], "10") == []
    assert listing.end("10") == []
    assert {volume.metadata.resource_version for volume in store.values()} == {"11", "12"}


def test_an_own_write_older_than_a_list_without_it_was_deleted_since(store: Store[PersistentVolume]):
    listing = Relist(store)
    store.wrote(pv_at("pv1", 7))
    (change,) = listing.end("10")
    assert change.new is None


def test_a_list_does_not_bring_back_what_we_ended_while_it_was_made(store: Store[PersistentVolume]):
    store.apply(pv_at(version=1, deleting=True, finalizers=("f",)))
    listing = Relist(store)
    store.bury(pv_at(version=1, deleting=True))
    assert listing.page([pv_at(version=1, deleting=True, finalizers=("f",))], "1") == []
    assert listing.end("1") == []
    assert store.apply(pv_at(version=2, deleting=True)) == (), "the watch from that list may still show older states"
    store.delete(pv_at(version=3))
    assert store._tombstones == {}


def test_a_list_begun_after_the_write_clears_its_tombstone(store: Store[PersistentVolume]):
    store.apply(pv_at(version=1))
    store.bury(pv_at(version=1, deleting=True))
    relist(store, 5)
    assert store._tombstones == {}


def test_pages_come_in_one_by_one(store: Store[PersistentVolume]):
    listing = Relist(store)
    assert len(listing.page([pv_at("a", 1)], "5")) == 1
    assert store.get(Key("", "a")) is not None
    assert len(listing.page([pv_at("b", 2)], "5")) == 1
    assert listing.end("5") == []
    assert len(store) == 2


def test_a_server_set_back_is_believed(store: Store[PersistentVolume]):
    """Restored from a backup, its versions begin lower: no stored object may win by its number."""
    store.apply(pv_at("kept", 900))
    store.apply(pv_at("lost", 950))
    store.bury(pv_at("kept", 900, deleting=True))
    changes = relist(store, 500, pv_at("kept", 400))
    names = [(change.old and change.old.metadata.name, change.new and change.new.metadata.name) for change in changes]
    assert names == [
        (None, "kept"),
        ("lost", None),
    ]
    assert store.version == "500"
    assert len(store.apply(pv_at("kept", 501))) == 1


@pytest.mark.parametrize(
    ("answered", "is_of_before"),
    [(4, True), (5, False), (6, True), (10, True), (11, False)],
    ids=[
        "older than it was",
        "as it is",
        "changed, and that not told",
        "the same, at the end of what was told",
        "changed since",
    ],
)
def test_an_answer_that_denies_what_was_known_is_of_a_server_that_was_set_back(
    store: Store[PersistentVolume], answered: int, is_of_before: bool
):
    store.apply(pv_at(version=5))
    store.bookmark("10")
    sight = store.sight(PV1)
    store.apply(pv_at(version=20))  # what comes while the answer is on its way says nothing about it
    assert is_of_before == store.is_of_before(pv_at(version=answered), sight)


def test_an_answer_says_nothing_where_nothing_was_known_or_the_cache_has_come_back_meanwhile(
    store: Store[PersistentVolume],
):
    unknown = store.sight(PV1)
    store.apply(pv_at(version=50))
    known = store.sight(PV1)
    relist(store, 7, pv_at(version=5))
    assert not store.is_of_before(pv_at(version=5), unknown)
    assert not store.is_of_before(pv_at(version=5), known)


def test_the_list_of_a_server_that_is_known_to_have_been_set_back_counts_alone_whatever_its_version(
    store: Store[PersistentVolume],
):
    """It has given so many versions since that it is ahead of the cache once more."""
    store.apply(pv_at("pv1", 40))
    store.wrote(pv_at("lost", 50))
    store.set_back()
    restored = pv_at("pv1", 30)
    relist(store, 55, restored)
    assert (restored,) == store.values()
    listing = Relist(store)
    store.wrote(pv_at("pv1", 57))
    assert [] == [*listing.page([restored], "56"), *listing.end("56")], "the next list is one like any"


def test_a_bookmark_moves_the_version_on_and_never_back(store: Store[PersistentVolume]):
    store.bookmark("10")
    store.bookmark("9")
    assert store.version == "10"
    assert store.wrote(pv_at(version=10)) == ()


def test_an_object_that_is_no_longer_ours_leaves(store: Store[PersistentVolume]):
    volume = pv_at(version=3)
    store.apply(volume)
    assert store.exclude(pv_at(version=2), Cause.WATCH) == ()
    assert store.exclude(pv_at(version=4), Cause.WATCH) == (Change(volume, None, Cause.WATCH),)


def test_an_index_follows_its_objects(store: Store[PersistentVolume]):
    store.apply(pv_at("a", 1, driver="x", labels={"k": "one", "l": "two"}))
    store.apply(pv_at("b", 2, driver="x", labels={"k": "one"}))
    store.apply(pv_at("c", 3, driver="y", labels={"k": "one", "l": "one"}))

    def names(index: str, value: str) -> list[str]:
        return [volume.metadata.name for volume in store.by(index, value)]

    assert names("driver", "x") == ["a", "b"]
    assert names("label", "one") == ["a", "b", "c"]
    store.apply(pv_at("a", 4, driver="y", labels={"l": "two"}))
    assert names("driver", "x") == ["b"]
    assert names("driver", "y") == ["c", "a"]
    assert names("label", "one") == ["b", "c"]
    assert names("label", "two") == ["a"]
    store.delete(pv_at("b", 5))
    store.delete(pv_at("c", 6))
    assert names("driver", "x") == []
    assert names("label", "one") == []
    assert list(store._indexes["driver"]._buckets) == ["y"], "an empty value stayed in memory"


@pytest.mark.parametrize("count", [2, 3, FEW, FEW + 1, 3 * FEW])
def test_an_index_keeps_the_order_of_few_and_of_many(store: Store[PersistentVolume], count: int):
    for number in range(count):
        store.apply(pv_at(f"pv-{number}", number + 1, driver="x"))
    for number in range(0, count, 2):
        store.delete(pv_at(f"pv-{number}", count + number + 1))
    assert [f"pv-{number}" for number in range(1, count, 2)] == [
        volume.metadata.name for volume in store.by("driver", "x")
    ]
    for number in range(1, count, 2):
        store.delete(pv_at(f"pv-{number}", 3 * count + number))
    assert not store._indexes["driver"]._buckets, "an empty value stayed in memory"


def test_asking_an_index_that_is_not_there_is_an_error():
    with pytest.raises(KeyError):
        a_store().by("node", "x")


def test_an_index_is_touched_only_where_it_changes():
    """One update among thousands under one value must not cost thousands."""
    calls = 0

    def driver_of(volume: PersistentVolume) -> list[str]:
        nonlocal calls
        calls += 1
        return ["all"]

    store = Store({"driver": driver_of})
    for number in range(1000):
        store.apply(pv_at(f"pv{number}", number + 1))
    calls = 0
    store.apply(pv_at("pv5", 5000))
    assert calls == 2
