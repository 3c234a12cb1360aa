"""vol_data.json: the kubelet's bytes, whatever else may lie in its place, and no half of one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from mooring.node.layout import KubeletLayout
from mooring.node.volumes.state import folders
from tests.support.rows import each_row

STAGED = folders.staging_record("csi.test", "h")


@each_row(
    ("record", "text"),
    [
        (STAGED, '{"driverName":"csi.test","volumeHandle":"h"}\n'),
        (
            folders.publish_record("d", "h", spec_name="pv", node="n", attachment="csi-1", mode=folders.PERSISTENT),
            '{"attachmentID":"csi-1","driverName":"d","nodeName":"n","specVolID":"pv","volumeHandle":"h",'
            '"volumeLifecycleMode":"Persistent"}\n',
        ),
        (
            folders.publish_record("d", "h", spec_name="pv", node="n", attachment="csi-1", mode=""),
            '{"attachmentID":"csi-1","driverName":"d","nodeName":"n","specVolID":"pv","volumeHandle":"h"}\n',
        ),
        (
            folders.staging_record("d", '<a>&"\\\n\u2028\u2029ä\x7f'),
            '{"driverName":"d","volumeHandle":"\\u003ca\\u003e\\u0026\\"\\\\\\n\\u2028\\u2029ä\x7f"}\n',
        ),
    ],
)
def test_the_bytes_are_those_that_go_writes(record: dict[str, str], text: str) -> None:
    assert text.encode() == folders.encoded(record)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    folders.write_record(tmp_path, STAGED)
    assert STAGED == folders.read_record(tmp_path)
    assert [folders.RECORD] == os.listdir(tmp_path)


def test_a_missing_record_or_folder_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert (None, None, None) == (
        folders.read_record(tmp_path),
        folders.read_record(tmp_path / "no"),
        folders.read_record(tmp_path / "file"),
    )


@each_row(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"driverName":"d"}',
        b'{"driverName":"d","volumeHandle":""}',
        b'{"driverName":"d","volumeHandle":1}',
        b"[" * 100_000,
        b'{"driverName":"d","volumeHandle":"' + b"h" * (1 << 20) + b'"}',
    ],
    ids=["empty", "half", "list", "null", "not-utf8", "no-handle", "empty-handle", "number", "deep", "long"],
)
def test_a_broken_record_is_said_to_be_and_left_alone(tmp_path: Path, text: bytes) -> None:
    (tmp_path / folders.RECORD).write_bytes(text)
    with pytest.raises(folders.BadRecord, match=folders.RECORD):
        folders.read_record(tmp_path)
    assert text == (tmp_path / folders.RECORD).read_bytes()


@each_row("kind", ["link", "loop", "folder", "pipe"])
def test_what_is_no_file_is_not_followed_and_not_waited_for(tmp_path: Path, kind: str) -> None:
    path = tmp_path / folders.RECORD
    (tmp_path / "elsewhere").write_bytes(folders.encoded(STAGED))
    match kind:
        case "link":
            path.symlink_to("elsewhere")
        case "loop":
            path.symlink_to(path)
        case "folder":
            path.mkdir()
        case _:
            os.mkfifo(path)
    with pytest.raises(folders.BadRecord, match="not a regular file"):
        folders.read_record(tmp_path)


def test_a_link_in_the_place_of_the_temporary_file_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / f".{folders.RECORD}.tmp").symlink_to("precious")
    with pytest.raises(OSError, match="symbolic"):
        folders.write_record(tmp_path, STAGED)
    assert "precious" == (tmp_path / "precious").read_text()


def test_a_link_in_the_place_of_the_record_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / folders.RECORD).symlink_to("precious")
    folders.write_record(tmp_path, STAGED)
    assert ("precious", STAGED) == ((tmp_path / "precious").read_text(), folders.read_record(tmp_path))


@each_row("fails", ["fsync", "rename"])
def test_a_write_that_fails_leaves_the_old_record_and_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    folders.write_record(tmp_path, STAGED)

    def full(*_: object) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(os, fails, full)
    with pytest.raises(OSError, match="no space"):
        folders.write_record(tmp_path, folders.staging_record("d", "other"))
    assert (STAGED, [folders.RECORD]) == (folders.read_record(tmp_path), os.listdir(tmp_path))


def test_the_old_record_is_there_until_the_new_one_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash at any point leaves the one or the other."""
    folders.write_record(tmp_path, STAGED)
    seen = []
    sync = os.fsync

    def watched(descriptor: int) -> None:
        seen.append((folders.read_record(tmp_path) or {})["volumeHandle"])
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    folders.write_record(tmp_path, folders.staging_record("d", "new"))
    assert ["h", "new", "new"] == seen  # the file, its folder, the folder above


def test_remove_also_takes_what_a_crash_left(tmp_path: Path) -> None:
    folders.write_record(tmp_path, STAGED)
    (tmp_path / f".{folders.RECORD}.tmp").touch()
    folders.remove_record(tmp_path)
    folders.remove_record(tmp_path)
    assert [] == os.listdir(tmp_path)


@pytest.mark.usefixtures("kubelets_umask")
def test_folders_are_made_for_the_owner_and_his_group_alone(tmp_path: Path) -> None:
    """Each of them, as by a kubelet; one that was there keeps its mode."""
    layout = KubeletLayout(tmp_path / "root")
    (tmp_path / "root" / "pods").mkdir(parents=True, mode=0o755)
    made = [layout.target("uid", "pv"), layout.staging("d1", "v"), layout.block_staging("pv")]
    for folder in made:
        folders.make_folders(folder)
        folders.make_folders(folder)
        for one in folder.relative_to(tmp_path / "root" / "pods" if "pods" in folder.parts else tmp_path).parents:
            path = tmp_path / "root" / "pods" / one if "pods" in folder.parts else tmp_path / one
            if path not in (tmp_path, tmp_path / "root", tmp_path / "root" / "pods"):
                assert 0o750 == stat.S_IMODE(path.stat().st_mode), path
    assert 0o755 == stat.S_IMODE((tmp_path / "root" / "pods").stat().st_mode)
