"""Where volumes may be made: rows P67 to P73 as far as they are about places alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.sidecars.provisioner.model import topology as t
from tests.support.rows import each_row

ZONE, RACK = "zone", "rack"
A, B, C = ({ZONE: name} for name in "abc")
NODES = [{ZONE: "b", "other": "x"}, {ZONE: "a"}, {ZONE: "b"}, {"unlabelled": ""}]
ON_B = t.SelectedNode("node-b", (ZONE,), {ZONE: "b"})


def both(found: t.Requirements | None) -> tuple[tuple[t.Term, ...], tuple[t.Term, ...]]:
    """Requisite and preferred."""
    assert found is not None
    return found.requisite, found.preferred


# -- the six rows


def test_P67_a_chosen_node_and_strict_topology_leave_one_place():
    assert ((B,), (B,)) == both(t.strict(ON_B, []))
    assert ((B,), (B,)) == both(t.strict(ON_B, [A, B]))


def test_P67_a_chosen_node_leads_all_places_of_the_cluster():
    assert ((A, B), (B, A)) == both(t.delayed(ON_B, t.Places(t.cluster_terms([ZONE], NODES))))


def test_P67_a_chosen_node_leads_the_allowed_places():
    assert ((A, B, C), (B, C, A)) == both(t.delayed(ON_B, t.Places([C, B, A])))


def test_P67_without_a_node_the_allowed_places_are_turned_by_the_name():
    assert ((A, B), (A, B)) == both(t.immediate("mypvc", t.Places([B, A])))
    assert ((A, B, C), (C, A, B)) == both(t.immediate("mypvc", t.Places([C, B, A])))


def test_P67_without_a_node_all_places_of_the_cluster_are_turned_by_the_name():
    assert ((A, B), (B, A)) == both(t.immediate("testpvc-testset-4", t.Places(t.cluster_terms([ZONE], NODES))))


def test_no_place_is_no_requirement():
    assert t.immediate("c", t.Places([])) is None
    assert t.delayed(ON_B, t.Places([{}])) is None


# -- names


@each_row(
    ("claim", "hashed", "index", "starts"),
    [
        ("testpvcA-testset-1", 1633848515, 1, [0, 0, 0, 1]),
        ("testpvc-testset-4", 1633848515, 4, [1, 0, 3, 4]),
        ("data-web-0", 1181096325, 0, [1, 0, 1, 0]),
        ("data-web-2", 1181096325, 2, [1, 2, 3, 2]),
        ("mypvc", 3965572304, 0, [0, 2, 0, 4]),
        ("claim-007", 1216680299, 7, [0, 0, 2, 1]),
    ],
)
def test_P68_where_a_claim_begins(claim, hashed, index, starts):
    assert (hashed, index) == t.name_hash(claim)
    places = [{ZONE: str(number)} for number in range(5)]
    for count, start in zip([2, 3, 4, 5], starts, strict=True):
        found = t.immediate(claim, t.Places(places[:count]))
        assert found is not None
        assert places[start] == found.preferred[0]


def test_an_ordinal_beyond_32_bits_is_part_of_the_name():
    assert 0 == t.name_hash("c-4294967296")[1]
    assert 4294967295 == t.name_hash("c-4294967295")[1]


# -- what can't be


def test_P70_a_node_without_the_drivers_keys():
    with pytest.raises(t.TopologyError, match=r"^no topology key found for node n$"):
        t.strict(t.SelectedNode("n", (), {}), [])


def test_a_node_that_lacks_a_label():
    with pytest.raises(t.TopologyError) as caught:
        t.delayed(t.SelectedNode("n", (ZONE, RACK), {ZONE: "a"}), t.Places([A]))
    assert (
        "topology labels from selected node map[zone:a] does not match topology keys from CSINode [zone rack]"
        == str(caught.value)
    )


def test_P71_strict_and_the_node_is_not_allowed():
    with pytest.raises(
        t.TopologyError,
        match=r"selected node '\"node-b\"' topology 'map\[zone:b\]' is not in allowed topologies: \[map\[zone:a\]\]",
    ):
        t.strict(ON_B, [A])


def test_strict_and_the_node_says_more_than_the_allowed_place():
    place = t.SelectedNode("n", (ZONE, RACK), {ZONE: "a", RACK: "1"})
    assert ((place.term,), (place.term,)) == both(t.strict(place, [A]))


def test_P71_strict_and_the_node_says_less_than_the_allowed_place():
    """It may stand in another rack."""
    with pytest.raises(t.TopologyError, match=r"is not in allowed topologies: \[map\[rack:1 zone:b\]\]"):
        t.strict(ON_B, [{ZONE: "b", RACK: "1"}])


def test_a_node_outside_the_allowed_places():
    with pytest.raises(
        t.TopologyError,
        match=r'topology map\[zone:b\] from selected node "node-b" is not in requisite: \[map\[zone:a\]\]',
    ):
        t.delayed(ON_B, t.Places([A]))


def test_no_node_has_the_keys():
    with pytest.raises(t.TopologyError, match=r"topologyKeys \[rack\] were not found on any nodes"):
        t.cluster_terms([RACK], NODES)


# -- terms


def test_P72_allowed_topologies_are_multiplied_out_and_sorted():
    terms = t.flattened([[(ZONE, ["b", "a"]), (RACK, ["2", "1"])]])
    found = t.immediate("mypvc", t.Places(terms))
    assert found is not None
    assert tuple({ZONE: zone, RACK: rack} for rack in "12" for zone in "ab") == found.requisite


def test_terms_of_a_class_stand_side_by_side_and_empty_ones_say_nothing():
    assert [A, {RACK: "1"}] == t.flattened([[(ZONE, ["a"])], [], [(RACK, ["1"])]])


def test_a_place_with_fewer_segments_comes_first():
    found = t.immediate("mypvc", t.Places([{RACK: "1", ZONE: "a"}, {ZONE: "z"}]))
    assert found is not None
    assert ({ZONE: "z"}, {RACK: "1", ZONE: "a"}) == found.requisite


@given(
    st.lists(st.dictionaries(st.sampled_from([ZONE, RACK]), st.sampled_from("abc"), min_size=1), min_size=1),
    st.text(alphabet="ab-01", min_size=1),
)
def test_preferred_is_requisite_in_another_order(terms, name):
    found = t.immediate(name, t.Places(terms))
    assert found is not None
    assert sorted(map(str, found.requisite)) == sorted(map(str, found.preferred))
    assert len(found.requisite) == len({tuple(sorted(term.items())) for term in terms})


# -- the answer


def test_P73_each_place_of_the_answer_is_a_term():
    affinity = t.node_affinity([{ZONE: "a", RACK: "1"}, {}, {ZONE: "b"}])
    assert affinity is not None
    first, second = affinity["required"]["nodeSelectorTerms"]
    assert [(RACK, "In", ["1"]), (ZONE, "In", ["a"])] == [
        (e["key"], e["operator"], e["values"]) for e in first["matchExpressions"]
    ]
    assert [{"key": ZONE, "operator": "In", "values": ["b"]}] == second["matchExpressions"]


@each_row("accessible", [[], [{}], [{}, {}]])
def test_an_answer_without_places_is_no_affinity(accessible):
    """external-provisioner writes an affinity without terms for empty ones, which the API server refuses."""
    assert t.node_affinity(accessible) is None
