"""The store against a small server that knows the truth: lists, watch and answers in any interleaving."""

import dataclasses

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mooring.api.core import PersistentVolume
from mooring.api.meta import Key
from mooring.kube.cache.relist import Relist
from mooring.kube.cache.store import Cause, Change, Store
from tests.unit.kube.objects import pv_at

NAMES = st.sampled_from(["a", "b", "c"])
DRIVERS = st.sampled_from(["x", "y"])


@dataclasses.dataclass
class Server:
    """Objects by name and everything that happened, each with its version."""

    version: int = 0
    uids: int = 0
    objects: dict[str, PersistentVolume] = dataclasses.field(default_factory=dict)
    history: list[tuple[int, bool, PersistentVolume]] = dataclasses.field(
        default_factory=list
    )  # version, deleted, object

    def write(self, name: str, driver: str, *, end: bool = False) -> PersistentVolume | None:
        """Creates, changes or (end) removes the last finalizer of an object; gives what a client would be answered."""
        self.version += 1
        old = self.objects.get(name)
        if end:
            if old is None:
                return None
            del self.objects[name]
            uid = old.metadata.uid
            self.history.append((self.version, True, pv_at(name, self.version, uid=uid, driver=driver)))
            return pv_at(name, old.metadata.resource_version, uid=uid, driver=driver, deleting=True)
        if old is None:
            self.uids += 1
        uid = f"uid{self.uids}" if old is None else old.metadata.uid
        self.objects[name] = pv_at(name, self.version, uid=uid, driver=driver)
        self.history.append((self.version, False, self.objects[name]))
        return self.objects[name]


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.server = Server()
        self.store: Store[PersistentVolume] = Store({"driver": lambda pv: [pv.spec.csi.driver] if pv.spec.csi else []})
        self.watched = 0  # events up to this version were shown
        self.relist: Relist[PersistentVolume] | None = None
        self.pages: list[list[PersistentVolume]] = []
        self.listed_at = 0
        self.answers: list[PersistentVolume] = []  # to our own writes, on their way
        self.replayed: dict[str, PersistentVolume] = {}  # what a handler of all changes would know
        self.buried: set[str] = set()
        self.written: list[PersistentVolume] = []  # answers that arrived

    def told(self, changes: tuple[Change[PersistentVolume], ...] | list[Change[PersistentVolume]]) -> None:
        for change in changes:
            name = (change.old or change.new).metadata.name
            assert self.replayed.get(name) == change.old
            if change.new is None:
                if change.cause is Cause.OWN_WRITE and change.old is not None:
                    self.buried.add(change.old.metadata.uid)
                del self.replayed[name]
            else:
                assert change.new.metadata.uid not in self.buried, "an object that we ended came back"
                if change.old is not None:
                    assert change.old.metadata.uid == change.new.metadata.uid
                    assert int(change.new.metadata.resource_version) > int(change.old.metadata.resource_version), (
                        "went back"
                    )
                self.replayed[name] = change.new

    @rule(name=NAMES, driver=DRIVERS, end=st.booleans())
    def somebody_writes(self, name: str, driver: str, end: bool) -> None:
        self.server.write(name, driver, end=end)

    @rule(name=NAMES, driver=DRIVERS, end=st.booleans())
    def we_write(self, name: str, driver: str, end: bool) -> None:
        answer = self.server.write(name, driver, end=end)
        if answer is not None:
            self.answers.append(answer)

    @precondition(lambda self: self.answers)
    @rule(data=st.data())
    def an_answer_arrives(self, data: st.DataObject) -> None:
        answer = self.answers.pop(data.draw(st.integers(0, len(self.answers) - 1)))
        held = self.store.get(Key("", answer.metadata.name))
        if answer.metadata.deletion_timestamp:
            if held and held.metadata.uid == answer.metadata.uid:
                self.buried.add(answer.metadata.uid)
            self.told(self.store.bury(answer))
        else:
            self.written.append(answer)
            self.told(self.store.wrote(answer))

    @precondition(lambda self: self.relist is None)
    @rule(count=st.integers(1, 5))
    def the_watch_tells(self, count: int) -> None:
        for version, deleted, obj in [event for event in self.server.history if event[0] > self.watched][:count]:
            self.told(self.store.delete(obj) if deleted else self.store.apply(obj))
            self.watched = version

    @precondition(lambda self: self.relist is None)
    @rule()
    def a_bookmark_comes(self) -> None:
        if all(version <= self.watched for version, _, _ in self.server.history):
            self.store.bookmark(str(self.server.version))
            self.watched = self.server.version

    @precondition(lambda self: self.relist is None)
    @rule(page_size=st.integers(1, 3))
    def a_list_begins(self, page_size: int) -> None:
        self.relist = Relist(self.store)
        objects = [self.server.objects[name] for name in sorted(self.server.objects)]
        self.pages = [objects[start : start + page_size] for start in range(0, len(objects), page_size)]
        self.listed_at = self.server.version

    @precondition(lambda self: self.relist is not None)
    @rule()
    def a_page_comes(self) -> None:
        assert self.relist is not None
        if self.pages:
            self.told(self.relist.page(self.pages.pop(0), str(self.listed_at)))
        else:
            self.told(self.relist.end(str(self.listed_at)))
            self.relist, self.watched = None, self.listed_at

    @precondition(lambda self: self.relist is not None)
    @rule()
    def paging_fails(self) -> None:
        self.relist = None

    @invariant()
    def handlers_know_what_the_store_holds(self) -> None:
        assert {pv.metadata.name: pv for pv in self.store.values()} == self.replayed

    @invariant()
    def nothing_that_we_wrote_is_forgotten(self) -> None:
        """An object in the state that we wrote leaves the store only for a newer state or because it was deleted."""
        deleted = {obj.metadata.uid for _, gone, obj in self.server.history if gone}
        for answer in self.written:
            held = self.store.get(Key("", answer.metadata.name))
            if answer.metadata.uid not in deleted:
                assert held is not None
                assert int(held.metadata.resource_version) >= int(answer.metadata.resource_version)

    @invariant()
    def indexes_agree_with_a_scan(self) -> None:
        for driver in ("x", "y"):
            scanned = {pv.metadata.name for pv in self.store.values() if pv.spec.csi and pv.spec.csi.driver == driver}
            assert {pv.metadata.name for pv in self.store.by("driver", driver)} == scanned

    @invariant()
    def once_everything_was_told_the_store_is_the_truth(self) -> None:
        """Also with answers on their way: a late one can't make the store differ from the server."""
        if self.relist is None and all(version <= self.watched for version, _, _ in self.server.history):
            assert {pv.metadata.name: pv for pv in self.store.values()} == self.server.objects


StoreMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestStore = pytest.mark.slow(StoreMachine.TestCase)
