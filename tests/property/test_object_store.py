"""The embedded server's store under any sequence of writes: a model beside it, and its history as a witness."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mooring.api.meta import Key
from mooring.apiserver.bodies.objects import FieldValidation, decode_object
from mooring.apiserver.bodies.patches import change_of
from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.listing import ListOptions, ListScope, scope_of
from mooring.apiserver.rules import VOLUME_ATTACHMENTS
from mooring.apiserver.table import HistoryLimits
from mooring.base.randomness import Random
from mooring.kube.cluster import EventType, PatchType
from mooring.kube.errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound

Json = dict[str, Any]
NAMES = st.sampled_from(["a", "b", "c"])
LABELS = st.sampled_from(["1", "2", None])
HOLDS = ["example.com/x", "example.com/y"]
FINALIZERS = st.lists(st.sampled_from(HOLDS), unique=True)
SPEC = {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "p"}}


class StoreMachine(RuleBasedStateMachine):
    """`self.model`: what must be stored, by name. `self.past`: the list at every version so far."""

    @initialize(changes_max=st.sampled_from([3, 1000]))
    def start(self, changes_max: int) -> None:
        self.store = new_store(Random(1), 0.0, HistoryLimits(changes_max=changes_max))
        self.first = self.store.version
        self.model: dict[str, Json] = {}
        self.read: list[Json] = []
        self.past: dict[int, dict[str, Json]] = {self.store.version: {}}
        self.told: list[int] = []
        self.store.on_change(lambda _, change: self.told.append(change.rv))
        self.counts: dict[str, int] = {}

    # the writes

    @rule(name=NAMES, label=LABELS, finalizers=FINALIZERS)
    def create(self, name: str, label: str | None, finalizers: list[str]) -> None:
        body = {
            "metadata": {"name": name, "labels": {"x": label} if label else {}, "finalizers": finalizers},
            "spec": SPEC,
        }
        obj, _ = decode_object(VOLUME_ATTACHMENTS, body, FieldValidation.STRICT, [])
        try:
            made = self.store.create(VOLUME_ATTACHMENTS, obj, "", 0.0).stored.whole()
        except AlreadyExists:
            assert name in self.model
            return
        assert name not in self.model
        assert made["metadata"]["uid"] not in {old["metadata"]["uid"] for old in self.read}
        self.model[name] = made
        self._wrote(made)

    @rule(name=NAMES)
    def get(self, name: str) -> None:
        """Somebody reads an object, perhaps to write it back much later."""
        if name in self.model:
            self.read.append(copy.deepcopy(self.model[name]))

    @precondition(lambda self: bool(self.read))
    @rule(data=st.data(), label=LABELS)
    def put(self, data: st.DataObject, label: str | None) -> None:
        """A read object is written back, changed: only if nobody has changed it since."""
        old = data.draw(st.sampled_from(self.read))
        new = copy.deepcopy(old)
        new["metadata"]["labels"] = {"x": label} if label else {}
        self._change(old["metadata"]["name"], new, must_fit=old["metadata"]["resourceVersion"])

    @rule(name=NAMES, label=LABELS)
    def patch_label(self, name: str, label: str | None) -> None:
        self._patch(name, {"metadata": {"labels": {"x": label}}}, "")

    @rule(name=NAMES, attached=st.booleans())
    def patch_status(self, name: str, attached: bool) -> None:
        self._patch(name, {"status": {"attached": attached}, "metadata": {"labels": {"x": "not here"}}}, "status")

    @rule(name=NAMES, finalizers=FINALIZERS)
    def patch_finalizers(self, name: str, finalizers: list[str]) -> None:
        self._patch(name, {"metadata": {"finalizers": finalizers}}, "")

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        before = self.store.version
        try:
            deleted = self.store.delete(VOLUME_ATTACHMENTS, Key("", name), 0.0)
        except NotFound:
            assert name not in self.model
            return
        meta = self.model[name]["metadata"]
        assert deleted.gone == (not meta.get("finalizers"))
        if deleted.gone:
            del self.model[name]
            self.past[self.store.version] = copy.deepcopy(self.model)
        elif meta.get("deletionTimestamp"):
            assert before == self.store.version, "a second deletion changes nothing"
        else:
            self.model[name] = deleted.stored.whole()
            assert self.model[name]["metadata"]["deletionTimestamp"]
            self._wrote(self.model[name])

    def _patch(self, name: str, body: Json, subresource: str) -> None:
        change = change_of(VOLUME_ATTACHMENTS, PatchType.MERGE, body, FieldValidation.STRICT)
        old = self.model.get(name)
        try:
            written = self.store.patch(VOLUME_ATTACHMENTS, Key("", name), change, 0.0, subresource=subresource)
        except NotFound:
            assert old is None
            return
        except Invalid:
            self._assert_new_finalizers(old, body["metadata"]["finalizers"])
            return
        assert old is not None
        added = set(written.stored.whole()["metadata"].get("finalizers") or []) - set(
            old["metadata"].get("finalizers") or []
        )
        assert not (added and old["metadata"].get("deletionTimestamp")), "no new finalizers once it is being deleted"
        self._took(name, old, written.stored.whole(), written.gone)

    def _change(self, name: str, new: Json, must_fit: str) -> None:
        stored = self.model.get(name)
        obj, _ = decode_object(VOLUME_ATTACHMENTS, copy.deepcopy(new), FieldValidation.STRICT, [])
        try:
            written = self.store.update(VOLUME_ATTACHMENTS, Key("", name), obj, 0.0)
        except (NotFound, Conflict):
            fits = stored is not None and must_fit == stored["metadata"]["resourceVersion"]
            assert not fits, "the newest version must be accepted"
            return
        assert stored is not None
        assert must_fit == stored["metadata"]["resourceVersion"], "a lost update"
        self._took(name, stored, written.stored.whole(), written.gone)

    def _assert_new_finalizers(self, old: Json | None, wanted: list[str]) -> None:
        assert old is not None
        assert old["metadata"].get("deletionTimestamp")
        assert set(wanted) - set(old["metadata"].get("finalizers") or [])

    def _took(self, name: str, old: Json, new: Json, gone: bool) -> None:
        """A write has passed. It is nothing, a new version, or the end."""
        assert gone == bool(old["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers"))
        assert (old["metadata"]["uid"], old["spec"]) == (new["metadata"]["uid"], new["spec"])
        if gone:
            del self.model[name]
            self.past[self.store.version] = copy.deepcopy(self.model)
        elif new != old:
            self.model[name] = new
            self._wrote(new)

    def _wrote(self, obj: Json) -> None:
        assert str(self.store.version) == obj["metadata"]["resourceVersion"]
        self.past[self.store.version] = copy.deepcopy(self.model)

    # what always holds

    @invariant()
    def versions_grow_one_by_one_and_each_is_told(self) -> None:
        assert list(range(self.first + 1, self.store.version + 1)) == self.told
        assert self.store.version == max(self.past)

    @invariant()
    def the_list_is_the_model(self) -> None:
        assert self.model == {
            stored.key.name: stored.whole() for stored in self.store.list(VOLUME_ATTACHMENTS, ListScope()).items
        }

    @invariant()
    def every_remembered_moment_can_be_listed(self) -> None:
        floor = self.store.table(VOLUME_ATTACHMENTS).history.floor
        for version, objects in self.past.items():
            if version < floor:
                continue
            found = self.store.list(VOLUME_ATTACHMENTS, ListScope(), ListOptions(str(version), "Exact"))
            assert objects == {stored.key.name: stored.whole() for stored in found.items}

    @invariant()
    def a_watch_from_any_moment_replays_to_now(self) -> None:
        history = self.store.table(VOLUME_ATTACHMENTS).history
        for text in ("", "x=1"):
            scope = scope_of(VOLUME_ATTACHMENTS, None, text, "")
            wanted = {name: obj for name, obj in self.model.items() if not text or _label(obj) == "1"}
            for version, objects in self.past.items():
                if version < history.floor:
                    continue
                seen = {name: obj for name, obj in objects.items() if not text or _label(obj) == "1"}
                for change in history.after(version):
                    told = change.seen_by(scope.matches)
                    if told is None:
                        continue
                    kind, stored = told
                    assert (stored.key.name in seen) == (kind is not EventType.ADDED), "every event fits what was seen"
                    assert change.rv == stored.rv
                    if kind is EventType.DELETED:
                        del seen[stored.key.name]
                    else:
                        seen[stored.key.name] = stored.whole()
                assert wanted == seen

    @invariant()
    def nothing_is_refused_as_broken(self) -> None:
        for stored in self.store.list(VOLUME_ATTACHMENTS, ListScope()).items:
            obj, _ = decode_object(VOLUME_ATTACHMENTS, stored.whole(), FieldValidation.STRICT, [])
            try:
                written = self.store.update(VOLUME_ATTACHMENTS, stored.key, obj, 0.0)
            except ApiError as error:
                raise AssertionError("a stored object can be written back") from error
            assert stored is written.stored


def _label(obj: Json) -> str | None:
    value: str | None = (obj["metadata"].get("labels") or {}).get("x")
    return value


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=60, stateful_step_count=30)
