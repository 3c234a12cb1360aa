"""`mooring orphans` on the in-process ports, in virtual time."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import pytest

from mooring.api.coordination import LEASES
from mooring.base.errors import ConfigError
from mooring.cli import mooring as command
from mooring.cli.orphans import CANNOT, CLEAN, LEFT
from mooring.inspect.facts import CannotLook
from mooring.inspect.settled import tidied
from mooring.sidecars.provisioner.intents import lease_codec
from tests.support.orphaned import PLACE, Listing, OrphansWorld
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time


async def test_where_everything_has_its_place_the_exit_code_is_0():
    world = OrphansWorld(Listing("h1"))
    await world.own("pv1", "h1")
    assert CLEAN == await world.run()
    assert (
        "csi.test: 1 volume, 0 leaked, 0 ghost, 0 abandoned, 0 foreign, 0 begun, 0 doubtful\n" == world.out.getvalue()
    )


async def test_what_is_found_is_shown_and_stays():
    world = OrphansWorld(Listing("h1", "h2", "h3", "h4", "h5"))
    await world.own("pv1", "h1")
    await world.own("pv9", "h9")
    assert LEFT == await world.run(output="json")
    found = [(entry["kind"], entry["volumeHandle"]) for entry in json.loads(world.out.getvalue())["orphans"]]
    assert [("leaked", "h2"), ("leaked", "h3"), ("leaked", "h4"), ("leaked", "h5"), ("ghost", "h9")] == found
    assert 5 == len(world.driver.volumes)


async def test_deleting_asks_waits_and_looks_again():
    world = OrphansWorld(Listing("h1", "h2", "h3"))
    await world.own("pv1", "h1")

    async def claimed_late() -> None:
        await asyncio.sleep(300)
        await world.own("pv3", "h3")

    late = asyncio.create_task(claimed_late(), name="late")
    assert LEFT == await world.run("csi.test\n", delete=True)
    await late
    assert {"h1", "h3"} == set(world.driver.volumes)
    assert world.clock.now() >= 600
    assert "h3: not deleted: it is no orphan" in world.err.getvalue()


async def a_world(*leaked: str) -> OrphansWorld:
    """Its cluster has a volume of the driver, so it is the right one."""
    world = OrphansWorld(Listing("kept", *leaked))
    await world.own("pv", "kept")
    return world


async def test_all_that_had_leaked_is_gone_and_the_exit_code_is_0():
    world = await a_world("h2")
    assert CLEAN == await world.run(delete=True, yes=True, prefix="h", older_than_s=0.0)
    assert {"kept"} == set(world.driver.volumes)
    assert "leaked  h2      1Gi" in world.out.getvalue()
    assert (
        "csi.test: 1 volume, 0 leaked, 0 ghost, 0 abandoned, 0 foreign, 0 begun, 0 doubtful; 1 deleted\n"
        in world.out.getvalue()
    )


async def test_another_word_than_the_drivers_name_deletes_nothing():
    world = await a_world("h2")
    assert CANNOT == await world.run("yes\n", delete=True)
    assert {"h2", "kept"} == set(world.driver.volumes)


async def test_who_says_no_still_gets_the_report():
    world = await a_world("h2")
    assert CANNOT == await world.run("no\n", delete=True, output="json")
    assert ["h2"] == [entry["volumeHandle"] for entry in json.loads(world.out.getvalue())["orphans"]]
    assert "  h2  1Gi\n1 volume of csi.test with all that is in it; " in world.err.getvalue()


async def test_when_nothing_may_be_deleted_it_says_what_to_do_first():
    world = await a_world("h2")
    for name in ("a", "b"):
        await world.claim(name, phase="Lost", volumeName=f"pvc-{name}")
    assert LEFT == await world.run(delete=True)
    assert world.err.getvalue().splitlines() == [
        "nothing is deleted: the report says what keeps each volume",
        "  first: the claim default/a has lost its volume: delete it, or restore PersistentVolume pvc-a",
        "  first: the claim default/b has lost its volume: delete it, or restore PersistentVolume pvc-b",
    ]


async def test_when_nothing_has_leaked_nothing_is_asked():
    world = await a_world()
    assert CLEAN == await world.run(delete=True)
    assert "nothing is deleted: no volume has leaked\n" == world.err.getvalue()


def test_the_help_has_the_exit_codes(capsys: pytest.CaptureFixture[str]):
    assert 0 == command.run(["orphans", "--help"])
    assert "3 something is left" in capsys.readouterr().out.replace("\n", " ")


async def test_a_volume_that_can_not_be_deleted_is_told_and_the_others_go():
    world = await a_world("h1", "h2", "h3")
    world.driver.broken = {"h2"}
    assert LEFT == await world.run("csi.test\n", delete=True, output="json")
    assert {"h2", "kept"} == set(world.driver.volumes)
    problems = [entry.get("problem") for entry in json.loads(world.out.getvalue())["orphans"]]
    assert [None, "rpc error: code = Internal desc = stuck", None] == problems


async def test_what_finds_its_object_while_another_is_deleted_stays():
    """One deletion may take a minute."""
    world = await a_world("h1", "h2")
    world.driver.delete_s = 50.0

    async def claimed_late() -> None:
        await asyncio.sleep(20)
        await world.own("pv2", "h2")

    late = asyncio.create_task(claimed_late(), name="late")
    assert LEFT == await world.run("csi.test\n", delete=True, older_than_s=0.0)
    await late
    assert {"h2", "kept"} == set(world.driver.volumes)


async def test_quick_deletions_share_a_look():
    world = await a_world(*(f"h{number}" for number in range(100)))
    world.driver.delete_s = 0.1
    assert CLEAN == await world.run("csi.test\n", delete=True, older_than_s=0.0)
    assert 6 >= world.driver.list_count


async def test_what_was_deleted_is_shown_when_the_next_look_fails():
    world = await a_world("h1", "h2")
    world.driver.delete_s = 10.0

    async def damage() -> None:
        await asyncio.sleep(5)
        await world.damage()

    damaging = asyncio.create_task(damage(), name="damage")
    with pytest.raises(CannotLook):
        await world.run("csi.test\n", delete=True, output="json", older_than_s=0.0)
    await damaging
    shown = {entry["volumeHandle"]: entry.get("deleted") for entry in json.loads(world.out.getvalue())["orphans"]}
    assert {"h1": True, "h2": None} == shown


async def test_only_the_volumes_that_are_named_go():
    world = await a_world("h1", "h2", "h3")
    assert LEFT == await world.run(delete=True, yes=True, volume="h1,h3", older_than_s=0.0)
    assert {"h2", "kept"} == set(world.driver.volumes)


async def test_a_named_volume_that_has_its_object_is_refused():
    world = await a_world()
    with pytest.raises(ConfigError, match="kept is not deleted: it is no orphan"):
        await world.run(delete=True, yes=True, volume="kept")


@each_row(
    ("flags", "remedy"),
    [
        ({}, "name the volumes with --volume"),
        ({"yes": True, "prefix": "h"}, "name the volumes with --volume, without --yes"),
        ({"yes": True, "volume": "h1"}, "leave out --yes"),
    ],
    ids=["all", "by prefix", "unasked"],
)
async def test_a_cluster_without_the_drivers_volumes_may_be_the_wrong_one(flags: dict[str, Any], remedy: str):
    world = OrphansWorld(Listing("h1"))
    with pytest.raises(ConfigError, match=f"no PersistentVolume of the driver.*{remedy}"):
        await world.run("csi.test\n", delete=True, older_than_s=0.0, **flags)
    assert {"h1"} == set(world.driver.volumes)


async def test_the_last_volume_of_a_driver_goes_by_its_name_after_a_question():
    world = OrphansWorld(Listing("h1"))
    assert CLEAN == await world.run("csi.test\n", delete=True, volume="h1", older_than_s=0.0)
    assert {} == world.driver.volumes


async def test_what_a_provisioner_has_begun_is_not_touched():
    world = await a_world("vol-pvc-1", "opaque")
    await world.begin("pvc-1")
    assert CLEAN == await world.run(delete=True, yes=True, prefix="o", older_than_s=0.0)
    assert {"vol-pvc-1", "kept"} == set(world.driver.volumes)
    world = await a_world("opaque")
    await world.begin("pvc-1")
    assert LEFT == await world.run(delete=True, yes=True, prefix="o", older_than_s=0.0)
    assert {"opaque", "kept"} == set(world.driver.volumes)


async def test_a_journal_that_can_not_be_read_stops_it():
    """It may name what looks leaked."""
    world = OrphansWorld(Listing("opaque"))
    await world.damage()
    with pytest.raises(CannotLook):
        await world.run()


async def test_a_driver_that_does_not_list_can_not_be_asked():
    with pytest.raises(ConfigError, match="LIST_VOLUMES"):
        await OrphansWorld(Listing(lists=False)).run()


@each_row(
    ("flags", "problem"),
    [
        (["-o", "xml"], "-o: must be table or json"),
        (["--yes"], "--yes, --volume and --secret go with --delete"),
        (["--delete", "--yes"], "--yes: needs --volume, or a --prefix of this cluster's own"),
        (["--delete", "--yes", "--prefix=pvc"], "yes: --prefix=pvc fits every cluster's volumes"),
        (["--delete", "--yes", "--prefix=pvc-0a"], "yes: --prefix=pvc-0a fits every cluster's volumes"),
        (["--older-than=-1s"], "older-than: must not be negative"),
        (["--delete", "--secret=name"], "secret: must be namespace/name"),
    ],
)
def test_words_that_make_no_sense_are_refused(flags: list[str], problem: str, capsys: pytest.CaptureFixture[str]):
    assert 2 == command.run(["orphans", *flags])
    assert problem in capsys.readouterr().err


# -- the journal, where the Go provisioner has gone on


async def ended_by_another(written_ago_s: float = 601, **claim_ref: str) -> OrphansWorld:
    """Mooring's journal says that pvc-1 may be lost, and it has been made and stored since. pvc-2 is open."""
    world = OrphansWorld(Listing("vol-1"))
    ref = {"namespace": "ns", "name": "c1", "uid": "u1", **claim_ref}
    await world.own("pvc-1", "vol-1", spec={"claimRef": ref})
    await world.begin("pvc-1", written_ago_s=written_ago_s)
    await world.begin("pvc-2", "u2", written_ago_s=written_ago_s, page=1)
    return world


async def journal(world: OrphansWorld) -> dict[str, list[str]]:
    """The volumes of the open intents by page."""
    pages = (await world.users.list(LEASES.whole())).items
    return {page["metadata"]["name"][-1]: [one.volume_name for one in lease_codec.entries_of(page)] for page in pages}


async def resting(world: OrphansWorld) -> list[str]:
    """Who has written to each page, and when."""
    return [str(page["spec"]) for page in (await world.users.list(LEASES.whole())).items]


async def test_27c7_what_the_go_peer_has_ended_is_told_and_taken_out_of_the_journal_on_demand():
    world = await ended_by_another()
    await world.run()
    assert "  claim ns/c1 (u1), PersistentVolume pvc-1: another provisioner has made it\n" in world.out.getvalue()
    assert {"0": ["pvc-1"], "1": ["pvc-2"]} == await journal(world), "nothing is changed unasked"
    before = await resting(world)
    world.out = io.StringIO()
    await world.run(tidy=True, output="json")
    assert {"0": [], "1": ["pvc-2"]} == await journal(world)
    assert before == await resting(world), "that is no work of a provisioner's"
    shown = json.loads(world.out.getvalue())
    assert ([], ["pvc-2"]) == (shown["settledIntents"], [one["volumeName"] for one in shown["openIntents"]])
    assert "what another provisioner has made is taken out" in world.err.getvalue()


@each_row("how", ["a provisioner is at work", "of another claim", "not listed", "a second volume"])
async def test_27c7_what_may_be_open_still_stays_in_the_journal(how: str):
    if how == "a provisioner is at work":
        world = await ended_by_another(written_ago_s=599)
    elif how == "of another claim":
        world = await ended_by_another(uid="another")
    else:
        world = await ended_by_another()
        world.driver.volumes = dict.fromkeys(["other"] if how == "not listed" else ["vol-1", "vol-pvc-1"], 1)
    await world.run(tidy=True)
    assert {"0": ["pvc-1"], "1": ["pvc-2"]} == await journal(world)
    assert "another provisioner has made it" not in world.out.getvalue()


async def test_27c7_a_provisioner_that_begins_meanwhile_keeps_its_journal():
    world = await ended_by_another()
    wall_s = world.clock.wall_s()
    (page, *_) = (await world.users.list(LEASES.whole())).items
    body = lease_codec.page_body(PLACE, 0, page, "me", None, wall_s)
    await world.users.replace(LEASES.whole(), body, "default")
    pages = [one async for one in tidied(world.cluster, world.driver.name, {"u1"}, wall_s)]
    assert ["a provisioner has begun to work on it"] == [problem for _, problem in pages]
    assert {"0": ["pvc-1"], "1": ["pvc-2"]} == await journal(world)
