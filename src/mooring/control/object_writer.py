"""The writes of a controller to the objects of one kind, with one rule for what a refusal means.

    the write            the object, asked for at once           raises
    404                                                          Vanished
    409, 422             gone, or another has its name           Vanished
                         another version than was written to     Stale: it is decided anew, on what the cache has by now
                         as it was: a 422                        Failed, of which users hear: the write is wrong, and
                                                                 would be for ever
                         as it was: a 409                        Failed, of which users hear when it lasts
                         not to be had                           the same; they hear of both refusals
    no answer, 5xx, 429                                          Failed, of which users hear when it lasts
    any other                                                    Failed, of which users hear

A 422 says both that a test of the patch failed and that the object breaks a rule, which may be due to what came
meanwhile, too. So the object decides, not the fields that the refusal names.

A write may be carried out long after nobody waits for its answer any more. Where that does harm it names the version
that it is meant for (`strictly`), and `fence` ends the doubt about it.

An answer enters the cache at once, as a change of cause OWN_WRITE: no decision is taken on a state from before our own
write, and a room may leave its own writes alone when they come back from the watch. What a look finds is a change by
others.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from mooring.api.meta import Key, Kind, Object, finalizers_of, key_of
from mooring.control.decision import PATIENCE, Failed
from mooring.control.result import Stale, Vanished
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster, Patch, PatchType, compare_versions
from mooring.kube.errors import ApiError, Conflict, Invalid, NotFound, ServerError, TooManyRequests, Unreachable
from mooring.kube.patch import add_finalizer, merge_diff, merge_patch, remove_finalizer, test

T = TypeVar("T", bound=Object)
Json: TypeAlias = dict[str, Any]

TRIES_MAX: Final = 5
"""How often a write that may come after any other is sent at once."""

FENCED: Final = "mooring.dev/fenced-version"
"""The annotation of a fence: the last version that late writes may have been meant for. A Node that a person fenced has
another one (`inspect/fencing`).
"""

WHOLE_MAX: Final = 256
"""Whole objects that are remembered."""

UNANSWERED_MAX: Final = 1000
"""Objects whose last write was not answered; beyond it those that the cache has no more are forgotten."""


class ObjectWriter(Generic[T]):
    """keeps_answers: False where the answers do not enter the cache. All methods raise Stale and Failed; Vanished is a
    Stale.

    patience: from so many failures in a row on users hear of what mostly passes.
    """

    def __init__(
        self,
        cluster: Cluster,
        kind: Kind[T],
        cache: Informer[T],
        *,
        keeps_answers: bool = True,
        patience: int = PATIENCE,
    ) -> None:
        self._cluster, self._kind, self._cache, self._keeps_answers = cluster, kind, cache, keeps_answers
        self._patience = patience
        self._unanswered: dict[str, Key] = {}  # objects whose last write was not answered, by uid
        self._whole: OrderedDict[str, tuple[str, bytes]] = OrderedDict()  # whole objects with their version, by uid

    def current(self, obj: T) -> T:
        """The object as it is now, in the cache."""
        found = self._cache.store.get(key_of(obj))
        if found is None or found.metadata.uid != obj.metadata.uid:
            raise self._vanished(obj)
        return found

    async def look(self, obj: T) -> T:
        """The object as the API server has it; the cache has it so, too."""
        return await self._look(obj, f"{self._kind.name} {key_of(obj).name} could not be read")

    async def settle(self, obj: T, *, anyway: bool = False) -> None:
        """Where the last write to the object was not answered, looks whether it was done. Raises Stale where it was.
        That it was not done yet does not say that it never will be: `fence` does.

        Else a call that is over would be made once more, and its answer would find an object that is beyond it.
        anyway: also where it was answered.
        """
        is_asked = anyway or obj.metadata.uid in self._unanswered
        if is_asked and _version(await self.look(obj)) != _version(obj):
            raise self._moved(obj, "a write was done whose answer was lost")

    async def fence(self, obj: T) -> T:
        """Write to the object, so that a strict write to this version of it, or to an earlier one, is refused. A write
        whose answer was lost, of this process or of another, can't be carried out any more then. Only those that were
        sent strictly are stopped; a deletion by its uid alone is not. Gives the object after it. This fence stands at
        the object; the one of a term (`base/fence.py`) stands in the process, and keeps it from sending.

        Raises Stale where such a write was carried out. The annotation has the version that is over, so that it is
        another one each time.
        """
        patch = merge_patch({"metadata": {"annotations": {FENCED: _version(obj)}}}, of=obj)
        return await self.patch(obj, patch, strictly=True)

    def forget(self, obj: T) -> None:
        """Forget an object that is gone."""
        self._unanswered.pop(obj.metadata.uid, None)
        self._whole.pop(obj.metadata.uid, None)

    # -- writes

    async def patch(
        self, obj: T, patch: Patch, subresource: str = "", *, strictly: bool = False, failing: str = ""
    ) -> T:
        """Patch the object, and return it as it is then. The request goes to the object's name: only a patch that was
        made `of` the object is refused where another has the name by now.

        strictly: only this version of the object. failing: the failure's words, before the error.
        """
        key, patch = key_of(obj), _of_version(obj, patch) if strictly else patch
        request = self._cluster.patch(self._kind, key.name, patch, key.namespace, subresource=subresource)
        return await self._write(obj, request, failing)

    async def add_finalizer(self, obj: T, finalizer: str) -> T:
        """Return the object with the finalizer, which is added unless it is there."""
        return obj if finalizer in finalizers_of(obj) else await self.patch(obj, add_finalizer(obj, finalizer))

    async def remove_finalizer(self, obj: T, finalizer: str) -> T:
        """Return the object without the finalizer; others' finalizers stay."""
        return await self.patch(obj, remove_finalizer(obj, finalizer)) if finalizer in finalizers_of(obj) else obj

    async def set_status(self, obj: T, fields: Mapping[str, Any]) -> T:
        """Sets these fields of the status, None removes one, and gives the object after it; writes nothing where they
        are so already.
        """
        before: Json = msgspec.to_builtins(getattr(obj, "status", {}))
        change = merge_diff(before, {**before, **fields})
        return await self.patch(obj, merge_patch({"status": change}, of=obj), "status") if change else obj

    async def amend(
        self, obj: T, patch_of: Callable[[T], Patch | None], subresource: str = "", *, failing: str = ""
    ) -> bool:
        """Patches the object as it is now, anew where it moves meanwhile: for what must not be lost, as a driver's
        answer.

        patch_of: makes the patch for the object as it is now, None for nothing to do. Returns whether it was patched.
        """
        for attempt in range(TRIES_MAX):
            now = self.current(obj)
            patch = patch_of(now)
            if patch is None:
                return False
            try:
                await self.patch(now, patch, subresource, strictly=True, failing=failing)
                return True
            except Stale as error:
                if isinstance(error, Vanished) or attempt == TRIES_MAX - 1:
                    raise
            except Failed as failure:  # a conflict without a change is over as soon as it is answered
                if not isinstance(failure.__cause__, Conflict) or attempt == TRIES_MAX - 1:
                    raise
        raise AssertionError("unreachable")

    async def edit(
        self,
        obj: T,
        change: Callable[[Json], bool],
        subresource: str = "",
        *,
        strictly: bool = False,
        failing: str = "",
    ) -> bool:
        """Writes the whole object back, a PUT, where no patch would do. change: changes the object, and returns False
        for nothing to do; so does edit then.

        strictly: only this version of the object; else one that came since is changed as well.
        """
        body = await self._body(obj, strictly)
        if not change(body):
            return False
        request = self._cluster.replace(self._kind.whole(), body, key_of(obj).namespace, subresource=subresource)
        await self._write(obj, self._remember(request), failing)
        return True

    async def delete(
        self,
        obj: T,
        *,
        strictly: bool = False,
        grace_period_s: int | None = None,
        propagation: str = "",
        failing: str = "",
    ) -> None:
        """Delete the object, unless it is gone, or another has its name by now. strictly: only this version of it."""
        key, uid = key_of(obj), obj.metadata.uid
        try:
            await self._cluster.delete(
                self._kind,
                key.name,
                key.namespace,
                uid=uid,
                resource_version=_version(obj) if strictly else "",
                grace_period_s=grace_period_s,
                propagation=propagation,
            )
        except NotFound:
            return
        except ApiError as error:
            with contextlib.suppress(Vanished):
                raise await self._refused(obj, error, failing) from error

    # -- the rule

    async def _write(self, obj: T, request: Awaitable[T], failing: str) -> T:
        try:
            answer = await (self._cache.write(key_of(obj), request) if self._keeps_answers else request)
        except ApiError as error:
            raise await self._refused(obj, error, failing) from error
        self._unanswered.pop(obj.metadata.uid, None)
        return answer

    async def _refused(self, obj: T, error: ApiError, failing: str) -> Stale | Failed:
        """The meaning of a refusal of a write to the object. Raises that of the look at it, where there is one."""
        failing = failing or f"{self._kind.name} {key_of(obj).name} could not be saved"
        text = f"{failing}: {error}"
        match error:
            case NotFound():
                return self._vanished(obj)
            case Conflict() | Invalid():
                found = await self._look(obj, f"{text}; it could not be read anew")
                if _version(found) != _version(obj):
                    return self._moved(obj, error)
                return Failed(text, patience=1 if isinstance(error, Invalid) else self._patience)
            case Unreachable() | ServerError():
                self._note_unanswered(obj)
                return Failed(text, patience=self._patience, is_unanswered=True)
            case TooManyRequests():
                return Failed(text, patience=self._patience)
        return Failed(text)

    async def _look(self, obj: T, failing: str, kind: Kind[Any] | None = None) -> T:
        """Fails also where the cache is ahead: when the server was set back to a backup, until the cache has listed all
        anew.

        kind: whole, where the body is to be remembered.
        """
        key, uid = key_of(obj), obj.metadata.uid
        request: Awaitable[T] = self._cluster.get(kind or self._kind, key.name, key.namespace)
        request = self._remember(request) if kind else request
        try:
            found = await (self._cache.read(key, request) if self._keeps_answers else request)
        except NotFound as error:
            raise self._vanished(obj) from error
        except ApiError as error:
            raise Failed(f"{failing}: {error}", patience=self._patience) from error
        self._unanswered.pop(uid, None)
        if compare_versions(_version(found), _version(obj)) < 0:  # be it the same object or another of the name
            raise Failed(f"{failing}: the API server was set back", patience=self._patience)
        if found.metadata.uid != uid:
            raise self._vanished(obj)
        return found

    def _moved(self, obj: T, why: object) -> Stale:
        return Stale(f"{self._kind.name} {key_of(obj)} has changed: {why}")

    def _vanished(self, obj: T) -> Vanished:
        self.forget(obj)
        return Vanished(f"{self._kind.name} {key_of(obj)} is no more")

    def _note_unanswered(self, obj: T) -> None:
        store = self._cache.store
        if store.get(key_of(obj)) is not None:
            self._unanswered[obj.metadata.uid] = key_of(obj)
        if len(self._unanswered) > UNANSWERED_MAX:
            self._unanswered = {uid: key for uid, key in self._unanswered.items() if store.get(key) is not None}

    # -- whole objects

    async def _body(self, obj: T, strictly: bool) -> Json:
        """The object as it is stored, to be changed: from the last answer, where that is what the cache shows, or asked
        for.
        """
        uid = obj.metadata.uid
        known = self._whole.get(uid)
        if known is None or known[0] != _version(obj):
            found = await self._look(obj, f"{self._kind.name} {key_of(obj).name} could not be read", self._kind.whole())
            if strictly and _version(found) != _version(obj):
                raise self._moved(obj, "it is read again")
        body: Json = msgspec.json.decode(self._whole[uid][1])
        return body

    async def _remember(self, request: Awaitable[Any]) -> T:
        body = await request
        uid = body["metadata"]["uid"]
        self._whole[uid] = body["metadata"]["resourceVersion"], msgspec.json.encode(body)
        self._whole.move_to_end(uid)
        if len(self._whole) > WHOLE_MAX:
            self._whole.popitem(last=False)
        return msgspec.convert(body, self._kind.struct)


def _version(obj: Object) -> str:
    return obj.metadata.resource_version


def _of_version(obj: Object, patch: Patch) -> Patch:
    """The patch for this very version of the object alone."""
    version = _version(obj)
    if patch.type is PatchType.JSON:
        return Patch(patch.type, [test("/metadata/resourceVersion", version), *patch.body])
    return Patch(patch.type, {**patch.body, "metadata": {**patch.body.get("metadata", {}), "resourceVersion": version}})
