"""The file of the objects: what is committed comes back, whatever happens to the file; and the file does not grow for
ever.
"""

from __future__ import annotations

import random
import re
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.apiserver.disk import file as durable
from mooring.apiserver.disk.file import JUMP, ObjectFile
from mooring.apiserver.disk.rows import Damaged, DiskRow, Saved, StorageFailed
from tests.support.rows import each_row

Objects = dict[tuple[str, str, str], DiskRow]


def an_entry(version: int, name: str = "pv", body: bytes | None = b"{}", kind: str = "/persistentvolumes") -> DiskRow:
    return DiskRow(kind, "", name, version, 1.5 * version, body)


def opened(path: Path, **options: int | bool) -> ObjectFile:
    if not path.exists():
        durable.create(path, 1)
    return ObjectFile(path, durable.read(path), **options)  # type: ignore[arg-type]


def result_of(saved: Saved) -> Objects:
    """The objects after the log."""
    found = {entry.key: entry for entry in saved.objects}
    for entry in saved.log:
        if entry.body is None:
            del found[entry.key]
        else:
            found[entry.key] = entry
    return found


class Load:
    """Random commits on few names, and what must be there after each."""

    def __init__(self, file: ObjectFile, seed: int = 1, size: int = 60) -> None:
        self.states: dict[int, Objects] = {file.version: {}}
        self._file, self._random, self._size = file, random.Random(seed), size

    def commit(self, changes: int, names: int = 40) -> None:
        objects, version, entries = dict(self.states[self._file.version]), self._file.version, []
        for _ in range(changes):
            version += 1
            name = f"pv-{self._random.randrange(names)}"
            is_removed = ("/persistentvolumes", "", name) in objects and self._random.random() < 0.3
            body = None if is_removed else self._random.randbytes(self._random.randrange(self._size))
            entries.append(an_entry(version, name, body))
            if is_removed:
                del objects[entries[-1].key]
            else:
                objects[entries[-1].key] = entries[-1]
        self._file.append(entries)
        self.states[version] = objects


def test_what_is_committed_comes_back_as_it_was(tmp_path: Path) -> None:
    file = opened(tmp_path / "o.db")
    file.append([an_entry(2, "a", b'{"a":1}'), an_entry(3, "b", b"\x00\xff"), an_entry(4, "a", None)])
    file.append([an_entry(5, "\N{SNOWMAN}")])
    file.close()
    saved = durable.read(tmp_path / "o.db")
    assert 5 == saved.version
    assert [
        an_entry(2, "a", b'{"a":1}'),
        an_entry(3, "b", b"\x00\xff"),
        an_entry(4, "a", None),
        an_entry(5, "\N{SNOWMAN}"),
    ] == [*saved.log]
    assert 0o600 == (tmp_path / "o.db").stat().st_mode & 0o777


@each_row("seed", range(3))
def test_folding_changes_where_things_are_and_not_what_they_are(tmp_path: Path, seed: int) -> None:
    file = opened(tmp_path / "o.db", log_changes_max=100)
    load, randomness = Load(file, seed), random.Random(seed)
    for _ in range(60):
        load.commit(randomness.randrange(1, 30))
        if file.is_long or randomness.random() < 0.1:
            file.fold(randomness.randrange(1, 60))
        if randomness.random() < 0.1:
            file.close()
            file = load._file = opened(tmp_path / "o.db", log_changes_max=100)
        saved = durable.read(tmp_path / "o.db")
        assert file.version == saved.version
        assert load.states[file.version] == result_of(saved)
        assert load.states[saved.totals.version] == {entry.key: entry for entry in saved.objects}
    file.close()


@pytest.mark.long
@pytest.mark.slow
def test_neither_the_file_nor_its_journal_grow_with_the_writes(tmp_path: Path) -> None:
    """Weeks of leases: the same few objects, again and again; and once many objects that go again."""
    file = opened(tmp_path / "o.db")
    load = Load(file, size=4000)
    sizes: list[int] = []
    for turn in range(1500):
        load.commit(64, names=2000 if 200 < turn < 400 else 50)
        del load.states[min(load.states)]
        if file.is_long:
            file.fold()
        sizes.append(sum(each.stat().st_size for each in tmp_path.iterdir()))
    file.close()
    assert max(sizes[-300:]) < max(sizes[600:900]) * 1.05
    assert max(sizes) < 80_000_000, "192 MB were written"


@pytest.mark.slow
def test_free_pages_go_back_to_the_file_system(tmp_path: Path) -> None:
    file = opened(tmp_path / "o.db", log_changes_max=10)
    names = [f"pv-{number}" for number in range(1500)]
    file.append([an_entry(2 + number, name, bytes(8000)) for number, name in enumerate(names)])
    while file.is_long:
        file.fold()
    file.append([an_entry(file.version + 1 + number, name, None) for number, name in enumerate(names)])
    for _ in range(40):
        file.fold()
        file.append([an_entry(file.version + 1)])
    file.close()
    assert (tmp_path / "o.db").stat().st_size < 6_000_000, "12 MB of objects have gone"


def test_versions_jump_beyond_all_that_was_shown(tmp_path: Path) -> None:
    file = opened(tmp_path / "o.db")
    Load(file).commit(20)
    before = result_of(durable.read(tmp_path / "o.db"))
    file.jump()
    assert 21 + JUMP == file.version
    file.jump(beyond=9 * JUMP)
    file.append([an_entry(9 * JUMP + 1, "x")])
    file.close()
    saved = durable.read(tmp_path / "o.db")
    assert (9 * JUMP, 9 * JUMP + 1) == (saved.totals.version, saved.version)
    assert {**before, an_entry(1, "x").key: saved.log[0]} == result_of(saved)


def test_a_file_written_without_waiting_for_the_disk_says_so_until_it_is_closed(tmp_path: Path) -> None:
    file = opened(tmp_path / "o.db", careful=False)
    file.append([an_entry(2)])
    assert durable.read(tmp_path / "o.db").totals.careless
    file.close()
    assert not durable.read(tmp_path / "o.db").totals.careless


def test_versions_jump_once_for_a_careless_run_that_was_not_closed(tmp_path: Path) -> None:
    """Whoever opens the file next knows all that is in it, also when it is killed in turn."""
    opened(tmp_path / "o.db", careful=False).abandon()
    file = ObjectFile(tmp_path / "o.db", durable.read(tmp_path / "o.db"))
    file.jump()
    file.abandon()
    assert not durable.read(tmp_path / "o.db").totals.careless
    careless = ObjectFile(tmp_path / "o.db", durable.read(tmp_path / "o.db"), careful=False)
    careless.jump()
    careless.abandon()
    assert durable.read(tmp_path / "o.db").totals.careless, "this run is one itself"


# -- refusals


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir() if not each.name.endswith("-shm")}


@pytest.fixture
def torn(tmp_path: Path) -> tuple[Path, dict[int, Objects]]:
    """A file as a kill leaves it: much of it in the journal; and what was there after each commit."""
    (tmp_path / "whole").mkdir()
    file = opened(tmp_path / "whole" / "o.db", log_changes_max=300)
    load = Load(file, size=400)
    for turn in range(60):
        load.commit(turn % 20 + 1)
        if file.is_long:
            file.fold()
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "whole", copy)
    (copy / "o.db-shm").rename(tmp_path / "index")
    file.close()
    return copy, load.states


def read_or_refusal(path: Path) -> tuple[Saved | None, str]:
    try:
        return durable.read(path), ""
    except Damaged as error:
        return None, str(error)


def broken_copies(folder: Path, name: str, count: int) -> Iterator[tuple[str, Path]]:
    """Copies with one file cut short, or with bytes changed, zeroed or left out."""
    randomness, whole = random.Random(5), (folder / name).read_bytes()
    places = [*range(0, 120, 7), *(randomness.randrange(len(whole)) for _ in range(count))]
    for place in places:
        other = bytes([whole[place] ^ (1 << randomness.randrange(8))])
        page = place - place % 4096
        for how, data in {
            f"cut at {place}": whole[:place],
            f"bit at {place}": whole[:place] + other + whole[place + 1 :],
            f"page at {page} zeroed": whole[:page] + bytes(4096) + whole[page + 4096 :],
            f"page at {page} swapped": whole[:page] + whole[-4096:] + whole[page + 4096 :],
        }.items():
            target = folder.parent / "broken"
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(folder, target)
            (target / name).write_bytes(data)
            yield how, target


@pytest.mark.slow
@pytest.mark.parametrize("name", ["o.db", "o.db-wal"])
def test_a_torn_file_gives_a_state_that_was_committed_or_is_refused(
    torn: tuple[Path, dict[int, Objects]], name: str
) -> None:
    folder, states = torn
    assert {"o.db", "o.db-wal"} == {each.name for each in folder.iterdir()}
    refused = 0
    for how, broken in broken_copies(folder, name, 60):
        before = bytes_of(broken)
        saved, refusal = read_or_refusal(broken / "o.db")
        if saved is not None:
            assert states[saved.version] == result_of(saved), how
        else:
            refused += 1
            assert "restore a backup" in refusal or "newer Mooring" in refusal, how
        assert before == bytes_of(broken), f"{how}: it was written to"
    assert refused > 10, "neither is a journal that has later commits behind its damage an unfinished write"


@each_row(
    ("place", "says"),
    [
        ((9, 0), "its frame 0, and later writes are behind it"),
        ((24 + 32, 0), "its frame 1, and later writes"),
        ((0, 0.5), r"its frame [0-9]+, and later writes"),
        ((-1, 1), ""),
    ],
)
def test_a_journal_with_commits_behind_its_damage_is_refused(
    torn: tuple[Path, dict[int, Objects]], tmp_path_factory: pytest.TempPathFactory, place: tuple[int, float], says: str
) -> None:
    """A bad sector is no unfinished write: SQLite would go on with older objects, and give versions out again."""
    folder, states = Path(shutil.copytree(torn[0], tmp_path_factory.mktemp("t") / "copy")), torn[1]
    journal = bytearray((folder / "o.db-wal").read_bytes())
    journal[int(place[0] + place[1] * len(journal))] ^= 1
    (folder / "o.db-wal").write_bytes(journal)
    saved, refusal = read_or_refusal(folder / "o.db")
    assert (saved is None) == bool(says), "the last write may be unfinished"
    assert re.search(says, refusal)
    copied = folder.parent / "saved.db"
    copied.touch()
    durable.copy(folder / "o.db", copied)
    rest = durable.read(copied)
    assert states[rest.version] == result_of(rest), "a backup has what can be read"


def test_a_journal_that_is_not_there_is_told_apart_from_damage(torn: tuple[Path, dict[int, Objects]]) -> None:
    folder, states = torn
    (folder / "o.db-wal").unlink()
    (folder / "o.db-shm").write_bytes((folder.parent / "index").read_bytes())
    says = read_or_refusal(folder / "o.db")[1]
    assert "o.db-wal' is not there, and with it the latest writes: put it back" in says
    for nothing in (b"", bytes(4096)):  # as others leave it who open the file for reading, or for themselves alone
        (folder / "o.db-shm").write_bytes(nothing)
        saved = durable.read(folder / "o.db")
        assert states[saved.version] == result_of(saved)
        (folder / "o.db-wal").unlink()
    with (folder / "o.db").open("r+b") as file:  # (as a kill in the middle of a checkpoint)
        file.seek(4096)
        file.write(bytes(100))
    (folder / "o.db-shm").unlink()
    says = read_or_refusal(folder / "o.db")[1]
    assert re.search("if '.*o.db-wal' was left out of a copy, put it back; else restore a backup", says)


@each_row("path", ["", "a b?c#d%20", "\udcff", "x/../y"])
def test_paths_have_any_form(tmp_path: Path, path: str) -> None:
    (tmp_path / "x").mkdir(exist_ok=True)
    folder = Path(f"/{tmp_path}/{path}")
    assert str(folder).startswith("//")
    folder.mkdir(exist_ok=True)
    durable.create(folder / "o.db", version=7)
    (folder / "copy.db").touch()
    durable.copy(folder / "o.db", folder / "copy.db")
    assert 7 == durable.read(folder / "copy.db").version


@each_row(
    ("sql", "says"),
    [
        ("DELETE FROM objects WHERE rowid = (SELECT max(rowid) FROM objects)", "objects are missing"),
        (
            "UPDATE objects SET body = x'00' WHERE rowid = (SELECT max(rowid) FROM objects)",
            "the checksum of /persistentvolumes",
        ),
        ("UPDATE totals SET version = version - 1", "the checksum of its totals"),
        ("DELETE FROM totals", "is damaged"),
        ("DELETE FROM log WHERE version = (SELECT min(version) FROM log)", "the log has nothing between"),
        (
            "UPDATE log SET first = first - 1 WHERE version = (SELECT min(version) FROM log)",
            "the log has nothing between",
        ),
        ("UPDATE log SET changes = x'90'", "the checksum of the log's row"),
        ("DROP TABLE log", "no such table: log"),
        ("PRAGMA user_version = 2", "written by a newer Mooring: its format is 2, this one reads up to 1"),
        ("PRAGMA user_version = 0", "has format 0"),
        ("PRAGMA application_id = 7", "a database of another program"),
    ],
)
def test_a_file_that_is_not_as_it_was_written_is_refused_and_left_alone(tmp_path: Path, sql: str, says: str) -> None:
    file = opened(tmp_path / "o.db", log_changes_max=25)
    load = Load(file)
    for _ in range(8):
        load.commit(10)
        if file.is_long:
            file.fold(10)
    file.close()
    database = sqlite3.connect(tmp_path / "o.db", isolation_level=None)
    database.execute(sql)
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    before = bytes_of(tmp_path)
    with pytest.raises(Damaged, match=says):
        durable.read(tmp_path / "o.db")
    assert before["o.db"] == bytes_of(tmp_path)["o.db"]


@each_row("data", [b"", b"{}", b"x" * 5000])
def test_what_is_no_database_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "o.db").write_bytes(data)
    with pytest.raises(Damaged, match="is no database: move it away, or restore a backup"):
        durable.read(tmp_path / "o.db")
    assert {"o.db": data} == bytes_of(tmp_path)


def test_a_log_row_that_turned_bad_stops_the_folding(tmp_path: Path) -> None:
    """What can't be vouched for is not folded into what can."""
    file = opened(tmp_path / "o.db")
    Load(file).commit(10)
    database = sqlite3.connect(tmp_path / "o.db", isolation_level=None)
    database.execute("UPDATE log SET changes = x'90'")
    database.close()
    with pytest.raises(StorageFailed):
        file.fold()
    file.abandon()
