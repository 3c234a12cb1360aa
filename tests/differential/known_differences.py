"""Differences that are known and meant, each with its reason. What is in none of these rows is a fault."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final

from tests.differential.steps import APPLY_PATCH, STRATEGIC_PATCH, Ref, Step


@dataclasses.dataclass(frozen=True)
class Seen:
    """A step and both answers, alike."""

    step: Step
    ours: dict[str, Any]
    theirs: dict[str, Any]
    differences: tuple[str, ...]

    @property
    def codes(self) -> tuple[int, int]:
        return self.ours["status"], self.theirs["status"]

    def says_any(self, *words: str) -> bool:
        """The real one's answer has some of these words."""
        return any(word in str(self.theirs["value"]) for word in words)

    def causes_differ_in(self, *words: str) -> bool:
        """Both name causes, or the real one alone does; each that only one of them names has some of these words in its field."""
        ours, theirs = (
            {*(answer["value"] or {}).get("causes", ())} if isinstance(answer["value"], dict) else set()
            for answer in (self.ours, self.theirs)
        )
        return self.codes[1] == 422 and bool(ours ^ theirs) and all(any(word in field for word in words) for _, field, _ in ours ^ theirs)

    def is_of_another_kind(self) -> bool:
        """Both say so of the object."""
        return all(
            any(field == "kind" and "must be " in why for _, field, why in answer["value"].get("causes", ()))
            for answer in (self.ours, self.theirs)
        )

    def at_most(self, *places: str) -> bool:
        """Nothing else differs."""
        return all(text.partition(":")[0] in places for text in self.differences)


@dataclasses.dataclass(frozen=True)
class Known:
    """ends: what is stored differs from here on, so nothing more is compared."""

    name: str
    reason: str
    is_it: Callable[[Seen], bool]
    ends: bool = False


_GATED: Final = (
    "clusterTrustBundle",
    "podCertificate",
    "preventPodScheduling",
    "volumeStatus",
    "preferredHolder",
    "warnings",
    "resourceVersion",
    "schedulingGroup",
    "nodeAllocatableResourceClaimStatuses",
)
_OWNS_LOST: Final = (
    "value.metadata.finalizers: ['kubernetes.io/vac-protection'] / absent",
    "value.spec.taints: [{'effect': 'NoSchedule', 'key': 'node.kubernetes.io/not-ready'}] / absent",
)
"""The server's own, which the real one forgets with the last field of an apply beside it."""
_REPLACED: Final = (
    *("awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "fc", "flexVolume", "flocker", "gcePersistentDisk", "gitRepo"),
    *("glusterfs", "iscsi", "nfs", "persistentDisk", "photonPersistentDisk", "portworxVolume", "quobyte", "rbd", "scaleIO", "storageos"),
    "vsphereVolume",
)
"""Volume sources that CSI drivers have taken the place of."""

KNOWN: Final = (
    Known(
        "nulls in an apply",
        "a null in an apply to a custom kind means the same as in a creation: nothing is there",
        lambda seen: seen.codes[0] in (200, 201) and seen.codes[1] == 422 and seen.says_any("FieldValueTypeInvalid"),
        ends=True,
    ),
    Known(
        "one object at a moment",
        "a list by metadata.name obeys limit and resourceVersion like any other; the real one shows the newest state then",
        lambda seen: any(name == "fieldSelector" and "metadata.name=" in str(value) for name, value in seen.step.query),
    ),
    Known(
        "500 for the client's mistake",
        "what the real one answers with 500 and no reason (a version that is no number, a version in a creation, an item without its merge "
        "key, an apply that follows an object without keys) is 400 or 422, or is done: the server has not failed",
        lambda seen: seen.codes[1] == 500 and (seen.codes[0] != 500 or not seen.theirs["value"]["message"]),
    ),
    Known(
        "claim's first update",
        "the real one writes the first update of a claim or account that changes nothing; ours writes nothing",
        lambda seen: (
            any(kind in seen.step.path for kind in ("persistentvolumeclaims", "serviceaccounts"))
            and seen.at_most("value.metadata.resourceVersion")
        ),
        ends=True,
    ),
    Known(
        "places that are none",
        "a path or a method that nothing has is refused with 404 or 405 and a Status, for custom kinds as for all others",
        lambda seen: {*seen.codes} <= {404, 405} or seen.codes[0] == 405 or seen.step.method == "HEAD" or "/status/" in seen.step.path,
    ),
    Known(
        "status as a table",
        "GET of /status is shown as a table, too, when a client asks for it",
        lambda seen: seen.codes[1] == 406 and seen.step.path.endswith("/status"),
    ),
    Known(
        "warnings of who is refused",
        "a name that is taken is refused without the warnings that its kind has about the object",
        lambda seen: seen.codes == (409, 409) and seen.at_most("warnings"),
    ),
    Known(
        "version 0 in a dry run",
        "a creation that is only tried shows no resourceVersion",
        lambda seen: (
            ("dryRun", "All") in seen.step.query
            and (seen.at_most("value.metadata.resourceVersion") or "should not be set on objects" in str(seen.ours["value"]))
        ),
        ends=True,
    ),
    Known(
        "directives where nothing is",
        "a directive of a strategic patch means the same where nothing is to be merged; the real one drops it, or takes it for a field",
        lambda seen: seen.step.content_type == STRATEGIC_PATCH and "$patch" in str(seen.step.body),
        ends=True,
    ),
    Known(
        "numbers that are too large",
        "a number that does not fit is refused in an apply, too; the real one keeps its lowest bits, or the largest that fits",
        lambda seen: (
            (seen.codes[0] in (422, 500) and seen.codes[1] in (200, 201, 422) and "parser says" in str(seen.ours["value"]))
            or (seen.step.content_type == APPLY_PATCH and any(number in str(seen.step) for number in ("9223372036854775808", "1e+100")))
        ),
        ends=True,
    ),
    Known(
        "who owned a field",
        "until the first apply nobody knows who wrote a field: what others and the server itself wrote belongs to before-first-apply",
        lambda seen: (
            (seen.codes == (409, 409) and "FieldManagerConflict" in str(seen.theirs["value"]))
            or (seen.codes[0] == 409 and "FieldManagerConflict" in str(seen.ours["value"]))
            or (seen.step.content_type == APPLY_PATCH and all(text.startswith("value.status.") for text in seen.differences))
            or (seen.step.content_type == APPLY_PATCH and all(text.startswith(_OWNS_LOST) for text in seen.differences))
        ),
        ends=True,
    ),
    Known(
        "what can be read comes first",
        "a client that can't read any answer is told so, whatever there is",
        lambda seen: seen.codes == (406, 404) or ("Accept", "application/*") in seen.step.headers,
    ),
    Known(
        "marks of the server",
        "nobody but the server writes deletionTimestamp, deletionGracePeriodSeconds and selfLink: not by a creation, not in a dry run",
        lambda seen: seen.at_most(*(f"value.metadata.{name}" for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"))),
        ends=True,
    ),
    Known(
        "numbers of more than 64 bits",
        "a whole number that a custom kind takes as it is is kept to the last digit; the real one makes a fraction of it",
        lambda seen: all("9223372036854775808" in text for text in seen.differences),
        ends=True,
    ),
    Known(
        "data with nothing in it",
        "an empty map of data is none: an immutable Secret or ConfigMap that gets one is as it was",
        lambda seen: (
            seen.says_any("field is immutable when `immutable` is set")
            and (seen.codes == (200, 422) or (seen.codes == (422, 422) and seen.causes_differ_in("data", "binaryData")))
        ),
        ends=True,
    ),
    Known(
        "a second source beside flexVolume",
        "a volume has one source, whichever it is; the real one takes another beside flexVolume",
        lambda seen: seen.codes[0] == 422 and "'spec.flexVolume', 'Forbidden: may not specify more than 1" in str(seen.ours["value"]),
        ends=True,
    ),
    Known(
        "the record in a patch",
        "managedFields are there from the first apply on: a patch that tests or copies them before finds none",
        lambda seen: "managedFields" in str(seen.step.body),
        ends=True,
    ),
    Known(
        "bytes as numbers",
        "bytes are base64; the real one takes a list of numbers, too",
        lambda seen: seen.codes[0] == 400 and seen.codes[1] != 400 and any(kind in seen.step.path for kind in ("/secrets", "/configmaps")),
        ends=True,
    ),
    Known(
        "all that is wrong with an event",
        "an event is told what is wrong with its metadata together with the rest",
        lambda seen: (
            seen.codes == (422, 422) and "/events" in seen.step.path and {*seen.theirs["value"]["causes"]} < {*seen.ours["value"]["causes"]}
        ),
    ),
    Known(
        "the largest generation",
        "a generation that can't grow stays; in the real one it turns negative, and the object can't be changed any more",
        lambda seen: "9223372036854775807" in str(seen.step) and "generation" in str(seen.step),
        ends=True,
    ),
    Known(
        "retry of a version ahead",
        "a version that lies ahead of the server is always told with the time to wait",
        lambda seen: seen.codes == (504, 504) and seen.at_most("value.details.retryAfterSeconds"),
    ),
    Known(
        "fields behind gates",
        "fields whose feature is off by default in the real one are kept",
        lambda seen: (
            all(any(word in text for word in _GATED) for text in seen.differences)
            or (seen.codes[0] == 422 and seen.codes[1] in (200, 201) and "schedulingGroup" in str(seen.step))
        ),
        ends=True,
    ),
    Known(
        "a class of service that a client names",
        "the class of service follows from the containers; the real one takes it from the status in a creation",
        lambda seen: all("qosClass" in text for text in seen.differences),
        ends=True,
    ),
    Known(
        "schemas that are none",
        "an `items` that is no schema can't be read; the real one takes it for none",
        lambda seen: seen.codes == (400, 422) and "customresourcedefinitions" in seen.step.path,
    ),
    Known(
        "a revision's data as text",
        "the data of a ControllerRevision are compared as values; the real one compares their text, so that a patch of anything else is "
        "refused where the text had blanks or another order",
        lambda seen: (
            "/controllerrevisions" in seen.step.path
            and (seen.codes[1] == 409 or (seen.codes[1] == 422 and seen.causes_differ_in("data")) or seen.says_any("'data'"))
        ),
        ends=True,
    ),
    Known(
        "maxUnavailable of a StatefulSet",
        "it is kept, and counts as a change; the real one drops it where its feature is off, which it is by default",
        lambda seen: "/statefulsets" in seen.step.path and any("rollingUpdate.maxUnavailable" in text for text in seen.differences),
        ends=True,
    ),
    Known(
        "no answer at all",
        "the real one cuts the connection at some patches of lists with keys",
        lambda seen: seen.codes[1] == 0 and seen.step.content_type == STRATEGIC_PATCH,
        ends=True,
    ),
    Known(
        "replaced volume sources",
        "of the sources that CSI drivers have taken the place of only the required names are checked, and of several only the first",
        lambda seen: seen.causes_differ_in(*_REPLACED, "persistentvolumesource"),
        ends=True,
    ),
    Known(
        "what follows from what in a Job's status",
        "the numbers of a Job's status are checked, not which of them go with which condition: the controller that writes them knows that",
        lambda seen: "/jobs/" in seen.step.path and seen.step.path.endswith("/status") and seen.causes_differ_in("status."),
        ends=True,
    ),
    Known(
        "a record that can't be read",
        "an apply to an object whose record of owners can't be read is told what is wrong with itself; the real one tells of the "
        "record first",
        lambda seen: seen.codes[1] == 500 and seen.says_any("manager for existing fields"),
        ends=True,
    ),
    Known(
        "ephemeral containers of a new pod",
        "a pod may not be made with ephemeral containers: what else is wrong with them is not told",
        lambda seen: seen.codes == (422, 422) and seen.causes_differ_in("ephemeralContainers"),
    ),
    Known(
        "labels of a Job that is only tried",
        "it shows the labels that it would have; the real one shows them once it is stored",
        lambda seen: (
            ("dryRun", "All") in seen.step.query
            and "/jobs" in seen.step.path
            and all(text.startswith("value.metadata.labels") for text in seen.differences)
        ),
    ),
    Known(
        "what is not served and named by pods",
        "RuntimeClasses and ResourceClaims are not served: their names, and claims of a whole pod, are not looked at everywhere",
        lambda seen: seen.causes_differ_in("runtimeClassName", "resources.claims", "resourceClaims"),
        ends=True,
    ),
    Known(
        "all that is wrong with an update of a pod",
        "a pod's spec that may not change is refused by both; what else is wrong with it may be told by one of them alone",
        lambda seen: (
            seen.codes == (422, 422)
            and "/pods/" in seen.step.path
            and seen.step.method in ("PUT", "PATCH")
            and seen.causes_differ_in("spec")
        ),
    ),
    Known(
        "a patch of what is not there",
        "a strategic patch of what is not there is not read; the real one may tell first that its values have other types",
        lambda seen: seen.codes == (404, 422) and seen.step.content_type == STRATEGIC_PATCH,
    ),
    Known(
        "addresses",
        "addresses of nodes and pods are taken as they are: nothing here routes by them",
        lambda seen: seen.causes_differ_in("podCIDR", "podIP", "hostIP"),
        ends=True,
    ),
    Known(
        "succeededIndexes",
        "the text of a success policy's indexes is taken as it is",
        lambda seen: seen.causes_differ_in("successPolicy"),
        ends=True,
    ),
    Known(
        "all that is wrong with another kind",
        "an object that says to be of another kind is refused by both; what its values are to the rules of the schema may be told by the "
        "real one alone, and what the schema does not know by ours",
        lambda seen: seen.codes == (422, 422) and seen.is_of_another_kind() and seen.at_most("value.causes", "warnings"),
    ),
    Known(
        "a token of another list",
        "a continue token is good for the list that gave it: one of objects in namespaces is refused elsewhere, and the other way round",
        lambda seen: seen.codes == (400, 200) and any(name == "continue" and isinstance(value, Ref) for name, value in seen.step.query),
    ),
    Known(
        "all that is wrong with a definition",
        "a definition that is refused is refused by both; how many of its faults are told at once, and whether a type or a rule "
        "comes first, differs",
        lambda seen: {*seen.codes} <= {400, 422} and "/customresourcedefinitions" in seen.step.path,
    ),
    Known(
        "conflicts about such fields",
        "the real one remembers the owner of a field that it has dropped",
        lambda seen: (
            seen.codes[1] == 409
            and seen.says_any("preventPodScheduling", "configSource", ".spec.drivers", "preferredHolder", ".spec.strategy")
        ),
        ends=True,
    ),
)
"""The first that fits counts."""


def page() -> str:
    """All of them, as docs/apiserver.md tells them."""
    return "\n".join(f"- {known.name}: {known.reason}." for known in KNOWN)


def known_in(seen: Seen) -> Known | None:
    return next((known for known in KNOWN if known.is_it(seen)), None)
