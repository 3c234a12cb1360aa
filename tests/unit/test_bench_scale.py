"""The cluster of the bench of large clusters is one that controllers find in order, and its meter and its curves tell
the truth.
"""

from __future__ import annotations

import functools
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from bench.scale.curves import picture
from bench.scale.lived import DRIVER, MANAGED_BYTES, Size, handle_of, pages, stored
from bench.scale.report import table
from bench.scale.rest import LASTS_S, SAMPLE_S, SHARE, rested_at
from bench.scale.rounds import Run
from bench.scale.turns import longest_s, read
from mooring.api.core import NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.meta import Kind
from mooring.api.pods import PODS
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.api.volume_names import attachment_name, unique_name
from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.local import LocalCluster
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time

ROOT = Path(__file__).resolve().parents[2]
SIZE = Size(200, 4)


@functools.cache
def there() -> list[tuple[str, dict[str, Any]]]:
    """The keys and objects, which no test changes."""
    return list(stored(SIZE))


def of(kind: str) -> list[dict[str, Any]]:
    return [found for _, found in there() if found["kind"] == kind]


def test_there_are_as_many_objects_as_it_says_and_no_two_in_one_place() -> None:
    keys = [key for key, _ in there()]
    assert SIZE.objects == len(keys) == len(set(keys))
    uids = [found["metadata"]["uid"] for _, found in there()]
    assert len(uids) == len(set(uids))
    assert [(key.encode(), json.loads(json.dumps(found))) for key, found in there()] == [
        (key, json.loads(body)) for page in pages(SIZE, 10_000) for key, body in page
    ]


@each_row("kind", ["Node", "PersistentVolume", "PersistentVolumeClaim", "VolumeAttachment", "Pod", "VolumeSnapshot"])
def test_managed_fields_are_as_large_as_in_a_cluster_that_has_lived(kind: str) -> None:
    sizes = [len(json.dumps(found["metadata"]["managedFields"])) for found in of(kind)]
    assert 0.75 * MANAGED_BYTES < sum(sizes) / len(sizes) < 1.25 * MANAGED_BYTES


def test_every_attachment_is_wanted_and_reported() -> None:
    claims = {
        (found["metadata"]["namespace"], found["metadata"]["name"]): found["spec"]["volumeName"]
        for found in of("PersistentVolumeClaim")
    }
    volumes = {found["metadata"]["name"]: found["spec"] for found in of("PersistentVolume")}
    wanted = set()
    for pod in of("Pod"):
        for one in pod["spec"]["volumes"]:
            if "persistentVolumeClaim" in one:
                volume = claims[pod["metadata"]["namespace"], one["persistentVolumeClaim"]["claimName"]]
                wanted.add((volume, pod["spec"]["nodeName"]))
    attached = {
        (found["spec"]["source"]["persistentVolumeName"], found["spec"]["nodeName"]) for found in of("VolumeAttachment")
    }
    assert wanted == attached
    names = {attachment_name(DRIVER, volumes[volume]["csi"]["volumeHandle"], node) for volume, node in attached}
    assert names == {found["metadata"]["name"] for found in of("VolumeAttachment")}
    for node in of("Node"):
        here = sorted(
            unique_name(DRIVER, handle_of(volume)) for volume, name in attached if name == node["metadata"]["name"]
        )
        assert here == node["status"]["volumesInUse"] == [one["name"] for one in node["status"]["volumesAttached"]]


def test_every_claim_and_every_snapshot_is_bound_to_one_that_says_the_same() -> None:
    claims = {found["metadata"]["uid"]: found for found in of("PersistentVolumeClaim")}
    for volume in of("PersistentVolume"):
        assert claims[volume["spec"]["claimRef"]["uid"]]["spec"]["volumeName"] == volume["metadata"]["name"]
    contents = {found["metadata"]["name"]: found for found in of("VolumeSnapshotContent")}
    for snapshot in of("VolumeSnapshot"):
        content = contents[snapshot["status"]["boundVolumeSnapshotContentName"]]
        assert content["spec"]["volumeSnapshotRef"]["uid"] == snapshot["metadata"]["uid"]


@in_virtual_time
async def test_the_objects_are_such_as_an_api_server_takes() -> None:
    clock, randomness = LoopClock(), Random(1)
    cluster = LocalCluster(new_store(randomness, clock.wall_s()), clock=clock, randomness=randomness)
    kinds: list[Kind[Any]] = [NODES, PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS, VOLUME_ATTACHMENTS, PODS]
    by_name = {kind.name: kind for kind in kinds}
    for name in [f"team-{number}" for number in range(40)]:
        await cluster.create(NAMESPACES.whole(), {"metadata": {"name": name}})
    for _, found in stored(SIZE):
        if (kind := by_name.get(found["kind"])) is not None:
            meta = {
                key: value
                for key, value in found["metadata"].items()
                if key not in ("uid", "managedFields", "creationTimestamp")
            }
            await cluster.create(kind.whole(), {**found, "metadata": meta}, found["metadata"].get("namespace", ""))


# -- the meter


def test_a_long_turn_is_told_with_its_moment_and_a_wait_is_none(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import asyncio, time\n"
        "async def main():\n"
        "    await asyncio.sleep(0.2)\n"
        "    end = time.thread_time() + 0.1\n"
        "    while time.thread_time() < end: pass\n"
        "    await asyncio.sleep(0)\n"
        "    print(time.monotonic())\n"
        "asyncio.run(main())\n"
    )
    file = tmp_path / "turns"
    told = subprocess.run(
        [sys.executable, "-m", "bench.scale.turns", file, program], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    turns = read(file)
    longest = longest_s(turns, 0, float("inf"))
    assert 0.1 <= longest < 0.2
    assert 0 == longest_s(turns, float(told) + 1, float("inf"))
    assert longest == longest_s(turns, float(told) - 5, float(told) + 1)


# -- the curves


def test_the_curves_show_each_contender_at_each_size() -> None:
    def run(contender: str, volumes: int, cost: float) -> dict[str, Any]:
        latencies = {"pod → volume reported as attached": [cost], "claim → bound": [cost]}
        costs = {"start_cpu_s": {"a": cost}, "rss_mib": {"a": cost, "b": cost}, "churn_cpu_s": {"a": cost}}
        return {"contender": contender, "volumes": volumes, "settled_s": cost, "latencies": latencies, **costs}

    drawn = picture([run("Go", 1000, 1.0), run("Go", 10_000, 10.0), run("Go", 10_000, 12.0), run("Mooring", 1000, 2.0)])
    root = ElementTree.fromstring(drawn)
    lines = [one.attrib["points"] for one in root.iter("{http://www.w3.org/2000/svg}polyline")]
    assert [2, 1] * 6 == [len(line.split()) for line in lines]
    texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "Mooring" in texts
    assert "Mooring, one process" not in texts


# -- what the docs say


def measured(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (ROOT / "bench/scale" / name).read_text().splitlines()]


def test_the_picture_in_the_docs_is_that_of_the_figures_that_were_kept() -> None:
    assert picture(measured("measured.jsonl")) == (ROOT / "bench/scale/scale.svg").read_text()


@each_row(
    ("name", "volumes", "rounds"),
    [
        ("measured.jsonl", 1000, [3, 3, 3]),
        ("measured.jsonl", 10_000, [3, 3, 3]),
        ("measured-embedded.jsonl", 30_000, [1, 1, 1]),
    ],
)
def test_the_tables_in_the_docs_are_those_of_the_figures_that_were_kept(
    name: str, volumes: int, rounds: list[int]
) -> None:
    runs: dict[str, list[Run]] = {}
    for line in measured(name):
        if line["volumes"] == volumes:
            fields = {field: value for field, value in line.items() if field not in ("volumes", "server", "contender")}
            runs.setdefault(line["contender"], []).append(Run(**fields))
    assert rounds == [len(found) for found in runs.values()]
    rows = [
        row
        for row in table(volumes, runs).splitlines()
        if row.startswith("|") and "nan" not in row and "| - |" not in row
    ]
    told = (ROOT / "bench/SCALE.md").read_text().splitlines()
    assert [] == [row for row in rows if row not in told]


# -- rest


def samples_of(loads: list[float]) -> list[tuple[float, float]]:
    """loads: processors busy in each quarter of a second, from the moment 100 on."""
    return [(100.0 + number * SAMPLE_S, SAMPLE_S * math.fsum(loads[:number])) for number in range(len(loads) + 1)]


WORK, CALM = [2.0] * 40, [0.0] * 20


@each_row(
    ("loads", "rested"),
    [
        ([*WORK, *CALM], 110.0),
        ([*WORK, *CALM[1:]], None),
        ([*WORK, *CALM, 1.0, *CALM], 115.25),
        ([*WORK, *([0.2, 0.5, 0.3, 0.5] * 5)], 110.0),
        ([*WORK, *([0.2, 0.5, 0.3, 0.5] * 5), 2.0, 2.0, 2.0, *([0.3] * 3)], None),
        (CALM, 100.0),
        (CALM[1:], None),
        ([], None),
    ],
    ids=[
        "idle",
        "not for long enough",
        "woken once more",
        "polls",
        "polls, and has work",
        "from the start on",
        "just begun",
        "nothing yet",
    ],
)
def test_rest_is_a_level_that_stays_whatever_its_height(loads: list[float], rested: float | None) -> None:
    assert rested == rested_at(samples_of(loads), programs=1)


def test_programs_that_never_poll_are_at_work_while_they_take_a_level_that_stays() -> None:
    busy = [1.0] * (2 * len(CALM))
    assert rested_at(samples_of([*WORK, *busy]), programs=1) is not None
    assert rested_at(samples_of([*WORK, *busy]), programs=1, polls=False) is None
    assert rested_at(samples_of([*WORK, *busy, *CALM]), programs=1, polls=False) == 100.0 + SAMPLE_S * len(
        [*WORK, *busy]
    )


def test_what_several_programs_take_beside_their_work_is_rest() -> None:
    loads = [*WORK, *([0.0, 0.0, 0.0, 0.0, 11 * SHARE, 0.0, 0.0, 0.0] * 3)]
    assert rested_at(samples_of(loads), programs=3) == 110.0
    assert rested_at(samples_of(loads), programs=2) is None
    assert LASTS_S == SAMPLE_S * len(CALM)
