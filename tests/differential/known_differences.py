"""Differences that are known and meant, each with its reason. What is in none of these rows is a fault."""

from __future__ import annotations

import dataclasses
import json
import re
import textwrap
from collections.abc import Callable
from typing import Any, Final

from tests.differential.schemas import UNREAD
from tests.differential.steps import APPLY_PATCH, STRATEGIC_PATCH, Ref, Step

_FORTY_DIGITS: Final = re.compile(r"[0-9]{40}")


@dataclasses.dataclass(frozen=True)
class Seen:
    """A step and both answers, alike. steps: those of the sequence up to some later one."""

    step: Step
    ours: dict[str, Any]
    theirs: dict[str, Any]
    differences: tuple[str, ...]
    steps: tuple[Step, ...] = ()

    @property
    def codes(self) -> tuple[int, int]:
        return self.ours["status"], self.theirs["status"]

    def says_any(self, *words: str) -> bool:
        """The real one's answer has some of these words."""
        return any(word in str(self.theirs["value"]) for word in words)

    def causes_differ_in(self, *words: str) -> bool:
        """Both name causes, or the real one alone does; each that only one of them names has some of these words in its
        field.
        """
        ours, theirs = (
            {*(answer["value"] or {}).get("causes", ())} if isinstance(answer["value"], dict) else set()
            for answer in (self.ours, self.theirs)
        )
        return (
            self.codes[1] == 422
            and bool(ours ^ theirs)
            and all(any(word in field for word in words) for _, field, _ in ours ^ theirs)
        )

    def only_theirs_says(self, why: str) -> bool:
        """The real one names more causes, all with these words, and none less."""
        values = (answer["value"] for answer in (self.ours, self.theirs))
        ours, theirs = ({*value.get("causes", ())} if isinstance(value, dict) else set() for value in values)
        return ours < theirs and all(why in text for _, _, text in theirs - ours)

    def only_theirs_is_null(self) -> bool:
        """What only the real one refuses are nulls, so that ours judges an object without them, and the real one checks
        no rules.
        """
        values = (answer["value"] if isinstance(answer["value"], dict) else {} for answer in (self.ours, self.theirs))
        ours, theirs = ({*value.get("causes", ())} for value in values)
        null = {
            field
            for reason, field, text in theirs - ours
            if reason == "FieldValueTypeInvalid" and text.endswith('"null"')
        }
        return bool(null) and {field for _, field, _ in theirs - ours} <= {*null, "<nil>"}

    def conflicts_in(self, *parts: str) -> bool:
        """The real one names conflicts, all of them below these fields."""
        causes = (self.theirs["value"] or {}).get("causes") or ()
        return bool(causes) and all(
            reason == "FieldManagerConflict" and field.startswith(parts) for reason, field, _ in causes
        )

    def has_applied_nothing(self) -> bool:
        """A custom object's metadata with something empty in it has been applied."""
        return any(
            step.content_type == APPLY_PATCH
            and _is_custom(step)
            and isinstance(step.body, dict)
            and isinstance(metadata := step.body.get("metadata"), dict)
            and not all(metadata.values())
            for step in self.steps
        )

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
    "nodeAllocatableResourceClaimStatuses",
)
_UNREAD: Final = tuple(field for fields in UNREAD.values() for field in fields)
_OWNS_LOST: Final = (
    *(f"value.metadata.finalizers: ['kubernetes.io/{kind}-protection'] / absent" for kind in ("pv", "pvc", "vac")),
    "value.spec.taints: [{'effect': 'NoSchedule', 'key': 'node.kubernetes.io/not-ready'}] / absent",
)
"""The server's own, which the real one forgets with the last field of an apply beside it."""


def _is_lost(differences: tuple[str, ...]) -> bool:
    """Also of an object in deletion, which is gone with its last finalizer: another version is answered then."""
    lost = [text for text in differences if not text.startswith("value.metadata.resourceVersion: ")]
    return bool(lost) and all(text.startswith(_OWNS_LOST) for text in lost)


_REPLACED: Final = (
    *(
        "awsElasticBlockStore",
        "azureDisk",
        "azureFile",
        "cephfs",
        "cinder",
        "fc",
        "flexVolume",
        "flocker",
        "gcePersistentDisk",
        "gitRepo",
    ),
    *(
        "glusterfs",
        "iscsi",
        "nfs",
        "persistentDisk",
        "photonPersistentDisk",
        "portworxVolume",
        "quobyte",
        "rbd",
        "scaleIO",
        "storageos",
    ),
    "vsphereVolume",
)
"""Volume sources that CSI drivers have taken the place of."""

_SHOWN_EMPTY: Final = (
    ".firstTimestamp",
    ".lastTimestamp",
    ".reportingComponent",
    ".reportingInstance",
    ".deprecated",
    ".eventTime",
)
"""Of an event: they are in the JSON without a value, too."""


def _is_custom(step: Step) -> bool:
    return any(group in step.path for group in ("/mooring.test/", "/snapshot.storage.k8s.io/"))


_OVER_1000E: Final = re.compile(r"value\.\S+: '[0-9]{4,}E' / '[0-9]+[A-Z]?'")

KNOWN: Final = (
    Known(
        "nulls in an apply",
        "in an apply to a custom kind, a null means what it means in a creation: the field is absent",
        lambda seen: (
            (seen.codes[0] in (200, 201) and seen.codes[1] == 422 and seen.says_any("FieldValueTypeInvalid"))
            or (seen.step.content_type == APPLY_PATCH and seen.only_theirs_is_null())
        ),
        ends=True,
    ),
    Known(
        "a list of one object",
        "a list by metadata.name obeys limit and resourceVersion like any other list; the real server then "
        "shows the newest state",
        lambda seen: any(name == "fieldSelector" and "metadata.name=" in str(value) for name, value in seen.step.query),
    ),
    Known(
        "500 for the client's mistake",
        "the real server answers some mistakes of a client with 500 and no reason (a version that is not a "
        "number, a version in a "
        "creation, an item without its merge key, an apply after an object without keys); ours answers 400 or "
        "422, or carries out the "
        "request",
        lambda seen: seen.codes[1] == 500 and (seen.codes[0] != 500 or not seen.theirs["value"]["message"]),
    ),
    Known(
        "a claim's first update",
        "the real server writes the first update of a claim or account, even one that changes nothing; ours "
        "then writes nothing",
        lambda seen: (
            any(kind in seen.step.path for kind in ("persistentvolumeclaims", "serviceaccounts"))
            and seen.at_most("value.metadata.resourceVersion")
        ),
        ends=True,
    ),
    Known(
        "empty metadata of custom objects",
        "an apply of an empty list or text in the metadata of a custom object applies nothing; the real server "
        "stores it without showing "
        "it, so the next write counts as a change",
        lambda seen: (
            _is_custom(seen.step) and seen.at_most("value.metadata.resourceVersion") and seen.has_applied_nothing()
        ),
        ends=True,
    ),
    Known(
        "an empty allocatable",
        "of a node without allocatable both servers show its capacity; only the real one knows whether that "
        "was written, so a patch that "
        "empties the allocatable, or fills it with the same, is a change",
        lambda seen: (
            "/nodes" in seen.step.path
            and seen.at_most("value.metadata.resourceVersion")
            and "allocatable" in str(seen.steps)
        ),
        ends=True,
    ),
    Known(
        "unknown paths and methods",
        "ours refuses an unknown path or method with 404 or 405 and a Status, for custom kinds as for all others",
        lambda seen: (
            {*seen.codes} <= {404, 405}
            or seen.codes[0] == 405
            or seen.step.method == "HEAD"
            or "/status/" in seen.step.path
        ),
    ),
    Known(
        "status as a table",
        "ours also shows a GET of /status as a table when a client asks for it",
        lambda seen: seen.codes[1] == 406 and seen.step.path.endswith("/status"),
    ),
    Known(
        "warnings beside a refusal",
        "ours refuses a name that is taken without the warnings that the kind has about the object",
        lambda seen: seen.codes == (409, 409) and seen.at_most("warnings"),
    ),
    Known(
        "version 0 in a dry run",
        "a creation in a dry run shows no resourceVersion",
        lambda seen: (
            ("dryRun", "All") in seen.step.query
            and (
                seen.at_most("value.metadata.resourceVersion")
                or "should not be set on objects" in str(seen.ours["value"])
            )
        ),
        ends=True,
    ),
    Known(
        "directives without a target",
        "a directive of a strategic patch means the same where there is nothing to merge; the real server "
        "drops it, or takes it for a "
        "field",
        lambda seen: seen.step.content_type == STRATEGIC_PATCH and "$patch" in str(seen.step.body),
        ends=True,
    ),
    Known(
        "numbers that are too large",
        "ours refuses a number that does not fit, also in an apply; the real server keeps its lowest bits, or "
        "the largest number that fits",
        lambda seen: (
            (
                seen.codes[0] in (422, 500)
                and seen.codes[1] in (200, 201, 400, 422)
                and "parser says" in str(seen.ours["value"])
            )
            or (seen.codes == (400, 400) and seen.at_most("value.message") and _FORTY_DIGITS.search(str(seen.step)))
            or (
                seen.step.content_type == APPLY_PATCH
                and any(number in str(seen.step) for number in ("9223372036854775808", "1e+100"))
            )
        ),
        ends=True,
    ),
    Known(
        "a test of null in a list",
        "a JSON patch may test for a list with null in it; there the real server ends the connection",
        lambda seen: (
            seen.codes[1] == 0
            and '"op": "test"' in json.dumps(seen.step.body)
            and "[null" in json.dumps(seen.step.body)
        ),
        ends=True,
    ),
    Known(
        "fractions are named once",
        "where a custom kind asks for a whole number in a format, the real server names a fraction a second time",
        lambda seen: seen.only_theirs_says("Checked value must be of type"),
    ),
    Known(
        "empty lists in a claim template's metadata",
        "an empty list counts as none; the real server refuses empty owners and finalizers like others",
        lambda seen: (
            seen.only_theirs_says("cannot be set")
            and seen.causes_differ_in(
                "volumeClaimTemplate.metadata.finalizers", "volumeClaimTemplate.metadata.ownerReferences"
            )
        ),
    ),
    Known(
        "quantities beyond the largest suffix",
        "a quantity of 1000E or more keeps its value; of a longer one the real server keeps some first digits, "
        "and in a refusal it takes "
        "2^63 for less than nothing",
        lambda seen: (
            all(_OVER_1000E.fullmatch(text) for text in seen.differences)
            or ("9223372036854775808" in str(seen.step) and seen.only_theirs_says("must be a valid resource quantity"))
        ),
        ends=True,
    ),
    Known(
        "who owned a field",
        "until the first apply ours does not record who wrote a field: all earlier writes, also the server's "
        "own, belong to "
        "before-first-apply, those of the status only if that apply is one of the status; nobody owns what "
        "somebody has emptied",
        lambda seen: (
            (seen.codes == (409, 409) and "FieldManagerConflict" in str(seen.theirs["value"]))
            or (seen.codes[0] == 409 and "FieldManagerConflict" in str(seen.ours["value"]))
            or (seen.codes == (200, 409) and seen.step.path.endswith("/status") and seen.conflicts_in(".status"))
            or (seen.codes == (200, 409) and "/events" in seen.step.path and seen.conflicts_in(*_SHOWN_EMPTY))
            or (
                seen.step.content_type == APPLY_PATCH
                and all(text.startswith("value.status.") for text in seen.differences)
            )
            or (seen.step.content_type == APPLY_PATCH and _is_lost(seen.differences))
            or (
                seen.step.content_type == APPLY_PATCH
                and seen.codes == (200, 422)
                and "controller-uid" in str(seen.theirs["value"])
            )
        ),
        ends=True,
    ),
    Known(
        "formats come first",
        "ours refuses a client that accepts none of its formats before it looks at anything else",
        lambda seen: seen.codes == (406, 404) or ("Accept", "application/*") in seen.step.headers,
    ),
    Known(
        "the server's own fields",
        "only the server writes deletionTimestamp, deletionGracePeriodSeconds and selfLink: neither a creation "
        "nor a dry run can",
        lambda seen: seen.at_most(
            *(f"value.metadata.{name}" for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"))
        ),
        ends=True,
    ),
    Known(
        "numbers of more than 64 bits",
        "if a custom kind accepts any whole number, ours keeps it to the last digit; the real server makes a "
        "fraction of it",
        lambda seen: all("9223372036854775808" in text for text in seen.differences),
        ends=True,
    ),
    Known(
        "empty data",
        "an empty map of data counts as none, so an immutable Secret or ConfigMap that gets one is unchanged",
        lambda seen: (
            seen.says_any("field is immutable when `immutable` is set")
            and (seen.codes == (200, 422) or (seen.codes == (422, 422) and seen.causes_differ_in("data", "binaryData")))
        ),
        ends=True,
    ),
    Known(
        "empty overhead",
        "an empty overhead of a new pod counts as none; the real server refuses it like any other",
        lambda seen: seen.codes[1] == 403 and seen.says_any("Pod Overhead set without"),
        ends=True,
    ),
    Known(
        "a second source beside flexVolume",
        "a volume has one source, whichever it is; the real server accepts another beside flexVolume",
        lambda seen: (
            seen.codes[0] == 422
            and "'spec.flexVolume', 'Forbidden: may not specify more than 1" in str(seen.ours["value"])
        ),
        ends=True,
    ),
    Known(
        "managedFields in a patch",
        "managedFields exist from the first apply on: an earlier patch that tests or copies them finds none",
        lambda seen: "managedFields" in str(seen.step.body),
        ends=True,
    ),
    Known(
        "bytes as numbers",
        "bytes are base64; the real server also accepts a list of numbers",
        lambda seen: (
            seen.codes[0] == 400
            and seen.codes[1] != 400
            and any(kind in seen.step.path for kind in ("/secrets", "/configmaps"))
        ),
        ends=True,
    ),
    Known(
        "mistakes in an event",
        "ours reports the mistakes in an event's metadata together with the others",
        lambda seen: (
            seen.codes == (422, 422)
            and "/events" in seen.step.path
            and {*seen.theirs["value"]["causes"]} < {*seen.ours["value"]["causes"]}
        ),
    ),
    Known(
        "the largest generation",
        "a generation that can't grow stays; in the real server it turns negative, and the object can't be "
        "changed any more",
        lambda seen: "9223372036854775807" in str(seen.step) and "generation" in str(seen.step),
        ends=True,
    ),
    Known(
        "retry of a version ahead",
        "for a version that lies ahead of the server, ours always tells the client how long to wait",
        lambda seen: seen.codes == (504, 504) and seen.at_most("value.details.retryAfterSeconds"),
    ),
    Known(
        "fields behind gates",
        "ours keeps fields whose feature is off by default in the real server",
        lambda seen: all(any(word in text for word in _GATED) for text in seen.differences),
        ends=True,
    ),
    Known(
        "a class of service that a client names",
        "the class of service follows from the containers; the real server takes it from the status in a creation",
        lambda seen: all("qosClass" in text for text in seen.differences),
        ends=True,
    ),
    Known(
        "a revision's data as text",
        "ours compares the data of a ControllerRevision as values; the real server compares the text, so it "
        "refuses a patch of another "
        "field if the text had blanks or another order",
        lambda seen: (
            "/controllerrevisions" in seen.step.path
            and (
                seen.codes[1] == 409
                or (seen.codes[1] == 422 and seen.causes_differ_in("data"))
                or seen.says_any("'data'")
            )
        ),
        ends=True,
    ),
    Known(
        "maxUnavailable of a StatefulSet",
        "ours keeps it, and it counts as a change; the real server drops it where its feature is off, as it is "
        "by default",
        lambda seen: (
            "/statefulsets" in seen.step.path
            and any("rollingUpdate.maxUnavailable" in text for text in seen.differences)
        ),
        ends=True,
    ),
    Known(
        "no answer at all",
        "the real server cuts the connection at some patches of lists with keys, and at a ControllerRevision "
        "with a number that no float "
        "holds",
        lambda seen: (
            seen.codes[1] == 0
            and (
                seen.step.content_type == STRATEGIC_PATCH
                or (seen.codes[0] == 400 and "controllerrevisions" in seen.step.path and "0" * 309 in str(seen.step))
            )
        ),
        ends=True,
    ),
    Known(
        "replaced volume sources",
        "of the sources that CSI drivers have replaced, ours checks only the required names, and of several "
        "sources only the first",
        lambda seen: seen.causes_differ_in(*_REPLACED, "persistentvolumesource"),
        ends=True,
    ),
    Known(
        "a Job's status",
        "ours checks the numbers of a Job's status, but not which numbers go with which condition: the "
        "controller that writes them "
        "ensures that",
        lambda seen: (
            "/jobs/" in seen.step.path and seen.step.path.endswith("/status") and seen.causes_differ_in("status.")
        ),
        ends=True,
    ),
    Known(
        "unreadable managedFields",
        "if an object's managedFields can't be read, ours reports the mistakes of an apply itself; the real "
        "server reports the "
        "managedFields first",
        lambda seen: seen.codes[1] == 500 and seen.says_any("manager for existing fields"),
        ends=True,
    ),
    Known(
        "ephemeral containers of a new pod",
        "a new pod may not have ephemeral containers; ours does not report other mistakes in them",
        lambda seen: seen.codes == (422, 422) and seen.causes_differ_in("ephemeralContainers"),
    ),
    Known(
        "labels of a Job in a dry run",
        "ours shows the labels that the Job would have; the real server shows them once the Job is stored",
        lambda seen: (
            ("dryRun", "All") in seen.step.query
            and "/jobs" in seen.step.path
            and all(text.startswith("value.metadata.labels") for text in seen.differences)
        ),
    ),
    Known(
        "fields of a pod that nothing here reads",
        "ours checks them by their types alone, and warns of none: variables, ports, probes, security, DNS, devices, "
        "addresses; the comparison leaves them out, but for values that a patch moves there",
        lambda seen: seen.causes_differ_in(*_UNREAD),
        ends=True,
    ),
    Known(
        "unserved kinds that pods name",
        "RuntimeClasses are not served: ours does not check their names in pods",
        lambda seen: seen.causes_differ_in("runtimeClassName"),
        ends=True,
    ),
    Known(
        "mistakes in a pod's update",
        "both refuse a change of a pod's fixed spec; further mistakes may be reported by only one of them",
        lambda seen: (
            seen.codes == (422, 422)
            and "/pods/" in seen.step.path
            and seen.step.method in ("PUT", "PATCH")
            and seen.causes_differ_in("spec")
        ),
    ),
    Known(
        "a patch of a missing object",
        "ours does not read a strategic patch of a missing object; the real server may first report that its "
        "values have other types",
        lambda seen: seen.codes == (404, 422) and seen.step.content_type == STRATEGIC_PATCH,
    ),
    Known(
        "addresses",
        "of several addresses or networks, one of which can't be read, the real server also reports that it "
        "can't tell their families",
        lambda seen: seen.causes_differ_in("podCIDRs") and seen.says_any("dual stack"),
        ends=True,
    ),
    Known(
        "warnings about certificates",
        "ours does not look into the certificate of a Secret for TLS; the real server warns of one that can't "
        "be read, or does not fit its "
        "key",
        lambda seen: seen.at_most("warnings") and "/secrets" in seen.step.path and "tls." in str(seen.step),
    ),
    Known(
        "succeededIndexes",
        "ours accepts any text for a success policy's indexes",
        lambda seen: seen.causes_differ_in("successPolicy"),
        ends=True,
    ),
    Known(
        "mistakes in an object of another kind",
        "both refuse an object that names another kind; only the real server may report how its values break "
        "the schema's rules",
        lambda seen: seen.codes == (422, 422) and seen.is_of_another_kind() and seen.at_most("value.causes"),
    ),
    Known(
        "a token of another list",
        "a continue token is valid only for the list that gave it: ours refuses a token of namespaced objects "
        "elsewhere, and the other "
        "way round",
        lambda seen: (
            seen.codes == (400, 200)
            and any(name == "continue" and isinstance(value, Ref) for name, value in seen.step.query)
        ),
    ),
    Known(
        "mistakes in a definition",
        "both refuse the same definitions; they differ in how many mistakes they report at once, and whether a "
        "type or a rule comes first",
        lambda seen: {*seen.codes} <= {400, 422} and "/customresourcedefinitions" in seen.step.path,
    ),
    Known(
        "conflicts about dropped fields",
        "the real server remembers the owner of a field that it has dropped",
        lambda seen: (
            seen.codes[1] == 409
            and seen.says_any(
                "preventPodScheduling",
                "configSource",
                ".spec.drivers",
                "preferredHolder",
                ".spec.strategy",
                ".secrets[name=",
            )
        ),
        ends=True,
    ),
)
"""The first that fits counts."""


def page() -> str:
    """All of them, as docs/apiserver.md has them."""
    items = (f"- {known.name}: {known.reason}." for known in KNOWN)
    way = {"width": 120, "subsequent_indent": "  ", "break_long_words": False, "break_on_hyphens": False}
    return "\n".join(textwrap.fill(item, **way) for item in items)  # type: ignore[arg-type]


def known_in(seen: Seen) -> Known | None:
    return next((known for known in KNOWN if known.is_it(seen)), None)
