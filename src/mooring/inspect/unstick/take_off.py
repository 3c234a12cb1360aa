"""Taking finalizers off: each is judged anew on the version of the object that is written, and by force only after an
Event was left.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import Any, Final

import msgspec

from mooring.api.meta import Kind, Object, finalizers_of, is_deleting
from mooring.base.clock import Clock
from mooring.inspect.told_event import tell, user_of
from mooring.inspect.unstick.facts import Facts
from mooring.inspect.unstick.look import KINDS, Look
from mooring.inspect.unstick.table import Verdict, verdicts
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError, Conflict, NotFound
from mooring.kube.patch import merge_patch

TRIES_MAX: Final = 3
FORCED: Final = "FinalizerRemovedByForce"
COMPONENT: Final = "mooring-unstick"
CHANGED: Final = "somebody keeps changing the object: look again"


class Removal(msgspec.Struct, frozen=True):
    """forced_because: whoever runs this says why nothing has to be proved, "" where all has to be."""

    cluster: Cluster
    clock: Clock
    look: Look
    forced_because: str = ""

    async def run(self, chosen: Collection[str]) -> dict[str, str]:
        """Each chosen finalizer with what kept it on, "" once it is off. Raises what looking raises."""
        is_told, kind = False, KINDS[self.look.kind]
        for _ in range(TRIES_MAX):
            facts = await self.look.again()
            if facts is None:
                return dict.fromkeys(chosen, "")
            kept = {one.finalizer: self._kept(one, facts) for one in verdicts(facts) if one.finalizer in chosen}
            going = [finalizer for finalizer, why in kept.items() if not why]
            try:
                if going and self.forced_because and not is_told:
                    await self._tell(kind, facts, going)
                    is_told = True
                if going:
                    await take_off(self.cluster, kind, facts.obj, going)
            except Conflict:
                continue
            except ApiError as error:
                return {**dict.fromkeys(chosen, ""), **kept, **dict.fromkeys(going, str(error))}
            return {**dict.fromkeys(chosen, ""), **kept}
        return dict.fromkeys(chosen, CHANGED)

    def _kept(self, one: Verdict, facts: Facts) -> str:
        if not is_deleting(facts.obj):
            return "the object is not being deleted"
        if self.forced_because or one.may_go:
            return ""
        return "; ".join(objection.text for objection in one.objections) or "nothing proves any more that it may go"

    async def _tell(self, kind: Kind[Any], facts: Facts, going: Collection[str]) -> None:
        against = [
            f"{one.finalizer} ({'; '.join(o.text for o in one.objections) or 'nothing'})"
            for one in verdicts(facts)
            if one.finalizer in going
        ]
        message = (
            f"{await user_of(self.cluster)} takes off by force, because: {self.forced_because}. What spoke against "
            f"it: {', '.join(against)}"
        )
        await tell(self.cluster, self.clock, kind, facts.obj, FORCED, message, COMPONENT)
        assert set(going) <= set(finalizers_of(facts.obj))


async def take_off(cluster: Cluster, kind: Kind[Any], obj: Object, finalizers: Collection[str]) -> None:
    """Takes them off the very version that was judged: a writer since then may have begun to attach the volume. Raises
    ApiError.
    """
    left = [held for held in finalizers_of(obj) if held not in finalizers]
    body = {"metadata": {"finalizers": left, "resourceVersion": obj.metadata.resource_version}}
    with contextlib.suppress(NotFound):
        await cluster.patch(kind, obj.metadata.name, merge_patch(body, of=obj), obj.metadata.namespace)
