"""What is on a path, by the mount table and the folder above."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mooring.conform.book.exchange import Place
from mooring.conform.watched import Sight
from mooring.mounts.mountinfo import MountTable, parse
from tests.support.rows import each_row

LINE = "36 35 98:0 / {point} {options} - {fs_type} /dev/sda1 {super_options}"


def seen(path: Path, *, before: Mapping[str, int] | None = None, **mounts: str) -> Place:
    """mounts: by their points below the path's folder, `options fs_type super_options`."""
    lines = []
    for name, text in mounts.items():
        options, fs_type, super_options = text.split()
        lines.append(
            LINE.format(point=path.parent / name, options=options, fs_type=fs_type, super_options=super_options)
        )
    return Sight(lambda: MountTable(parse("\n".join(lines)))).at(str(path), before or {})


@each_row(
    ("mount", "place"),
    [
        ("rw,noatime ext4 rw", Place("folder", is_mount=True)),
        ("ro ext4 rw", Place("folder", is_mount=True, readonly=True)),
        ("rw ext4 ro", Place("folder", is_mount=True, readonly=True)),
        ("rw devtmpfs rw", Place("device", is_mount=True)),
    ],
)
def test_a_mount_is_seen_as_the_table_has_it(tmp_path: Path, mount: str, place: Place) -> None:
    (tmp_path / "target").mkdir()
    assert seen(tmp_path / "target", target=mount) == place


def test_a_file_below_a_mount_is_told_from_a_folder(tmp_path: Path) -> None:
    (tmp_path / "target").touch()
    assert seen(tmp_path / "target", target="rw ext4 rw") == Place("file", is_mount=True)


def test_what_is_no_mount_is_a_folder_a_file_or_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    assert [seen(tmp_path / name) for name in ("folder", "file", "nothing")] == [
        Place("folder"),
        Place("file"),
        Place(""),
    ]


def test_mounts_that_came_elsewhere_are_named_without_those_that_were_there(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    before = {str(tmp_path / "old"): 1}
    place = seen(tmp_path / "target", before=before, old="rw ext4 rw", new="rw ext4 rw")
    assert place == Place("folder", elsewhere=(str(tmp_path / "new"),))


def test_a_second_mount_on_the_path_covers_the_first(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    point = tmp_path / "target"
    line = LINE.format(point=point, options="rw", fs_type="ext4", super_options="rw")
    sight = Sight(lambda: MountTable(parse(f"{line}\n{line}")))
    assert [sight.at(str(point), before).covers for before in ({}, {str(point): 1}, {str(point): 2})] == [
        False,
        True,
        False,
    ]


def test_links_above_the_path_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "target").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    table = MountTable(
        parse(LINE.format(point=tmp_path / "real" / "target", options="rw", fs_type="ext4", super_options="rw"))
    )
    assert Sight(lambda: table).at(str(tmp_path / "link" / "target"), {}).is_mount


def test_the_mounts_of_this_machine_are_read() -> None:
    assert "/" in Sight().points()
