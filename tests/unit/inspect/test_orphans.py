"""What is an orphan, and what is never deleted: rows of (inventory, findings)."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from mooring.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from mooring.inspect.facts import Attachment, Claim, Inventory, ListedVolume, Object
from mooring.inspect.orphans import Finding, FindingKind, OrphansReport, judged
from mooring.inspect.render import as_json, as_table
from mooring.sidecars.provisioner.model.intent import ClaimIntents, Intent, IntentState, OwnVolume
from tests.support.intents import an_entry
from tests.support.rows import each_row

DRIVER = "csi.test"


def an_object(name: str = "pv1", handle: str = "h1", driver: str = DRIVER, **more: Any) -> Object:
    return Object(
        name, driver, handle, **{"size": "1Gi", "claim": "ns/c", "phase": "Bound", "created_wall_s": 0.0, **more}
    )


ONE = Intent("u1", "ns", "c1", "pvc-1", "{}", "{}")


def an_intent(name: str = "pvc-1") -> ClaimIntents:
    return an_entry(msgspec.structs.replace(ONE, volume_name=name))


def an_inventory(*volumes: ListedVolume, objects: tuple[Object, ...] = (), **more: Any) -> Inventory:
    return Inventory(**{"driver": DRIVER, "volumes": volumes, "objects_before": objects, "objects": objects, **more})


def kinds(report: OrphansReport) -> list[tuple[str, str]]:
    return [(finding.kind.value, finding.handle or finding.volume_name) for finding in report.findings]


def test_a_volume_with_its_object_is_no_finding():
    report = judged(an_inventory(ListedVolume("h1"), objects=(an_object(),)))
    assert () == report.findings
    assert () == report.wrong()


def test_a_volume_that_nothing_names_has_leaked():
    report = judged(an_inventory(ListedVolume("h1", 1 << 30), ListedVolume("h2"), objects=(an_object(handle="h2"),)))
    assert [("leaked", "h1")] == kinds(report)
    assert ["h1"] == [finding.handle for finding in report.deletable()]
    assert report.wrong()


def test_an_object_whose_volume_the_driver_does_not_list_is_a_ghost():
    report = judged(an_inventory(objects=(an_object(),)))
    why = "the PersistentVolume is Bound, the driver does not list its volume"
    assert (Finding(FindingKind.GHOST, "h1", why, "1Gi", "pv1", "ns/c", 0.0),) == report.findings
    assert () == report.deletable()


@each_row("when", ["just made", "just deleted"])
def test_an_object_that_came_or_went_meanwhile_is_no_ghost(when: str):
    here = (an_object(),)
    before, after = ((), here) if when == "just made" else (here, ())
    assert () == judged(an_inventory(objects_before=before, objects=after)).findings


@each_row("provisioned", [True, False])
def test_an_object_that_came_meanwhile_may_mean_a_leaked_volume_unless_its_driver_made_it(provisioned: bool):
    """Volumes are made while we look, but what was written by hand may spell what was there before in its own way."""
    there, came = an_object("pv0", "h0", provisioned=True), an_object(handle="elsewhere", provisioned=provisioned)
    report = judged(
        an_inventory(ListedVolume("h0"), ListedVolume("h1"), objects_before=(there,), objects=(there, came))
    )
    assert [("leaked", "h1")] == kinds(report)
    assert provisioned == bool(report.deletable())


def test_a_drivers_first_object_may_mean_a_leaked_volume():
    """Nothing shows yet that the driver lists its volumes by the handles it gives."""
    report = judged(
        an_inventory(ListedVolume("h1"), objects_before=(), objects=(an_object(handle="elsewhere", provisioned=True),))
    )
    assert () == report.deletable()


@each_row(
    ("key", "value", "found"),
    [("zone", "there", []), ("zone", "here", [("ghost", "h9")]), ("hostname", "n1", [("ghost", "h9")])],
)
def test_only_what_the_drivers_place_rules_out_is_of_another_place(key: str, value: str, found: list[tuple[str, str]]):
    term = NodeSelectorTerm((NodeSelectorRequirement(key, "In", (value,)),))
    away = an_object(handle="h9", nodes=NodeSelector((term,)))
    assert found == kinds(judged(an_inventory(objects=(away,), place={"zone": "here"})))


def test_a_volume_whose_object_went_while_we_looked_is_not_called_leaked():
    assert () == judged(an_inventory(ListedVolume("h1"), objects_before=(an_object(),), objects=())).findings


def test_a_volume_of_another_drivers_object_is_foreign():
    report = judged(an_inventory(ListedVolume("h1"), objects=(an_object(driver="other"),)))
    assert [("foreign", "h1")] == kinds(report)
    assert () == report.deletable()


def test_with_a_prefix_what_does_not_carry_it_is_foreign():
    volumes = ListedVolume("pvc-1"), ListedVolume("opaque", words=("pvc-2",)), ListedVolume("base-image")
    assert [("leaked", "opaque"), ("leaked", "pvc-1"), ("foreign", "base-image")] == kinds(
        judged(an_inventory(*volumes), "pvc-")
    )
    assert ["leaked"] * 3 == [kind for kind, _ in kinds(judged(an_inventory(*volumes)))]


@each_row(
    "volume", [ListedVolume("vol-pvc-1"), ListedVolume("opaque", words=("pvc-1",))], ids=["by handle", "by context"]
)
def test_what_an_open_intent_names_is_begun_and_not_leaked(volume: ListedVolume):
    report = judged(an_inventory(volume, intents=(an_intent(),)))
    assert [FindingKind.BEGUN] == [finding.kind for finding in report.findings]
    assert "ns/c1" == report.findings[0].claim
    assert () == report.deletable() == report.unplaced
    assert () == report.wrong()


def test_what_is_begun_for_a_claim_that_is_gone_is_told_as_that():
    """It may stay so: a driver that refuses each call never tells what an earlier one has made."""
    report = judged(an_inventory(ListedVolume("vol-pvc-1"), intents=(an_intent(),)))
    assert (
        "which is gone: the provisioner repeats the request until the driver has answered it" in report.findings[0].why
    )
    claim = Claim("u1", "ns/c1", "", provisioner=DRIVER)
    assert (
        "gone"
        not in judged(an_inventory(ListedVolume("vol-pvc-1"), intents=(an_intent(),), claims=(claim,))).findings[0].why
    )


def test_while_an_intent_fits_no_volume_it_could_be_any():
    """A driver with handles of its own says nothing of names, so nothing is deleted before the intent has ended."""
    report = judged(an_inventory(ListedVolume("opaque"), intents=(an_intent(),)))
    assert [FindingKind.LEAKED] == [finding.kind for finding in report.findings]
    assert report.findings[0].spared.startswith("it may be what a provisioner has begun for ns/c1")
    assert () == report.deletable()
    assert (an_intent(),) == report.unplaced


def test_27c7_an_open_intent_is_shown_with_its_claim_and_its_volume():
    """The journal itself is packed: kubectl shows a line of base64."""
    node = msgspec.structs.replace(an_inventory(ListedVolume("opaque")), intents=(an_intent("pvc-\x1b[2J"),))
    *_, summary, intent = as_table(judged(node), {}, 0.0).splitlines()
    assert summary.endswith("1 intent open, and not known yet for which volume")
    assert r"  claim ns/c1 (u1), PersistentVolume pvc-\x1b[2J" == intent
    (one,) = json.loads(as_json(judged(node), {}, 0.0))["openIntents"]
    assert {"volumeName": "pvc-\x1b[2J", "claim": "ns/c1", "claimUID": "u1"} == one


def test_an_intent_whose_object_is_stored_stands_for_nothing_else():
    report = judged(
        an_inventory(ListedVolume("opaque"), ListedVolume("h1"), objects=(an_object("pvc-1"),), intents=(an_intent(),))
    )
    assert ["opaque"] == [finding.handle for finding in report.deletable()]


@each_row(
    ("volume", "more", "spared"),
    [
        (ListedVolume("h1", published_on=("n1", "n2")), {}, "it is published on n1, n2"),
        (
            ListedVolume("h1"),
            {"attachments": (Attachment("va1", "other", handle="h1"),)},
            "VolumeAttachment va1 names it",
        ),
        (
            ListedVolume("h1"),
            {"snapshots": {"h1": "content1"}},
            "VolumeSnapshotContent content1 is to be taken from it",
        ),
    ],
    ids=["published", "attached inline", "source of a snapshot"],
)
def test_what_is_in_use_is_spared(volume: ListedVolume, more: dict[str, Any], spared: str):
    report = judged(an_inventory(volume, **more))
    assert [spared] == [finding.spared for finding in report.findings]
    assert () == report.deletable()
    assert report.wrong()


def a_lost_claim(name: str) -> Claim:
    return Claim(f"uid-{name}", f"ns/{name}", f"pvc-{name}", was_bound=True, provisioner=DRIVER)


def test_whatever_a_volume_may_be_is_named_with_the_way_out():
    """Who has put one thing right must not find the next only then."""
    report = judged(an_inventory(ListedVolume("h1"), ListedVolume("h2"), claims=(a_lost_claim("a"), a_lost_claim("b"))))
    what = "the volume of PersistentVolume pvc-{0}, which the claim ns/{0} has lost"
    assert [f"it may be {what.format('a')}, or {what.format('b')}"] * 2 == [
        finding.spared for finding in report.findings
    ]
    way_out = "the claim ns/{0} has lost its volume: delete it, or restore PersistentVolume pvc-{0}"
    assert (way_out.format("a"), way_out.format("b")) == report.ways_out()


def test_what_fits_a_volume_is_named_alone():
    report = judged(an_inventory(ListedVolume("h1", words=("uid-a",)), claims=(a_lost_claim("a"), a_lost_claim("b"))))
    assert ["it may be the volume of PersistentVolume pvc-a, which the claim ns/a has lost"] == [
        one.spared for one in report.findings
    ]


def test_many_that_it_may_be_are_counted():
    report = judged(an_inventory(ListedVolume("h1"), claims=tuple(map(a_lost_claim, "abcde"))))
    assert report.findings[0].spared.endswith("which the claim ns/c has lost, or one of 2 others")
    assert 5 == len(report.ways_out())
    report = judged(an_inventory(ListedVolume("h1"), claims=tuple(map(a_lost_claim, "abc"))))
    assert report.findings[0].spared.endswith("which the claim ns/c has lost")


def test_a_handle_in_other_letters_is_found_so_that_others_may_go():
    report = judged(an_inventory(ListedVolume("RG/Disk"), ListedVolume("h2"), objects=(an_object(handle="rg/disk"),)))
    assert [("leaked", "h2"), ("doubtful", "RG/Disk")] == kinds(report)
    assert ["h2"] == [finding.handle for finding in report.deletable()]


def test_a_second_volume_among_an_objects_attributes_is_not_leaked():
    report = judged(an_inventory(ListedVolume("h1"), ListedVolume("mirror"), objects=(an_object(words=("mirror",)),)))
    assert [("doubtful", "mirror")] == kinds(report)


@each_row(("attacher", "goes"), [(DRIVER, False), ("other", True)])
def test_an_attachment_that_names_what_is_not_listed_may_mean_any(attacher: str, goes: bool):
    report = judged(an_inventory(ListedVolume("h1"), attachments=(Attachment("va1", attacher, handle="elsewhere"),)))
    assert goes == bool(report.deletable())


def test_named_volumes_go_and_no_others():
    report = judged(an_inventory(ListedVolume("h1"), ListedVolume("h2")))
    assert ["h1", "h2"] == [finding.handle for finding in report.deletable()]
    assert ["h2"] == [finding.handle for finding in report.deletable({"h2", "h3"})]
    assert "it is no orphan" == report.why_kept("h3")


def test_the_table():
    leaked, ghost = ListedVolume("vol-7", 3 << 30), an_object("pvc-9", "vol-9")
    report = judged(an_inventory(leaked, objects=(ghost,)))
    kept = "it may be the volume of PersistentVolume pvc-9, whose handle the driver does not list"
    assert [
        "KIND    VOLUME  SIZE  AGE  PERSISTENTVOLUME  CLAIM  WHY",
        f"leaked  vol-7   3Gi                                 the driver has it, no PersistentVolume names it; {kept}",
        (
            "ghost   vol-9   1Gi   2h   pvc-9             ns/c   the PersistentVolume is Bound, the driver does "
            "not list its volume"
        ),
        "csi.test: 1 volume, 1 leaked, 1 ghost, 0 abandoned, 0 foreign, 0 begun, 0 doubtful",
    ] == as_table(report, {}, 2 * 3600.0).splitlines()
    assert "no such luck" in as_table(report, {"vol-7": "no such luck"}, 0.0)


@each_row(
    ("size", "size_bytes"),
    [("1536Mi", 3 << 29), ("1G", 10**9), ("1500m", 2), ("1e3", 1000), ("0", 0), ("", None), ("much", None)],
)
def test_the_json_has_sizes_in_bytes_if_any(size: str, size_bytes: int | None):
    body = json.loads(
        as_json(judged(an_inventory(objects=(msgspec.structs.replace(an_object(), size=size),))), {}, 0.0)
    )
    assert [size_bytes] == [orphan.get("sizeBytes") for orphan in body["orphans"]]


def test_the_json():
    report = judged(
        an_inventory(
            ListedVolume("vol-7", 5),
            objects=(msgspec.structs.replace(an_object(), handle="x"),),
            intents=(an_intent(),),
        )
    )
    body = json.loads(as_json(report, {"vol-7": ""}, 90.0))
    assert {
        "driver": DRIVER,
        "volumes": 1,
        "openIntents": [{"volumeName": "pvc-1", "claim": "ns/c1", "claimUID": "u1"}],
    } == {name: body[name] for name in ("driver", "volumes", "openIntents")}
    leaked, ghost = body["orphans"]
    assert ("leaked", "vol-7", 5, True) == (
        leaked["kind"],
        leaked["volumeHandle"],
        leaked["sizeBytes"],
        leaked["deleted"],
    )
    assert 1 << 30 == ghost["sizeBytes"], "a number there, too, whatever the PersistentVolume says"
    assert ("ghost", 90, "pv1", "ns/c") == (
        ghost["kind"],
        ghost["ageSeconds"],
        ghost["persistentVolume"],
        ghost["claim"],
    )


def test_a_drivers_words_move_no_cursor_in_the_table():
    report = judged(an_inventory(ListedVolume("vol\x1b[2J\nfake  vol-8")))
    shown = as_table(report, {"vol\x1b[2J\nfake  vol-8": "no\x9b31m"}, 0.0)
    assert "vol\\x1b[2J\\nfake  vol-8" in shown
    assert "no\\x9b31m" in shown
    assert not set(shown) & {"\x1b", "\x9b"}


@each_row(
    ("intent", "is_settled"),
    [
        (an_entry(ONE), True),
        (an_entry(ONE, own=OwnVolume.UNSEEN), True),
        (an_entry(ONE, own=OwnVolume.STORED), False),
        (an_entry(ONE, state=IntentState.REFUSED, own=OwnVolume.DELETED), False),
        (an_entry(msgspec.structs.replace(ONE, dying_handle="h9"), state=IntentState.DELETING), False),
        (an_entry(msgspec.structs.replace(ONE, request="other"), ONE), False),
    ],
)
def test_27c7_an_intent_that_remembers_more_than_its_one_volume_is_not_settled_by_that(
    intent: ClaimIntents, is_settled: bool
):
    stored = an_object("pvc-1", "h1", claim_uid="u1")
    report = judged(an_inventory(ListedVolume("h1"), objects=(stored,), intents=(intent,), idle=frozenset({"u1"})))
    assert ((intent,) if is_settled else ()) == report.settled
