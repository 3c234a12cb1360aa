"""Two nodes share a machine, its mount table and a volume: each leaves alone."""

from __future__ import annotations

from pathlib import Path

from mooring.mounts.mountinfo import MountTable, parse
from mooring.node.layout import KubeletLayout
from mooring.node.volumes.state.folders import VolumeFiles
from tests.support.rows import each_row

OURS, THEIRS = KubeletLayout(Path("/srv/nodes/ours")), KubeletLayout(Path("/srv/nodes/theirs"))


def references(*points: Path) -> tuple[str, ...]:
    """What keeps our node from unstaging a folder that is mounted on its staging path, and on these."""
    staging = OURS.staging("d1", "vol-1")
    lines = ["25 1 253:0 / / rw - ext4 /dev/vda1 rw"]
    lines += [
        f"{number} 25 253:0 /data/vol-1 {point} rw - ext4 /dev/vda1 rw"
        for number, point in enumerate((staging, *points), 30)
    ]
    return VolumeFiles(OURS, lambda: MountTable(parse("\n".join(lines)))).foreign_references(staging, OURS.root)


def test_what_another_node_has_of_a_volume_is_its_own_affair() -> None:
    assert () == references(
        THEIRS.staging("d1", "vol-1"),
        THEIRS.target("pod-uid", "pv-1"),
        THEIRS.sub_paths("pod-uid", "pv-1") / "container" / "0",
    )


@each_row(
    "point", [OURS.target("pod-uid", "pv-1"), OURS.sub_paths("pod-uid", "pv-1") / "container" / "0", Path("/mnt/mine")]
)
def test_what_a_pod_of_this_node_has_and_what_people_have_holds_it(point: Path) -> None:
    assert (str(point),) == references(THEIRS.target("pod-uid", "pv-1"), point)
