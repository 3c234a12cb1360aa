"""Which step a claim is due for: rows of (objects and what is remembered, decision)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from mooring.api.core import SECRETS, PersistentVolume, PersistentVolumeClaim, SecretReference
from mooring.api.storage import VOLUME_ATTRIBUTES_CLASSES, CSINode, StorageClass
from mooring.control.decision import Decision
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.cache.store import Store
from mooring.kube.errors import Forbidden, NotFound
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.claims import reasons as why
from mooring.sidecars.provisioner.claims.decide import (
    Action,
    Begin,
    CloseIntent,
    CountFailure,
    Create,
    Fail,
    LeaveToPopulator,
    LookUp,
    ReleaseSource,
    decide_claim,
    fingerprint,
)
from mooring.sidecars.provisioner.claims.view import Looked, View, Wanted
from mooring.sidecars.provisioner.intents.tracker import ClaimRecords, PendingVolume, Rest
from mooring.sidecars.provisioner.model.cached import CLAIM_INDEXES
from mooring.sidecars.provisioner.model.intent import ClaimIntents, Intent, IntentState, OwnVolume
from mooring.sidecars.provisioner.model.orders import Order
from mooring.sidecars.provisioner.model.outcomes import Failure, State
from mooring.sidecars.provisioner.model.topology import ClusterTopology
from mooring.sidecars.provisioner.options import Rules
from tests.support.builders import DRIVER, Json, a_claim, a_class, a_pv, typed
from tests.support.intents import an_entry
from tests.support.rows import each_row
from tests.support.stores import store_of

UID, NAME = "u", "pvc-u"
ASKED = {names.STORAGE_PROVISIONER: DRIVER}
NOW = 1000.0
SECRET = {"csi.storage.k8s.io/provisioner-secret-name": "s", "csi.storage.k8s.io/provisioner-secret-namespace": "ns"}
IN_TREE = DriverCapabilities("ebs.csi.aws.com", in_tree_name="kubernetes.io/aws-ebs")
FOO = {"apiGroup": "x.io", "kind": "Foo", "name": "f"}


def asking(annotations: Mapping[str, str] | None = None, size: str = "1Gi", **spec: Any) -> PersistentVolumeClaim:
    metadata = {
        "namespace": "ns",
        "uid": UID,
        "resourceVersion": "1",
        "annotations": ASKED if annotations is None else annotations,
    }
    return typed(a_claim("c", size=size, **metadata, **spec))


def class_with(parameters: Json | None = None, provisioner: str = DRIVER, **more: Any) -> StorageClass:
    return typed(a_class(uid="sc", provisioner=provisioner, parameters=parameters or {}, **more))


def pv_for(claim_uid: str = UID, claim_name: str = "c", **spec: Any) -> PersistentVolume:
    ref = {"namespace": "ns", "name": claim_name, "uid": claim_uid}
    return typed(a_pv(NAME, resourceVersion="1", claimRef=ref, **spec))


def a_view(
    claim: PersistentVolumeClaim | None = None,
    storage_class: StorageClass | None = None,
    *volumes: PersistentVolume,
    intent: Intent | ClaimIntents | None = None,
    driver: DriverCapabilities | None = None,
    rules: Rules | None = None,
    node_name: str = "",
    **remembered: Any,
) -> View:
    """intent: one that is unknown, or the claim's entry. remembered: fields of the claim's record."""
    csi_nodes: Store[CSINode] = store_of()
    records = ClaimRecords()
    entry = an_entry(intent) if isinstance(intent, Intent) else intent
    for field, value in remembered.items():
        setattr(records.of(UID), field, value)
    return View(
        driver=driver or DriverCapabilities(DRIVER),
        rules=rules or Rules(),
        claims=store_of(*([] if claim is None else [claim]), indexes=CLAIM_INDEXES),
        volumes=store_of(*volumes),
        classes=store_of(*([] if storage_class is None else [storage_class])),
        csi_nodes=csi_nodes,
        nodes=store_of(),
        grants=store_of(),
        places=ClusterTopology(csi_nodes, store_of()),
        intents={} if entry is None else {UID: entry},
        records=records,
        node_name=node_name,
    )


def decided(view: View, looked: Looked | None = None) -> Decision[Action]:
    return decide_claim(view, UID, NOW, looked or Looked())


def order_of(decision: Decision[Action]) -> Order:
    begins, create = decision.actions
    assert Begin() == begins
    assert isinstance(create, Create)
    return create.order


def failure_of(decision: Decision[Action]) -> Failure:
    begins, fail = decision.actions
    assert Begin() == begins
    assert isinstance(fail, Fail)
    return fail.failure


def creates(decision: Decision[Action]) -> bool:
    return any(isinstance(action, Create) for action in decision.actions)


def an_intent(
    claim: PersistentVolumeClaim | None = None, parameters: Json | None = None, looked: Looked | None = None
) -> Intent:
    """What such a claim is begun with."""
    return order_of(decided(a_view(claim or asking(), class_with(parameters)), looked)).intent


def with_secret(found: Any) -> Looked:
    return Looked({Wanted(SECRETS, "s", "ns"): found})


GONE = NotFound("no such secret")

# -- claims that are of no business, or have their volume

NOTHING_TO_TRY = {
    "P03-the-ga-annotation-wins": (
        a_view(asking({names.STORAGE_PROVISIONER: "other", names.STORAGE_PROVISIONER_BETA: DRIVER}), class_with()),
        Decision(why.NotAsked("other")),
    ),
    "P04-nobody-asked": (a_view(asking({}), class_with()), Decision(why.NotAsked(""))),
    "P05-it-has-a-volume": (
        a_view(asking(volumeName="pv"), class_with()),
        Decision(why.HasVolume("pv"), (ReleaseSource(),)),
    ),
    "P06-no-node-yet": (
        a_view(asking(), class_with(volumeBindingMode="WaitForFirstConsumer")),
        Decision(why.WaitsForNode()),
    ),
    "P06-an-empty-node": (
        a_view(asking({**ASKED, names.SELECTED_NODE: ""}), class_with(volumeBindingMode="WaitForFirstConsumer")),
        Decision(why.WaitsForNode()),
    ),
    "P06-the-alpha-annotation-makes-nothing-due": (
        a_view(asking({**ASKED, names.SELECTED_NODE_ALPHA: "n"}), class_with(volumeBindingMode="WaitForFirstConsumer")),
        Decision(why.WaitsForNode()),
    ),
    "P07-no-class": (a_view(asking()), Decision(why.ClassMissing("sc"), (CountFailure("sc", ""),))),
    "P08-a-class-of-another": (
        a_view(asking(), class_with(provisioner="other")),
        Decision(why.ClassOfAnother("sc", "other")),
    ),
    "P09-the-volume-is-there": (
        a_view(asking(), class_with(), pv_for()),
        Decision(why.Provisioned(NAME), (ReleaseSource(),)),
    ),
    "P88-another-node": (
        a_view(asking({**ASKED, names.SELECTED_NODE: "n2"}), class_with(), node_name="n1"),
        Decision(why.OfAnotherNode("n2")),
    ),
    "P88-no-node-has-taken-it": (a_view(asking(), class_with(), node_name="n1"), Decision(why.OfAnotherNode(""))),
    "P44-gone-and-nothing-open": (a_view(), Decision(why.Gone(UID))),
    "in-tree-and-not-migrated": (
        a_view(asking({names.STORAGE_PROVISIONER: "kubernetes.io/aws-ebs"}), class_with(), driver=IN_TREE),
        Decision(why.NotAsked("kubernetes.io/aws-ebs")),
    ),
}


@each_row(("view", "decision"), [pytest.param(*row, id=name) for name, row in NOTHING_TO_TRY.items()])
def test_nothing_is_tried(view: View, decision: Decision[Action]):
    assert decision == decided(view)


# -- attempts


@each_row(
    ("claim", "view"),
    [
        pytest.param(asking(), {}, id="P01"),
        pytest.param(asking({names.STORAGE_PROVISIONER_BETA: DRIVER}), {}, id="P02"),
        pytest.param(asking({**ASKED, names.SELECTED_NODE: "n1"}), {"node_name": "n1"}, id="P88-our-node"),
    ],
)
def test_a_volume_is_asked_for(claim: PersistentVolumeClaim, view: Json):
    decision = decided(a_view(claim, class_with(), **view))
    order = order_of(decision)
    assert (NAME, False, False) == (order.request.name, order.is_former, order.is_retained)
    assert Decision(why.Creating(NAME), (Begin(), Create(order))) == decision


def test_P10_the_name_is_made_by_the_flags():
    rules = Rules(volume_name_prefix="vol", volume_name_uuid_length=1)
    assert "vol-u" == order_of(decided(a_view(asking(), class_with(), rules=rules))).request.name


FAILURES = {
    "P11-no-prefix": (
        {"rules": Rules(volume_name_prefix="")},
        {},
        "volume name prefix cannot be of length 0",
        State.FINISHED,
    ),
    "P12-a-selector": (
        {},
        {"selector": {"matchLabels": {"a": "b"}}},
        "claim Selector is not supported",
        State.FINISHED,
    ),
    "P48-it-creates-nothing": (
        {"driver": DriverCapabilities(DRIVER, creates=False)},
        {},
        "CREATE_DELETE_VOLUME",
        State.FINISHED,
    ),
    "P64-it-modifies-nothing": ({}, {"volumeAttributesClassName": "gold"}, "MODIFY_VOLUME", State.FINISHED),
}


@each_row(("view", "spec", "text", "state"), [pytest.param(*row, id=name) for name, row in FAILURES.items()])
def test_an_attempt_that_fails_before_the_driver_is_asked(view: Json, spec: Json, text: str, state: State):
    looked = Looked({Wanted(VOLUME_ATTRIBUTES_CLASSES, "gold"): NotFound("no such class")})
    failure = failure_of(decided(a_view(asking(**spec), class_with(), **view), looked))
    assert state is failure.state
    assert text in failure.error


def test_names_cut_short_that_meet_are_told():
    failure = failure_of(decided(a_view(asking(), class_with(), pv_for("other", "other"))))
    assert 'belongs to claim "ns/other" already' in failure.error


def test_P33_a_secret_is_looked_up_first_and_its_absence_is_told():
    view = a_view(asking(), class_with(SECRET))
    decision = decided(view)
    assert ((Begin(), LookUp(Wanted(SECRETS, "s", "ns"))), True) == (decision.actions, decision.again)
    assert State.NO_CHANGE is failure_of(decided(view, with_secret(GONE))).state
    assert (
        SecretReference(name="s", namespace="ns") == order_of(decided(view, with_secret({"user": "me"}))).intent.secret
    )


def test_P49_a_claim_with_a_foreign_source_is_left_to_a_populator():
    assert Decision(why.Populated("Foo"), (Begin(), LeaveToPopulator())) == decided(
        a_view(asking(dataSourceRef=FOO), class_with())
    )


# -- claims that rest


def resting(claim: PersistentVolumeClaim, storage_class: StorageClass, until: float = NOW + 5) -> Rest:
    return Rest(until, fingerprint(a_view(), claim, storage_class, Looked()), "bad")


@each_row(
    ("rest", "rests"),
    [
        pytest.param(resting(asking(), class_with()), True, id="P45-as-it-was"),
        pytest.param(resting(asking(), class_with(), NOW), False, id="P45-the-rest-is-over"),
        pytest.param(resting(asking(size="2Gi"), class_with()), False, id="P45-the-claim-changed"),
        pytest.param(resting(asking(), class_with({"a": "b"})), False, id="P45-the-class-changed"),
        pytest.param(resting(asking({**ASKED, names.SELECTED_NODE: "n2"}), class_with()), False, id="P45-another-node"),
        pytest.param(
            resting(asking({**ASKED, "touched": "yes"}), class_with()), True, id="P45-what-nobody-reads-changed"
        ),
    ],
)
def test_an_infeasible_claim_rests_until_it_or_its_class_changes(rest: Rest, rests: bool):
    decision = decided(a_view(asking(), class_with(), rest=rest))
    assert rests == (Decision(why.NotYetAgain("bad", 5.0), after_s=5.0) == decision)
    assert rests != creates(decision)


# -- open intents

OPEN = an_intent()
REFUSED = an_entry(OPEN, state=IntentState.REFUSED)
BIGGER = an_intent(asking(size="2Gi"))


def is_asked_as(decision: Decision[Action], intent: Intent, *, former: bool) -> bool:
    order = order_of(decision)
    again = why.Creating(NAME, again=True)
    return (intent.request, former, again) == (order.intent.request, order.is_former, decision.because)


@each_row(
    ("view", "former"),
    [
        pytest.param(a_view(asking(), class_with(), intent=OPEN), False, id="P40-as-it-is-wanted"),
        pytest.param(a_view(None, None, intent=OPEN), True, id="P41-the-claim-is-gone"),
        pytest.param(a_view(asking(), None, intent=OPEN), True, id="the-class-is-gone"),
        pytest.param(a_view(asking(size="2Gi"), class_with(), intent=OPEN), True, id="the-claim-has-changed"),
        pytest.param(a_view(asking(), class_with({"a": "b"}), intent=OPEN), True, id="the-class-has-changed"),
        pytest.param(
            a_view(asking(selector={}), class_with(), intent=OPEN), True, id="the-claim-can-not-be-served-any-more"
        ),
        pytest.param(
            a_view(asking(volumeName="other"), class_with(), intent=OPEN), True, id="P42-it-has-another-volume"
        ),
        pytest.param(a_view(None, None, intent=REFUSED), True, id="P42-refused-and-the-claim-is-gone"),
        pytest.param(
            a_view(asking(volumeName="other"), class_with(), intent=REFUSED),
            True,
            id="P42-refused-and-it-has-another-volume",
        ),
    ],
)
def test_what_may_exist_is_asked_for_as_it_was(view: View, former: bool):
    assert is_asked_as(decided(view), OPEN, former=former)


@each_row("owned", [OwnVolume.STORED, OwnVolume.DELETED])
@each_row(
    ("claim", "phase"),
    [
        (asking(volumeName=NAME), "Bound"),
        (asking(volumeName=NAME), ""),
        (None, "Bound"),
        (None, "Released"),
        (None, ""),
    ],
)
def test_nothing_else_is_asked_for_until_claim_and_volume_are_gone(
    claim: PersistentVolumeClaim | None, phase: str, owned: OwnVolume
):
    """A driver may answer with the claim's own volume, under whatever handle."""
    own = [typed(a_pv(NAME, "h", phase=phase, persistentVolumeReclaimPolicy="Delete"))] if phase else []
    put_off = an_entry(OPEN, state=IntentState.REFUSED, own=owned)
    decision = decided(a_view(claim, class_with(), *own, intent=put_off))
    if claim is not None or own:
        assert Decision(why.PutOff(NAME)) == decision
    else:
        assert (owned, owned is OwnVolume.STORED) == (order_of(decision).own, order_of(decision).is_retained)


def test_P42_what_was_refused_is_asked_for_as_it_is_wanted_by_now():
    decision = decided(a_view(asking(size="2Gi"), class_with(), intent=REFUSED))
    assert is_asked_as(decision, BIGGER, former=False)


def test_P42_what_nobody_waits_for_any_more_is_asked_for_seldom():
    rest = Rest(NOW + 5, None, "no")
    view = a_view(None, None, intent=REFUSED, rest=rest)
    assert Decision(why.NotRuledOut("no", 5.0), after_s=5.0) == decided(view)
    assert is_asked_as(decided(a_view(None, None, intent=OPEN, rest=rest)), OPEN, former=True), (
        "but what is not refused at once"
    )


@each_row(
    ("claim", "decision"),
    [
        pytest.param(None, Decision(why.Provisioned(NAME), (CloseIntent(), ReleaseSource())), id="gone"),
        pytest.param(asking(), Decision(why.Provisioned(NAME), (CloseIntent(), ReleaseSource())), id="there"),
        pytest.param(
            asking(volumeName=NAME), Decision(why.HasVolume(NAME), (CloseIntent(), ReleaseSource())), id="bound"
        ),
    ],
)
def test_P47_an_intent_whose_volume_is_stored_is_closed(
    claim: PersistentVolumeClaim | None, decision: Decision[Action]
):
    assert decision == decided(a_view(claim, class_with(), pv_for(), intent=OPEN))


@each_row("claim", [None, asking(), asking(size="2Gi")])
def test_P46_a_volume_that_is_to_be_stored_is_not_asked_for(claim: PersistentVolumeClaim | None):
    pending = PendingVolume(Order(OPEN, csi.CreateVolumeRequest()), "vol", {}, NOW)
    assert Decision(why.Saving(NAME)) == decided(
        a_view(claim, class_with(), intent=an_entry(OPEN, state=IntentState.MADE), pending=pending)
    )


UNSEEN = an_entry(OPEN, own=OwnVolume.UNSEEN)


def test_a_volume_that_may_have_been_kept_is_retained_once_its_claim_is_gone():
    order = order_of(decided(a_view(None, None, intent=UNSEEN)))
    assert order.is_retained
    assert "Retain" == msgspec.json.decode(order.intent.volume)["spec"]["persistentVolumeReclaimPolicy"]
    assert not order_of(decided(a_view(asking(), class_with(), intent=UNSEEN))).is_retained, (
        "nobody takes a volume out of a claim that waits"
    )


WITH_SECRET = an_intent(None, SECRET, with_secret({"user": "me"}))


@each_row(
    ("orphaned_at", "found", "is_lost"),
    [
        pytest.param(NOW, GONE, True, id="P44-gone-for-good"),
        pytest.param(NOW, Forbidden("no"), False, id="P44-not-to-be-read"),
        pytest.param(NOW + 1, GONE, False, id="P44-somebody-may-bring-it-back"),
        pytest.param(None, GONE, False, id="P44-the-claim-has-just-gone"),
        pytest.param(NOW, {"user": "me"}, False, id="P44-still-there"),
    ],
)
def test_what_may_exist_is_asked_for_without_a_secret_that_is_lost(
    orphaned_at: float | None, found: Any, is_lost: bool
):
    decision = decided(a_view(None, None, intent=WITH_SECRET, orphaned_at=orphaned_at), with_secret(found))
    if isinstance(found, dict) or is_lost:
        assert is_lost == order_of(decision).secret_is_lost
    else:
        assert State.NO_CHANGE is failure_of(decision).state
