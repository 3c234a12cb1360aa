"""The result of a deletion: an object that is marked and held by its finalizers, or none.

A finalizer also says what becomes of dependents: `foregroundDeletion` keeps an owner until its dependents are gone,
`orphan` until they have lost their references (`controllers/garbage_collector.py` does both). A deletion sets and
removes these by its propagation policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.base.clock import rfc3339

Json = dict[str, Any]

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
_FOLLOWERS: Final = frozenset((ORPHAN, FOREGROUND))
_FINALIZER_OF: Final = {"Foreground": FOREGROUND, "Background": "", "Orphan": ORPHAN}
GENERATION_MAX: Final = 2**63 - 1


class DeleteOptions(msgspec.Struct, frozen=True):
    """uid, resource_version: preconditions. grace_s: None for the object's own. propagation: "" for the default."""

    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False
    grace_s: int | None = None
    propagation: str = ""
    orphan_dependents: bool | None = None

    @property
    def says_nothing(self) -> bool:
        """True when the request does not mention dependents."""
        return not self.propagation and self.orphan_dependents is None


PLAIN_DELETE: Final = DeleteOptions()


def options_of(given: Json, *, dry_run: bool = False) -> DeleteOptions:
    """given: a decoded body of that kind. dry_run: the request says so beside it. Raises Invalid."""
    wrong = wrong_dry_run(*given.get("dryRun", ())) + _wrong_propagation(given)
    if wrong:
        raise field_errors.invalid_object("DeleteOptions", "meta.k8s.io", "", wrong)
    preconditions = given.get("preconditions") or {}
    return DeleteOptions(
        preconditions.get("uid"),
        preconditions.get("resourceVersion"),
        dry_run or bool(given.get("dryRun")),
        given.get("gracePeriodSeconds"),
        given.get("propagationPolicy", ""),
        given.get("orphanDependents"),
    )


def _wrong_propagation(given: Mapping[str, Any]) -> list[FieldCause]:
    policy, field, found = given.get("propagationPolicy"), "propagationPolicy", list[FieldCause]()
    if policy is not None and given.get("orphanDependents") is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        found.append(field_errors.invalid(field, policy, text))
    if policy is not None and policy not in _FINALIZER_OF:
        found.append(field_errors.not_supported(field, policy, [*_FINALIZER_OF, "nil"]))
    return found


def wrong_dry_run(*values: Any) -> list[FieldCause]:
    """What a request to try a write, of any kind, may not say."""
    return [field_errors.not_supported("dryRun", [value], ["All"]) for value in values if value not in (None, "All")]


def plain(obj: Json, options: DeleteOptions, now: float) -> Json | None:
    """The object of most kinds that a deletion leaves; None when nothing holds it. obj is written to."""
    follow(obj["metadata"], options)
    return alone(obj, options, now)


def alone(obj: Json, _options: DeleteOptions, now: float) -> Json | None:
    """The same for a kind whose objects own nothing."""
    if not obj["metadata"].get("finalizers"):
        return None
    mark(obj["metadata"], now)
    return obj


def mark(meta: Json, now: float) -> None:
    """Writes that the object is being deleted; once."""
    if meta.get("deletionTimestamp"):
        return
    meta["deletionTimestamp"] = rfc3339(now)
    meta["deletionGracePeriodSeconds"] = 0
    if meta.get("generation", 0) > 0:
        meta["generation"] = min(meta["generation"] + 1, GENERATION_MAX)  # (a client may have begun anywhere)


def follow(meta: Json, options: DeleteOptions) -> None:
    """Sets the finalizer of the propagation policy and takes the other. Without a policy, what is there stays."""
    policy = options.propagation
    if options.orphan_dependents is not None:
        policy = "Orphan" if options.orphan_dependents else "Background"
    if policy:
        set_follower(meta, _FINALIZER_OF[policy])


def in_force(options: DeleteOptions, meta: Json, *, follows: bool, orphans: bool) -> DeleteOptions:
    """With the policy that counts. follows: somebody looks after dependents. orphans: the kind's stay where nothing is
    said, also not by a finalizer of the object's own.
    """
    if not follows:
        return msgspec.structs.replace(options, propagation="", orphan_dependents=None)
    said = not options.says_nothing or says_who_follows(meta.get("finalizers"))
    return options if said or not orphans else msgspec.structs.replace(options, propagation="Orphan")


def says_who_follows(finalizers: Iterable[str] | None) -> bool:
    """They tell what becomes of the object's dependents."""
    return not _FOLLOWERS.isdisjoint(finalizers or ())


def set_follower(meta: Json, finalizer: str) -> None:
    """It keeps only this one of `orphan` and `foregroundDeletion`, "" for none; other finalizers keep their place."""
    finalizers = meta.get("finalizers") or []
    kept = [name for name in finalizers if name not in _FOLLOWERS or name == finalizer]
    if finalizer and finalizer not in kept:
        kept.append(finalizer)
    if kept:
        meta["finalizers"] = kept
    else:
        meta.pop("finalizers", None)
