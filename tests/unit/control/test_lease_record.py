"""Leader election, the pure part: names, durations, records, tables."""

import itertools
import re

import pytest

from mooring.api.names import sanitised
from mooring.base.clock import parse_rfc3339
from mooring.base.errors import ConfigError
from mooring.base.randomness import Random
from mooring.control.lease.record import Candidate, LeaseRecord, LeaseTimes, Sighting, identity_of, record_of, sighted
from mooring.control.lease.roles import HOLDING, NEXT, STEPS, Happening, Observed, Role, Step, observed
from tests.support.rows import each_row

WALL_S = parse_rfc3339("2026-11-20T07:04:00Z")
NOW = "2026-11-20T07:04:00.000000Z"


def a_candidate(**options: object) -> Candidate:
    values: dict[str, object] = {
        "lock_name": "lock",
        "namespace": "ns",
        "identity": "me",
        "times": LeaseTimes(),
        "labels": {},
    }
    return Candidate(**{**values, **options})  # type: ignore[arg-type]


@each_row(
    ("name", "expected"),
    [
        ("test!driver/foo", "test-driver-foo"),
        ("driver\\", "driver-X"),
        ("ebs.csi.aws.com", "ebs-csi-aws-com"),
        ("s!a@n#i$t(i%z^e&d*", "s-a-n-i-t-i-z-e-d-X"),
        ("ünï", "-n-X"),
        ("Plain-1", "Plain-1"),
    ],
)
def test_LE01_lock_names_are_sanitised(name: str, expected: str):
    assert sanitised(name) == expected


def test_an_identity_is_the_hosts_name_and_a_random_end():
    """C3: two processes on one host are two candidates."""
    one, two = identity_of("node.example.com", Random(1)), identity_of("node.example.com", Random(2))
    assert one.startswith("node-example-com_")
    assert one != two


@each_row(
    ("times", "problem"),
    [
        (LeaseTimes(0, 10, 5), "all three must be greater than zero"),
        (LeaseTimes(15, 10, -1), "all three must be greater than zero"),
        (LeaseTimes(15, 15, 5), "the lease duration must be greater than the renew deadline"),
        (LeaseTimes(15, 10, 9), "the renew deadline must be greater than 1.2 times the retry period"),
        (LeaseTimes(15, 6, 5), "the renew deadline must be greater than 1.2 times the retry period"),
    ],
)
def test_LE04_impossible_times_are_refused_with_a_clear_text(times: LeaseTimes, problem: str):
    with pytest.raises(ConfigError, match=re.escape(problem)) as caught:
        times.check()
    assert caught.value.exit_code == 2
    assert "leader-election-renew-deadline=" in str(caught.value)


def test_upstreams_times_are_fine():
    LeaseTimes(15, 10, 5).check()
    LeaseTimes(137, 107, 26).check()
    LeaseTimes(4, 3, 1).check()


def test_a_new_lease_is_ours_from_the_start():
    body = a_candidate(labels={"team": "storage"}).holding(None, WALL_S)
    assert body == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "lock", "namespace": "ns", "labels": {"team": "storage"}},
        "spec": {
            "holderIdentity": "me",
            "leaseDurationSeconds": 15,
            "acquireTime": NOW,
            "renewTime": NOW,
            "leaseTransitions": 0,
        },
    }


def a_lease(holder: str = "other", **spec: object) -> dict[str, object]:
    return {
        "metadata": {
            "name": "lock",
            "namespace": "ns",
            "resourceVersion": "7",
            "labels": {"theirs": "kept", "team": "old"},
            "future": [1],
        },
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-11-20T07:00:00.000000Z",
            "renewTime": "2026-11-20T07:01:00.000000Z",
            "leaseTransitions": 3,
            "strategy": "OldestEmulationVersion",
            **spec,
        },
    }


def test_taking_over_counts_a_transition_and_keeps_what_is_not_ours():
    lease = a_lease()
    body = a_candidate(labels={"team": "storage"}).holding(lease, WALL_S)
    assert body["metadata"] == {
        "name": "lock",
        "namespace": "ns",
        "resourceVersion": "7",
        "labels": {"theirs": "kept", "team": "storage"},
        "future": [1],
    }
    assert body["spec"] == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": NOW,
        "renewTime": NOW,
        "leaseTransitions": 4,
        "strategy": "OldestEmulationVersion",
    }
    assert lease == a_lease(), "what was read was written to"


def test_renewing_moves_only_the_renew_time():
    body = a_candidate().holding(a_lease("me"), WALL_S)
    assert body["spec"] == {**a_lease("me")["spec"], "renewTime": NOW}  # type: ignore[dict-item]


def test_releasing_empties_the_holder_and_keeps_the_transitions():
    spec = a_candidate().released(a_lease("me"), WALL_S)["spec"]
    assert spec == {
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "acquireTime": NOW,
        "renewTime": NOW,
        "leaseTransitions": 3,
        "strategy": "OldestEmulationVersion",
    }


def test_times_have_exactly_six_decimals():
    """A MicroTime with any other number is refused by the API server."""
    for fraction in (0.0, 0.5, 0.123456, 0.000001):
        spec = a_candidate().holding(None, WALL_S + fraction)["spec"]
        assert re.fullmatch(r"2026-11-20T07:04:00\.\d{6}Z", spec["renewTime"])


def test_a_fraction_of_a_second_is_written_as_a_whole_one():
    """Who reads a shorter duration than we count on would lead beside us."""
    assert a_candidate(times=LeaseTimes(1.5, 1.2, 0.5)).holding(None, WALL_S)["spec"]["leaseDurationSeconds"] == 2


@each_row(
    "lease",
    [
        {},
        {"spec": None},
        {"spec": []},
        {"spec": {"holderIdentity": 5, "leaseDurationSeconds": "x", "renewTime": {}, "leaseTransitions": -3}},
    ],
)
def test_a_lease_without_sense_is_nobodys(lease: dict[str, object]):
    assert record_of(lease) == LeaseRecord()


def test_an_unchanged_record_keeps_its_time():
    first = sighted(None, LeaseRecord("other", 15, renewed="1"), 10.0)
    assert sighted(first, LeaseRecord("other", 15, renewed="1"), 20.0) == first
    assert sighted(first, LeaseRecord("other", 15, renewed="2"), 20.0).since == 20.0


@each_row(
    ("record", "since", "expected"),
    [
        (None, None, Observed.MISSING),
        (LeaseRecord(), 0, Observed.FREE),
        (LeaseRecord("me", 15), 0, Observed.OURS),
        (LeaseRecord("me", 15), 80, Observed.OURS),
        (LeaseRecord("other", 15), 90, Observed.HELD),
        (LeaseRecord("other", 15), 85, Observed.EXPIRED),
        (LeaseRecord("other", 1), 99, Observed.EXPIRED),
        (LeaseRecord("other", 0), 90, Observed.HELD),  # without a duration ours counts
        (LeaseRecord("other", 0), 80, Observed.EXPIRED),
    ],
)
def test_what_a_look_shows(record: LeaseRecord | None, since: float | None, expected: Observed):
    known = Sighting(record, since) if record is not None and since is not None else None
    assert observed(record, known, "me", 15.0, now=100.0) is expected


@each_row(
    ("holder", "since", "expected"),
    [
        ("other", 90, Observed.HELD),
        ("other", 80, Observed.MISSING),
        ("me", 90, Observed.MISSING),
        ("", 90, Observed.MISSING),
    ],
)
def test_a_deleted_lease_holds_for_as_long_as_it_said(holder: str, since: float, expected: Observed):
    """Its holder learns of the deletion at its next renewal only."""
    assert observed(None, Sighting(LeaseRecord(holder, 15), since), "me", 15.0, now=100.0) is expected


def test_both_tables_cover_the_product_of_their_axes():
    assert set(STEPS) == set(itertools.product(Role, Observed))
    assert set(NEXT) == set(itertools.product(Role, Happening))


def test_nothing_is_written_once_the_lease_is_lost():
    for role in (Role.LOSING, Role.QUITTING, Role.ENDED):
        assert {STEPS[role, what] for what in Observed} == {Step.WAIT}


def test_only_what_is_ours_is_given_back_and_only_what_nobody_holds_is_taken():
    assert [(role, what) for (role, what), step in STEPS.items() if step is Step.RELEASE] == [
        (Role.RELEASING, Observed.OURS)
    ]
    taken = {
        what for (role, what), step in STEPS.items() if step is Step.WRITE and role in (Role.STANDBY, Role.CLAIMING)
    }
    assert taken == {Observed.MISSING, Observed.FREE, Observed.OURS, Observed.EXPIRED}
    for role in HOLDING:
        assert STEPS[role, Observed.HELD] is STEPS[role, Observed.EXPIRED] is Step.GIVE_UP


def test_who_has_lost_leads_only_after_the_work_has_ended():
    """The work may only run on beside another leader for as long as the Lease would have held."""
    for role in (Role.LOSING, Role.QUITTING):
        assert {NEXT[role, what] for what in Happening} & HOLDING == set()
    assert [what for what in Happening if NEXT[Role.LOSING, what] is Role.STANDBY] == [Happening.WORK_ENDED]


def test_every_role_can_be_reached_and_left_for_the_end():
    reached, frontier = {Role.STANDBY}, [Role.STANDBY]
    while frontier:
        role = frontier.pop()
        for what in Happening:
            then = NEXT[role, what]
            if then is not None and then not in reached:
                reached.add(then)
                frontier.append(then)
    assert reached == set(Role)
    for role in set(Role) - {Role.ENDED}:
        assert NEXT[role, Happening.CALLED_OFF] is not None
    assert {NEXT[Role.ENDED, what] for what in Happening} == {None}
