"""Each rule of the book is broken once, and named by its number; no other rule is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mooring.conform.book.exchange import Place
from mooring.conform.book.rule import headline
from mooring.conform.book.watcher import ASKED, BOOK
from mooring.csi.driver import Driver
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.errors import DEADLINE_TEXT, LOST_TEXT
from tests.support.rows import each_row
from tests.unit.conform.book.calls import BLOCK, GIB, PATH, TAKEN, WRITER, Calls, Controller, Node, Service, no

MOUNTED = Place("folder", is_mount=True)
COVERED = Place("folder", is_mount=True, covers=True)
STATS = csi.NodeGetVolumeStatsRequest(volume_id="id-a", volume_path=PATH)
ZONE_A, ZONE_B = {"segments": {"zone": "a"}}, {"segments": {"zone": "b"}}


def another_volume(calls: Calls) -> None:
    calls.create()
    calls.create({"volume_id": "id-other"})


def refuses_its_volume(calls: Calls) -> None:
    calls.create()
    calls.create(no(Code.ALREADY_EXISTS))


def one_id_for_two(calls: Calls) -> None:
    calls.create()
    calls.create({"volume_id": "id-a"}, name="b")


def too_large(calls: Calls) -> None:
    calls.create({"capacity_bytes": 2 * GIB}, capacity_range={"limit_bytes": GIB})


def another_answer(calls: Calls) -> None:
    calls.create({"volume_context": {"a": "1"}})
    calls.create({"volume_context": {"a": "2"}})


def forgets(calls: Calls) -> None:
    calls.create()
    calls.stage(no(Code.NOT_FOUND))


def grown_by_its_name(calls: Calls, answer: DriverError | None) -> None:
    calls.create()
    calls.create(answer, capacity_range={"required_bytes": 2 * GIB})


def cloned_by_its_name(calls: Calls) -> None:
    source = {"volume": {"volume_id": "id-b"}}
    calls.create()
    calls.create({"content_source": source}, volume_content_source=source)


def snapped_by_its_name(calls: Calls, answer: DriverError | None = None) -> None:
    calls.snap()
    request = csi.CreateSnapshotRequest(name="s", source_volume_id="id-b")
    same = {"snapshot_id": "id-s", "source_volume_id": "id-b", "creation_time": TAKEN, "ready_to_use": True}
    calls.call(Driver.create_snapshot, request, answer or csi.CreateSnapshotResponse(snapshot=same))


def nowhere(calls: Calls) -> None:
    calls.services(Service.CONTROLLER_SERVICE, Service.VOLUME_ACCESSIBILITY_CONSTRAINTS)
    calls.node()


def from_nothing(calls: Calls) -> None:
    calls.create(volume_content_source={"volume": {"volume_id": "id-b"}})


def another_context(calls: Calls) -> None:
    calls.attach({"device": "1"})
    calls.attach({"device": "2"})


def refuses_to_attach_again(calls: Calls) -> None:
    calls.attach()
    calls.attach(no(Code.FAILED_PRECONDITION))


def on_two_nodes(calls: Calls) -> None:
    calls.attach()
    calls.attach(node="n2")


def refuses_to_detach_again(calls: Calls) -> None:
    calls.attach()
    calls.detach()
    calls.detach(no(Code.INTERNAL))


def forgets_an_attachment(calls: Calls) -> None:
    calls.node()
    calls.create()
    calls.attach()
    calls.detach(no(Code.NOT_FOUND))


def another_snapshot(calls: Calls) -> None:
    calls.snap()
    calls.snap({"snapshot_id": "id-other"})


def refuses_its_snapshot(calls: Calls) -> None:
    calls.snap()
    calls.snap(no(Code.ALREADY_EXISTS))


def time_goes_on(calls: Calls) -> None:
    calls.snap()
    calls.snap({"creation_time": {"seconds": 2}})


def ready_no_more(calls: Calls) -> None:
    calls.snap()
    calls.snap({"ready_to_use": False})


def one_id_for_two_snapshots(calls: Calls) -> None:
    calls.snap()
    calls.snap({"snapshot_id": "id-s"}, name="t")


def a_name_that_changes(calls: Calls) -> None:
    calls.info()
    calls.info("other.example.com", where="n1")


def hidden_service(calls: Calls) -> None:
    calls.services()
    calls.offers(Controller.CREATE_DELETE_VOLUME)


def not_served(calls: Calls) -> None:
    calls.offers(Controller.CREATE_DELETE_VOLUME)
    calls.create(no(Code.UNIMPLEMENTED))


def not_advertised(calls: Calls) -> None:
    calls.offers()
    calls.create()


def nodes_in_a_list(calls: Calls) -> None:
    calls.offers(Controller.LIST_VOLUMES)
    answer = csi.ListVolumesResponse(entries=[{"volume": {"volume_id": "a"}, "status": {"published_node_ids": ["n1"]}}])
    calls.call(Driver.list_volumes, csi.ListVolumesRequest(), answer)


def topology(calls: Calls) -> None:
    calls.services(Service.CONTROLLER_SERVICE)
    calls.create({"accessible_topology": [ZONE_A]})


def topology_of_a_node(calls: Calls) -> None:
    calls.services(Service.CONTROLLER_SERVICE)
    calls.node(accessible_topology=ZONE_A)


def capabilities_change(calls: Calls) -> None:
    calls.offers(Controller.CREATE_DELETE_VOLUME)
    calls.offers(Controller.CREATE_DELETE_VOLUME, Controller.EXPAND_VOLUME)


def node_not_served(calls: Calls) -> None:
    answer = csi.NodeGetCapabilitiesResponse(capabilities=[{"rpc": {"type": Node.STAGE_UNSTAGE_VOLUME}}])
    calls.call(Driver.node_get_capabilities, csi.NodeGetCapabilitiesRequest(), answer, "n1")
    calls.stage(no(Code.UNIMPLEMENTED))


LISTS = (Controller.CREATE_DELETE_VOLUME, Controller.PUBLISH_UNPUBLISH_VOLUME, Controller.LIST_VOLUMES)


def lists(calls: Calls, *more: int, **entry: Any) -> None:
    calls.offers(*LISTS, *more)
    answer = csi.ListVolumesResponse(entries=[{"volume": {"volume_id": "a"}, **entry}])
    calls.call(Driver.list_volumes, csi.ListVolumesRequest(), answer)


def stats(calls: Calls, **fields: Any) -> None:
    answer = csi.NodeGetVolumeStatsResponse(usage=[{"unit": 1, "total": 1}], **fields)
    calls.call(Driver.node_get_volume_stats, STATS, answer, "n1")


def no_condition(calls: Calls) -> None:
    able = csi.NodeGetCapabilitiesResponse(capabilities=[{"rpc": {"type": Node.VOLUME_CONDITION}}])
    calls.call(Driver.node_get_capabilities, csi.NodeGetCapabilitiesRequest(), able, "n1")
    stats(calls)


def expands(calls: Calls, when: Any) -> None:
    answer = csi.GetPluginCapabilitiesResponse(
        capabilities=[{"volume_expansion": {"type": when}}, {"service": {"type": Service.CONTROLLER_SERVICE}}]
    )
    calls.call(Driver.get_plugin_capabilities, csi.GetPluginCapabilitiesRequest(), answer)
    calls.offers(Controller.CREATE_DELETE_VOLUME)
    calls.call(Driver.node_get_capabilities, csi.NodeGetCapabilitiesRequest(), csi.NodeGetCapabilitiesResponse(), "n1")


def prefixes(calls: Calls) -> None:
    calls.node(accessible_topology={"segments": {"a.example.com/zone": "a"}})
    calls.create({"accessible_topology": [{"segments": {"b.example.com/zone": "a"}}]})


def tells_another_context(calls: Calls) -> None:
    calls.create({"volume_context": {"a": "1"}})
    answer = csi.ListVolumesResponse(entries=[{"volume": {"volume_id": "id-a", "volume_context": {"a": "2"}}}])
    calls.call(Driver.list_volumes, csi.ListVolumesRequest(), answer)


def cuts_a_snapshot(calls: Calls) -> None:
    source = {"snapshot": {"snapshot_id": "id-s"}}
    calls.snap({"size_bytes": 2 * GIB})
    calls.create({"content_source": source}, volume_content_source=source)


def confirms_nothing_of_it(calls: Calls) -> None:
    request = csi.ValidateVolumeCapabilitiesRequest(volume_id="id-a", volume_capabilities=[WRITER])
    calls.call(Driver.validate_volume_capabilities, request, csi.ValidateVolumeCapabilitiesResponse(confirmed={}))


def volume_without_status(calls: Calls) -> None:
    answer = csi.ControllerGetVolumeResponse(volume={"volume_id": "id-a"})
    calls.call(Driver.controller_get_volume, csi.ControllerGetVolumeRequest(volume_id="id-a"), answer)


def largest_volume_is_negative(calls: Calls) -> None:
    calls.call(
        Driver.get_capacity, csi.GetCapacityRequest(), csi.GetCapacityResponse(maximum_volume_size={"value": -1})
    )


def label(key: str, value: str = "a") -> Callable[[Calls], None]:
    return lambda calls: calls.node(accessible_topology={"segments": {key: value}})


def another_node_id(calls: Calls) -> None:
    calls.node()
    calls.node("n1-again")


def one_id_for_two_nodes(calls: Calls) -> None:
    calls.node()
    calls.node(where="n2")


def stages_once_only(calls: Calls) -> None:
    calls.stage()
    calls.stage(no(Code.INTERNAL))


def stages_twice(calls: Calls) -> None:
    calls.stage(staging=MOUNTED)
    calls.stage(staging=COVERED)


def mounts_twice(calls: Calls) -> None:
    calls.mount(target=MOUNTED)
    calls.mount(target=COVERED)


def unmounts_once_only(calls: Calls) -> None:
    calls.unmount()
    calls.unmount(no(Code.NOT_FOUND))


def grows_elsewhere(calls: Calls) -> None:
    request = csi.NodeExpandVolumeRequest(
        volume_id="id-a", volume_path=PATH, capacity_range={"required_bytes": 2 * GIB}
    )
    calls.call(Driver.node_expand_volume, request, csi.NodeExpandVolumeResponse(capacity_bytes=GIB), "n1")


def endless(calls: Calls) -> None:
    calls.page("a", next_token="1")
    calls.page("b", token="1", next_token="1")


def deletes_once_only(calls: Calls) -> None:
    calls.delete()
    calls.delete(no(Code.INTERNAL))


def deletes_a_snapshot_once_only(calls: Calls) -> None:
    request = csi.DeleteSnapshotRequest(snapshot_id="s")
    calls.call(Driver.delete_snapshot, request)
    calls.call(Driver.delete_snapshot, request, no(Code.NOT_FOUND))


def unfiltered(calls: Calls) -> None:
    answer = csi.ListSnapshotsResponse(
        entries=[{"snapshot": {"snapshot_id": "t", "source_volume_id": "v", "creation_time": {"seconds": 1}}}]
    )
    calls.call(Driver.list_snapshots, csi.ListSnapshotsRequest(snapshot_id="s"), answer)


def tells_a_secret(calls: Calls) -> None:
    calls.create(no(Code.INTERNAL, "login failed: curl -u admin:s3cr3t-word"), secrets={"password": "s3cr3t-word"})


def answers_a_secret(calls: Calls) -> None:
    calls.create({"volume_context": {"user": "s3cr3t-word"}}, secrets={"password": "s3cr3t-word"})


def aborts_for_ever(calls: Calls) -> None:
    for _ in range(3):
        calls.create(no(Code.ABORTED))


def answers_nothing(calls: Calls) -> None:
    calls.create(DriverError(Code.INTERNAL, "the driver answered OK without a message", answered=True))


BREACHES: tuple[tuple[str, Callable[[Calls], None]], ...] = (
    ("CSI101", lambda calls: calls.info("-driver")),
    ("CSI102", lambda calls: calls.info(version="")),
    ("CSI103", a_name_that_changes),
    ("CSI104", hidden_service),
    ("CSI105", not_served),
    ("CSI105", node_not_served),
    ("CSI106", not_advertised),
    ("CSI106", nodes_in_a_list),
    ("CSI107", topology),
    ("CSI107", topology_of_a_node),
    ("CSI108", lambda calls: calls.offers(0)),
    ("CSI105", no_condition),
    ("CSI105", lambda calls: lists(calls, Controller.LIST_VOLUMES_PUBLISHED_NODES)),
    ("CSI105", lambda calls: lists(calls, Controller.VOLUME_CONDITION, status={})),
    ("CSI108", lambda calls: calls.offers(Controller.LIST_VOLUMES, Controller.LIST_VOLUMES_PUBLISHED_NODES)),
    ("CSI108", lambda calls: expands(calls, csi.PluginCapability.VolumeExpansion.ONLINE)),
    ("CSI108", lambda calls: expands(calls, csi.PluginCapability.VolumeExpansion.OFFLINE)),
    ("CSI109", capabilities_change),
    ("CSI111", confirms_nothing_of_it),
    ("CSI111", volume_without_status),
    ("CSI111", lambda calls: lists(calls, status={"volume_condition": {"abnormal": True}})),
    ("CSI111", lambda calls: stats(calls, volume_condition={"abnormal": True})),
    ("CSI113", largest_volume_is_negative),
    ("CSI113", lambda calls: lists(calls, volume={"volume_id": "a", "capacity_bytes": -1})),
    ("CSI113", lambda calls: calls.group({"source_volume_id": "id-a", "size_bytes": -1}, {"source_volume_id": "id-b"})),
    ("CSI116", label("zone", "a b")),
    ("CSI116", label("-zone")),
    ("CSI116", label("Example.com/zone")),
    ("CSI116", label("/zone")),
    ("CSI116", label("z" * 64)),
    ("CSI116", lambda calls: calls.node(accessible_topology={"segments": {"zone": "a", "Zone": "a"}})),
    ("CSI117", prefixes),
    ("CSI117", lambda calls: calls.node(accessible_topology={"segments": {"a.com/zone": "a", "b.com/zone": "a"}})),
    ("CSI215", tells_another_context),
    ("CSI216", cuts_a_snapshot),
    (
        "CSI410",
        lambda calls: calls.group({"source_volume_id": "id-a", "ready_to_use": False}, {"source_volume_id": "id-b"}),
    ),
    ("CSI111", lambda calls: calls.create({"volume_id": ""})),
    ("CSI112", lambda calls: calls.create({"volume_id": "v" * 129})),
    ("CSI113", lambda calls: calls.node(max_volumes_per_node=-1)),
    (
        "CSI114",
        lambda calls: calls.group({"source_volume_id": "id-a"}, {"source_volume_id": "id-b", "group_snapshot_id": ""}),
    ),
    ("CSI201", another_volume),
    ("CSI202", refuses_its_volume),
    ("CSI203", one_id_for_two),
    ("CSI115", nowhere),
    ("CSI121", lambda calls: calls.create(name="")),
    ("CSI121", lambda calls: calls.delete(no(Code.NOT_FOUND), volume="")),
    ("CSI204", lambda calls: calls.create({"capacity_bytes": 1})),
    ("CSI204", too_large),
    ("CSI205", from_nothing),
    (
        "CSI206",
        lambda calls: calls.create(
            {"accessible_topology": [ZONE_A]}, accessibility_requirements={"requisite": [ZONE_B]}
        ),
    ),
    ("CSI207", another_answer),
    ("CSI208", deletes_once_only),
    ("CSI209", forgets),
    ("CSI210", lambda calls: calls.grow(GIB, required_bytes=2 * GIB)),
    ("CSI210", lambda calls: calls.grow(0, required_bytes=2 * GIB)),
    ("CSI211", lambda calls: grown_by_its_name(calls, None)),
    ("CSI211", lambda calls: grown_by_its_name(calls, no(Code.INTERNAL))),
    ("CSI211", cloned_by_its_name),
    ("CSI301", another_context),
    ("CSI302", refuses_to_attach_again),
    ("CSI303", on_two_nodes),
    ("CSI304", refuses_to_detach_again),
    ("CSI308", forgets_an_attachment),
    ("CSI401", another_snapshot),
    ("CSI402", refuses_its_snapshot),
    ("CSI403", lambda calls: calls.snap({"source_volume_id": "id-b"})),
    ("CSI404", time_goes_on),
    ("CSI405", ready_no_more),
    (
        "CSI406",
        deletes_a_snapshot_once_only,
    ),
    ("CSI407", one_id_for_two_snapshots),
    ("CSI408", lambda calls: calls.group({"source_volume_id": "id-a"})),
    ("CSI409", snapped_by_its_name),
    ("CSI409", lambda calls: snapped_by_its_name(calls, no(Code.INTERNAL))),
    ("CSI501", another_node_id),
    ("CSI502", one_id_for_two_nodes),
    ("CSI511", lambda calls: calls.mount(target=Place("folder"))),
    ("CSI511", lambda calls: calls.mount(target=Place(""))),
    ("CSI512", lambda calls: calls.mount(target=Place("folder", elsewhere=("/other",)))),
    ("CSI513", lambda calls: calls.mount(readonly=True, target=MOUNTED)),
    ("CSI514", lambda calls: calls.mount(capability=BLOCK, target=MOUNTED)),
    ("CSI514", lambda calls: calls.mount(target=Place("file", is_mount=True))),
    ("CSI525", lambda calls: calls.unmount(target=MOUNTED)),
    ("CSI515", lambda calls: calls.unmount(target=Place("folder"))),
    ("CSI516", lambda calls: calls.unstage(staging=MOUNTED)),
    ("CSI517", stages_once_only),
    ("CSI517", unmounts_once_only),
    ("CSI518", grows_elsewhere),
    ("CSI521", stages_twice),
    ("CSI521", mounts_twice),
    ("CSI522", lambda calls: calls.mount(no(Code.INTERNAL, "mount: No such file or directory"), target=Place(""))),
    ("CSI601", endless),
    ("CSI602", lambda calls: calls.page("a", "b", max_entries=1)),
    ("CSI603", lambda calls: calls.page("a", "a")),
    ("CSI604", unfiltered),
    ("CSI701", lambda calls: calls.create(no(Code.UNKNOWN))),
    ("CSI702", tells_a_secret),
    ("CSI703", answers_a_secret),
    ("CSI704", lambda calls: calls.create(no(Code.DEADLINE_EXCEEDED, DEADLINE_TEXT))),
    ("CSI705", aborts_for_ever),
    ("CSI706", answers_nothing),
    ("CSI707", lambda calls: calls.create(no(Code.UNAVAILABLE, LOST_TEXT))),
    ("CSI708", lambda calls: calls.create(no(Code.INTERNAL, ""))),
)


@each_row(("number", "broken"), BREACHES, ids=[f"{number}-{at}" for at, (number, _) in enumerate(BREACHES)])
def test_a_breach_is_named_by_its_rule_and_by_no_other(number: str, broken: Callable[[Calls], None]) -> None:
    calls = Calls()
    broken(calls)
    assert calls.numbers == [number]


def test_every_rule_is_broken_above() -> None:
    assert set(BOOK) - {rule.number for rule in ASKED} == {number for number, _ in BREACHES}


def between_two_pages(calls: Calls) -> None:
    calls.page("b", next_token="1")
    calls.create()
    calls.page("b", token="1", next_token="2")
    calls.page("c", token="2")


def two_callers_walk_at_once(calls: Calls) -> None:
    """The one behind asks for a page that the one ahead had long before."""
    calls.page("a", next_token="1")
    calls.page("a", next_token="1")
    calls.page("b", token="1", next_token="2")
    calls.page("c", token="2", next_token="3")
    calls.page("b", token="1", next_token="2")
    calls.page("d", token="3")


def a_page_asked_for_again(calls: Calls) -> None:
    calls.page("a", next_token="1")
    for _ in range(2):
        calls.page("b", token="1", next_token="2")
    calls.page("c", token="2")


def source_in_the_drivers_spelling(calls: Calls) -> None:
    calls.create(
        {"content_source": {"snapshot": {"snapshot_id": "s"}}},
        volume_content_source={"snapshot": {"snapshot_id": "crn:v1:s"}},
    )


def published_nodes_without_a_list(calls: Calls) -> None:
    calls.offers(Controller.LIST_VOLUMES_PUBLISHED_NODES, Controller.PUBLISH_UNPUBLISH_VOLUME)


def not_found_for_an_account(calls: Calls) -> None:
    """The volume is there, and DeleteVolume goes through later."""
    calls.create()
    calls.delete(no(Code.NOT_FOUND, "get account info: not found"))
    calls.delete()


def fails_to_renew(calls: Calls) -> None:
    calls.watcher.republishes = lambda: True
    calls.mount(target=MOUNTED)
    calls.mount(no(Code.INTERNAL, "the vault is down"), target=MOUNTED)


RIGHT: tuple[Callable[[Calls], None], ...] = (
    between_two_pages,
    two_callers_walk_at_once,
    a_page_asked_for_again,
    source_in_the_drivers_spelling,
    published_nodes_without_a_list,
    not_found_for_an_account,
    fails_to_renew,
    lambda calls: calls.offers(Controller.CLONE_VOLUME),
    lambda calls: calls.node(accessible_topology={"segments": {"zone": ""}}),
    lambda calls: calls.call(Driver.node_get_volume_stats, STATS, None),
)


@each_row("right", RIGHT, ids=[str(number) for number in range(len(RIGHT))])
def test_what_the_specification_allows_is_no_breach(right: Callable[[Calls], None]) -> None:
    """Real drivers do each of these."""
    calls = Calls()
    right(calls)
    assert calls.numbers == []


def a_life(calls: Calls) -> None:
    """A volume's life with a good driver; each call is made twice, as after a lost answer."""
    steps: tuple[Callable[[], None], ...] = (
        calls.info,
        lambda: calls.services(Service.CONTROLLER_SERVICE, Service.VOLUME_ACCESSIBILITY_CONSTRAINTS),
        lambda: calls.offers(
            Controller.CREATE_DELETE_VOLUME, Controller.PUBLISH_UNPUBLISH_VOLUME, Controller.CREATE_DELETE_SNAPSHOT
        ),
        lambda: calls.node(accessible_topology=ZONE_A),
        lambda: calls.create(
            {"accessible_topology": [ZONE_A]}, accessibility_requirements={"requisite": [ZONE_A, ZONE_B]}
        ),
        lambda: calls.attach({"device": "1"}),
        calls.stage,
        lambda: calls.mount(target=MOUNTED),
        calls.snap,
        lambda: calls.unmount(target=Place("")),
        lambda: calls.unstage(staging=Place("folder")),
        calls.detach,
        lambda: calls.attach({"device": "2"}),
        calls.detach,
        calls.delete,
    )
    for step in steps:
        step()
        step()


def test_a_good_drivers_life_breaks_no_rule() -> None:
    calls = Calls()
    a_life(calls)
    calls.create({"volume_id": "id-new"})  # the name is free again
    assert calls.numbers == []


def test_a_breach_is_told_once_for_each_call_and_place() -> None:
    calls = Calls()
    for where in ("n1", "n1", "n2"):
        calls.call(Driver.node_get_info, csi.NodeGetInfoRequest(), None, where)
    assert [(breach.rule.number, breach.where) for breach in calls.breaches] == [("CSI111", "n1"), ("CSI111", "n2")]


def test_calls_that_got_in_each_others_way_are_not_compared() -> None:
    calls = Calls()
    calls.create()
    request = csi.CreateVolumeRequest(name="a", capacity_range={"required_bytes": GIB}, volume_capabilities=[WRITER])
    first, second = (
        calls.watcher.began(Driver.create_volume, request),
        calls.watcher.began(Driver.create_volume, request),
    )
    calls.watcher.ended(first, None, no(Code.INTERNAL))
    calls.watcher.ended(second, csi.CreateVolumeResponse(volume={"volume_id": "id-other", "capacity_bytes": GIB}), None)
    assert calls.numbers == []


def test_after_an_open_end_nothing_is_held_against_the_driver() -> None:
    calls = Calls()
    calls.attach({"device": "1"})
    calls.watcher.forgot(
        calls.watcher.began(Driver.controller_unpublish_volume, csi.ControllerUnpublishVolumeRequest(volume_id="id-a"))
    )
    calls.attach({"device": "2"})
    assert calls.numbers == []


def test_an_error_without_a_code_is_told_with_the_usual_cause_in_go_and_in_python() -> None:
    calls = Calls()
    calls.create(no(Code.UNKNOWN, "disk full"))
    [breach] = calls.breaches
    _, mend = breach.advice
    wanted = ("`return nil, err`", "status.Error(codes.", "exception", "context.abort(StatusCode.")
    assert [] == [text for text in wanted if text not in mend]


def test_aborted_again_and_again_is_held_against_a_driver_after_three_seconds() -> None:
    """It may still be at work on a call that its caller has given up, and as slow as the machine is busy."""
    calls = Calls()
    calls.at_s = 0.0
    for calls.at_s in (0.0, 0.05, 0.25, 0.75, 1.75):
        calls.create(no(Code.ABORTED))
    assert [] == calls.numbers
    calls.at_s = 3.75
    calls.create(no(Code.ABORTED))
    assert ["CSI705"] == calls.numbers


@each_row(("ran_s", "numbers"), [(10.0, ["CSI704"]), (3.0, [])], ids=["ran", "starved"])
def test_a_deadline_is_held_against_a_driver_where_its_caller_ran_meanwhile(ran_s: float, numbers: list[str]) -> None:
    calls = Calls()
    calls.at_s = 0.0
    request = csi.DeleteVolumeRequest(volume_id="id-a")
    number = calls.watcher.began(Driver.delete_volume, request)
    calls.at_s = ran_s
    calls.watcher.ended(number, None, no(Code.DEADLINE_EXCEEDED, DEADLINE_TEXT), limit_s=10.0)
    assert numbers == calls.numbers


def test_no_secret_stands_in_what_is_found() -> None:
    calls = Calls()
    calls.create(no(Code.UNKNOWN, "failed with s3cr3t-word"), secrets={"password": "s3cr3t-word"})
    assert calls.numbers == ["CSI701", "CSI702"]
    assert [breach for breach in calls.breaches if "s3cr3t" in breach.line] == []


HEADINGS = Path(__file__).parents[2] / "csi" / "data" / "csi-1.12.0.headings"


def test_every_rule_names_its_section_of_the_specification() -> None:
    assert {rule.place for rule in BOOK.values()} <= set(HEADINGS.read_text().split())


def test_every_rule_says_the_sentence_on_which_it_rests_with_its_keyword() -> None:
    assert [] == [number for number, rule in BOOK.items() if ("MUST" in rule.asks) is ("SHOULD" in rule.asks)]


def test_a_should_and_a_must_that_real_drivers_break_are_warnings() -> None:
    warnings = {number for number, rule in BOOK.items() if rule.is_warning}
    assert {"CSI307", "CSI519", "CSI701", "CSI704"} <= warnings, "CSI says SHOULD, or leaves it open"
    assert {"CSI112", "CSI203", "CSI515", "CSI705"} <= warnings, "real drivers break them, and work"
    assert not warnings & {"CSI201", "CSI208", "CSI304", "CSI511", "CSI516", "CSI525", "CSI708"}


def test_a_warning_says_that_it_is_one() -> None:
    calls = Calls()
    calls.create(no(Code.UNKNOWN, "no"))
    calls.create(no(Code.INTERNAL, ""))
    assert [breach.line for breach in calls.breaches] == [
        "CSI701 (warning) CreateVolume of volume name 'a': rpc error: code = Unknown desc = no",
        "CSI708 CreateVolume of volume name 'a': rpc error: code = Internal desc = ",
    ]
    assert headline(calls.breaches) == "The driver broke 1 rule of CSI, with 1 warning:"


def test_a_repeated_call_that_mounts_nothing_new_is_the_same_breach() -> None:
    """The first one mounted elsewhere, where the second finds its mount; also when nobody saw how the first one
    ended.
    """
    calls = Calls()
    calls.create()
    calls.mount(target=Place("folder", elsewhere=("/mnt/a",)))
    calls.mount(target=Place("folder"))
    assert calls.numbers == ["CSI512"]


def test_not_found_is_right_where_the_volume_or_the_node_is_gone() -> None:
    calls = Calls()
    calls.node("n2", "n2")
    calls.create()
    calls.attach()
    calls.detach(no(Code.NOT_FOUND))  # nothing says that n1 is a node
    calls.node()
    calls.delete()
    calls.detach(no(Code.NOT_FOUND))
    assert calls.numbers == []


def test_another_fault_on_a_missing_target_is_not_the_targets() -> None:
    calls = Calls()
    calls.mount(no(Code.INTERNAL, "no room"), target=Place(""))
    calls.mount(no(Code.INTERNAL, "/dev/sdb: no such file or directory"), target=Place("folder"))
    calls.mount(no(Code.INTERNAL, "/dev/sdb: no such file or directory"))  # nobody sees the path
    assert calls.numbers == []


def test_a_volume_in_another_place_is_told_with_the_places_and_the_strange_key() -> None:
    calls = Calls()
    many = [{"segments": {"zone": str(number)}} for number in range(5)]
    calls.create({"accessible_topology": [{"segments": {"rack": "7"}}]}, accessibility_requirements={"requisite": many})
    calls.create({"accessible_topology": [ZONE_A]}, "b", accessibility_requirements={"requisite": [ZONE_B]})
    (first,) = calls.breaches
    assert first.found == (
        "it is in rack=7, and the requisite topologies are zone=0 or zone=1 or zone=2 and 2 more"
        "; they have no key rack: NodeGetInfo and CreateVolume must use the same keys"
    )


def test_a_breach_names_the_node_before_what_was_found() -> None:
    calls = Calls()
    calls.unmount(target=MOUNTED)
    assert calls.breaches[0].line == f"CSI525 NodeUnpublishVolume of volume 'id-a' on n1: {PATH} is still mounted"


def test_a_negative_size_breaks_one_rule() -> None:
    calls = Calls()
    calls.create({"capacity_bytes": -1})
    assert calls.numbers == ["CSI113"]
