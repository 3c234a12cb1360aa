"""A server's state that lasts: nothing is told before it is on disk, a restart finds everything, a failing disk ends it
all.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource as process
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.api.meta import Key
from mooring.api.storage import VOLUME_ATTACHMENTS as VAS
from mooring.apiserver.custom.definition_kind import CUSTOM_RESOURCE_DEFINITIONS
from mooring.apiserver.disk import file as durable
from mooring.apiserver.disk.log import Log
from mooring.apiserver.disk.rows import Damaged, DiskRow
from mooring.apiserver.disk.state import NAME, lasting
from mooring.apiserver.listing import scope_of
from mooring.apiserver.local import LocalCluster
from mooring.apiserver.rules.event import EVENTS
from mooring.apiserver.rules.namespace import NAMESPACES
from mooring.apiserver.rules.volumeattachment import VOLUME_ATTACHMENTS
from mooring.apiserver.store import ObjectStore
from mooring.base.clock import LoopClock
from mooring.base.errors import ConfigError
from mooring.base.randomness import Random
from mooring.kube.errors import ServerError
from tests.support.builders import a_va
from tests.support.rows import each_row
from tests.unit.apiserver.objects import NOW, Json, create, patch

EVERYWHERE = scope_of(VOLUME_ATTACHMENTS, None, "", "")


def kept(folder: Path, **options: Any) -> contextlib.AbstractAsyncContextManager[tuple[ObjectStore, Log]]:
    return lasting(folder, clock=LoopClock(), randomness=Random(), **options)


def state_of(store: ObjectStore) -> dict[tuple[str, str], list[bytes]]:
    """Everything, byte for byte."""
    tables = [(resource, store.table(resource)) for resource in store.kinds.storing()]
    return {
        (resource.group, resource.plural): [stored.body for stored in table.items()]
        for resource, table in tables
        if len(table)
    }


# -- restarts


async def test_a_restart_finds_everything_as_it_was(tmp_path: Path) -> None:
    async with kept(tmp_path) as (store, _):
        create(store, VOLUME_ATTACHMENTS, a_va("a", finalizers=["example.com/hold"]))
        create(store, VOLUME_ATTACHMENTS, a_va("b", labels={"x": "y"}))
        patch(store, VOLUME_ATTACHMENTS, Key("", "b"), {"metadata": {"labels": {"x": "z"}}})
        create(store, VOLUME_ATTACHMENTS, a_va("c"))
        store.delete(VOLUME_ATTACHMENTS, Key("", "a"), NOW + 7)
        store.delete(VOLUME_ATTACHMENTS, Key("", "c"), NOW + 8)
        before, version = state_of(store), store.version
    async with kept(tmp_path) as (store, log):
        assert (version, version) == (store.version, log.committed), "no namespace was made again"
        assert before == state_of(store)
        selected = scope_of(VOLUME_ATTACHMENTS, None, "x=z", "metadata.name=b")
        assert ["b"] == [stored.key.name for stored in store.list(VOLUME_ATTACHMENTS, selected).items]
        made = create(store, VOLUME_ATTACHMENTS, a_va("d"))
        assert str(version + 1) == made["metadata"]["resourceVersion"]


async def test_a_watch_goes_on_over_a_restart(tmp_path: Path) -> None:
    async with kept(tmp_path) as (store, _):
        first = create(store, VOLUME_ATTACHMENTS, a_va("a", labels={"x": "y"}))["metadata"]["resourceVersion"]
        patch(store, VOLUME_ATTACHMENTS, Key("", "a"), {"metadata": {"labels": {"x": "z"}}})
        store.delete(VOLUME_ATTACHMENTS, Key("", "a"), NOW)
        before = [
            (change.rv, change.old, change.new, change.at)
            for change in store.table(VOLUME_ATTACHMENTS).history.after(int(first))
        ]
    async with kept(tmp_path) as (store, _):
        after = [
            (change.rv, change.old, change.new, change.at)
            for change in store.table(VOLUME_ATTACHMENTS).history.after(int(first))
        ]
        told = [
            [(rv, old and old.body, new and new.body, at) for rv, old, new, at in changes]
            for changes in (before, after)
        ]
        assert told[0] == told[1]
        watched = scope_of(VOLUME_ATTACHMENTS, None, "x=y", "")
        seen = [change.seen_by(watched.matches) for change in store.table(VOLUME_ATTACHMENTS).history.after(int(first))]
        assert ["DELETED", None] == [one and one[0].value for one in seen], (
            "it left the selection, and nobody there saw its end"
        )


async def test_what_the_file_has_forgotten_is_not_watched_from(tmp_path: Path) -> None:
    async with kept(tmp_path) as (store, log):
        for name in "ab":
            create(store, VOLUME_ATTACHMENTS, a_va(name))
        await log.wait_committed(store.version)
        before, version = state_of(store), store.version
    saved = durable.read(tmp_path / NAME)
    file = durable.ObjectFile(tmp_path / NAME, saved)
    while file._log_changes:
        file.fold()
    file.close()
    async with kept(tmp_path) as (store, _):
        assert version == store.table(VOLUME_ATTACHMENTS).history.floor == store.table(NAMESPACES).history.floor
        assert (before, version) == (state_of(store), store.version)


async def test_events_end_an_hour_after_their_last_write_whatever_happens_meanwhile(tmp_path: Path) -> None:
    event = {"involvedObject": {"namespace": "default"}, "metadata": {"namespace": "default"}}
    async with kept(tmp_path) as (store, _):
        for name, at in (("a", NOW), ("b", NOW + 100), ("c", NOW + 200)):
            create(store, EVENTS, {**event, "metadata": {"name": name, "namespace": "default"}}, "default", now=at)
        patch(store, EVENTS, Key("default", "a"), {"count": 2}, now=NOW + 300)
    for now, left in ((NOW + 3650, "abc"), (NOW + 3750, "ac"), (NOW + 3850, "a"), (NOW + 3950, "")):
        async with kept(tmp_path) as (store, _):
            store.sweep(now)
            assert left == "".join(stored.key.name for stored in store.table(EVENTS).items())


def a_definition(plural: str, *, served: bool = True) -> Json:
    version = {"name": "v1", "served": served, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    spec = {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"plural": plural, "kind": plural.title()},
        "versions": [version],
    }
    return {"metadata": {"name": f"{plural}.example.com"}, "spec": spec}


async def test_custom_kinds_come_back_with_their_objects(tmp_path: Path) -> None:
    async with kept(tmp_path) as (store, _):
        for plural in ("things", "others"):
            create(store, CUSTOM_RESOURCE_DEFINITIONS, a_definition(plural))
            things = store.resource("example.com", "v1", plural)
            assert things is not None
            create(store, things, {"apiVersion": "example.com/v1", "kind": plural.title(), "metadata": {"name": "a"}})
        patch(
            store,
            CUSTOM_RESOURCE_DEFINITIONS,
            Key("", "others.example.com"),
            {"spec": a_definition("others", served=False)["spec"]},
        )
        assert store.resource("example.com", "v1", "others") is None
        before, version = state_of(store), store.version
    async with kept(tmp_path) as (store, _):
        assert (before, version) == (state_of(store), store.version)
        assert ["others", "things"] == sorted(place[1] for place in before if place[0] == "example.com"), (
            "served or not"
        )
        patch(
            store, CUSTOM_RESOURCE_DEFINITIONS, Key("", "others.example.com"), {"spec": a_definition("others")["spec"]}
        )
        others = store.resource("example.com", "v1", "others")
        assert others is not None
        assert ["a"] == [stored.key.name for stored in store.table(others).items()], (
            "nobody served it, and it was there"
        )
        things = store.resource("example.com", "v1", "things")
        assert things is not None
        store.delete(CUSTOM_RESOURCE_DEFINITIONS, Key("", "things.example.com"), NOW)
        assert store.resource("example.com", "v1", "things") is None
    async with kept(tmp_path) as (store, _):
        assert store.resource("example.com", "v1", "things") is None
        create(store, CUSTOM_RESOURCE_DEFINITIONS, a_definition("things"))
        things = store.resource("example.com", "v1", "things")
        assert things is not None
        assert not len(store.table(things))


async def test_only_what_is_missing_is_made_at_a_start(tmp_path: Path) -> None:
    async with kept(tmp_path) as (store, _):
        uids = {stored.key.name: stored.uid for stored in store.table(NAMESPACES).items()}
    async with kept(tmp_path) as (store, _):
        assert uids == {stored.key.name: stored.uid for stored in store.table(NAMESPACES).items()}


# -- what is told, and when


async def test_nothing_is_told_before_it_is_committed(tmp_path: Path) -> None:
    async with kept(tmp_path) as (store, log):
        cluster = LocalCluster(store, clock=LoopClock(), randomness=Random(), durability=log)
        told: list[int] = []
        log.on_commit(lambda resource: told.append(log.committed))
        made = await cluster.create(VAS, a_va("a"))
        assert int(made.metadata.resource_version) <= log.committed
        assert durable.read(tmp_path / NAME).version == log.committed
        create(store, VOLUME_ATTACHMENTS, a_va("b"))
        assert log.committed < store.version
        with pytest.raises(Exception, match="already exists"):
            await cluster.create(VAS, a_va("b"))
        assert log.committed == store.version, "a refusal tells of a write, too"


async def test_a_watch_shows_nothing_that_is_not_committed(tmp_path: Path) -> None:
    async with kept(tmp_path) as (store, log):
        cluster = LocalCluster(store, clock=LoopClock(), randomness=Random(), durability=log)
        async with contextlib.aclosing(cluster.watch(VAS, resource_version="")) as events:
            for name in "abc":
                create(store, VOLUME_ATTACHMENTS, a_va(name))
                event = await anext(events)
                assert int(event.resource_version) <= log.committed


async def test_many_writers_share_a_commit_and_one_turn_is_never_divided(tmp_path: Path) -> None:
    async with kept(tmp_path) as (store, log):
        commits: list[int] = []
        log.on_commit(lambda _: commits.append(log.committed))

        async def write(number: int) -> None:
            for turn in range(20):
                create(store, VOLUME_ATTACHMENTS, a_va(f"va-{number}-{turn}-a"))
                create(store, VOLUME_ATTACHMENTS, a_va(f"va-{number}-{turn}-b"))
                await log.wait_committed(store.version)

        before = store.version
        await asyncio.gather(*(write(number) for number in range(32)))
        assert 2 * 32 * 20 == log.committed - before
        assert len(commits) < 32 * 20 / 4, "each has waited for a commit of its own"
        assert [] == [version for version in commits if (version - before) % 2]


async def test_what_is_written_too_late_is_refused(tmp_path: Path) -> None:
    async with kept(tmp_path) as (store, log):
        pass
    with pytest.raises(ServerError, match="the file is closed"):
        await LocalCluster(store, clock=LoopClock(), randomness=Random(), durability=log).create(VAS, a_va("late"))


# -- a disk that fails


@contextlib.contextmanager
def a_full_disk(path: Path, bytes_left: int) -> Iterator[None]:
    """No file may grow longer than this one and so many bytes: the kernel refuses it."""
    soft, hard = process.getrlimit(process.RLIMIT_FSIZE)
    process.setrlimit(process.RLIMIT_FSIZE, (path.stat().st_size + bytes_left, hard))
    try:
        yield
    finally:
        process.setrlimit(process.RLIMIT_FSIZE, (soft, hard))


@contextlib.asynccontextmanager
async def on_a_failing_disk(folder: Path) -> AsyncGenerator[tuple[ObjectStore, Log], None]:
    async with kept(folder) as (store, log):
        with a_full_disk(folder / f"{NAME}-wal", 100_000):
            yield store, log


async def write_on(cluster: LocalCluster, acknowledged: list[str]) -> None:
    for number in range(1000):
        made = await cluster.create(VAS, a_va(f"va-{number}", annotations={"x": "y" * 2000}))
        acknowledged.append(made.metadata.name)


async def test_a_full_disk_refuses_every_write_from_then_on_and_shows_nothing_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    acknowledged: list[str] = []
    async with on_a_failing_disk(tmp_path) as (store, log):
        cluster = LocalCluster(store, clock=LoopClock(), randomness=Random(), durability=log)
        with pytest.raises(ServerError, match="the server could not save its objects and ends") as refused:
            await write_on(cluster, acknowledged)
        assert (500, "InternalError") == (refused.value.status_code, refused.value.reason)
        assert log.failure
        async with asyncio.timeout(5):
            await log.failed()
        for call in (cluster.list(VAS), cluster.get(VAS, acknowledged[-1]), cluster.create(VAS, a_va("more"))):
            with pytest.raises(ServerError):
                await call
        assert log.committed < store.version
    assert "The objects could not be saved; nothing is answered from now on" in capsys.readouterr().err
    async with kept(tmp_path) as (store, _):
        assert sorted(acknowledged) == [stored.key.name for stored in store.table(VOLUME_ATTACHMENTS).items()]


async def test_a_disk_that_is_full_from_the_start_is_said_in_words(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"")
    with (
        a_full_disk(tmp_path / "small", 3000),
        pytest.raises(ConfigError, match=f"state folder '{tmp_path}' can't be written to: "),
    ):
        async with kept(tmp_path):
            pass
    async with kept(tmp_path) as (store, _):
        assert 5 == store.version


# -- a folder that can't be used


async def test_a_second_server_is_kept_out(tmp_path: Path) -> None:
    async with kept(tmp_path):
        with pytest.raises(
            ConfigError, match=rf"'{tmp_path}' is in use by the API server of process {os.getpid()}: stop it, or choose"
        ):
            async with kept(tmp_path):
                pass
    async with kept(tmp_path):
        pass


def files_in(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.name != "objects.lock"}


@each_row(
    ("name", "data", "says"),
    [
        (NAME, b"x" * 200, "is no database: move it away, or restore a backup"),
        (f"{NAME}-wal", b"x" * 200, "which it belongs to, is not: put that back, restore a backup"),
    ],
)
async def test_a_folder_with_something_odd_in_it_is_refused_and_left_alone(
    tmp_path: Path, name: str, data: bytes, says: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(Damaged, match=says):
        async with kept(tmp_path):
            pass
    assert {name: data} == files_in(tmp_path)


async def test_objects_that_can_not_be_read_are_refused(tmp_path: Path) -> None:
    async with kept(tmp_path):
        pass
    file = durable.ObjectFile(tmp_path / NAME, durable.read(tmp_path / NAME))
    file.append([DiskRow("/namespaces", "", "x", file.version + 1, NOW, b'{"metadata":{}}')])
    before = files_in(tmp_path)
    file.close()
    for name, data in before.items():
        (tmp_path / name).write_bytes(data)  # (as a kill leaves them)
    with pytest.raises(Damaged, match="the objects of namespaces can't be read: KeyError"):
        async with kept(tmp_path):
            pass
    assert (before[NAME], before[f"{NAME}-wal"]) == (files_in(tmp_path)[NAME], files_in(tmp_path)[f"{NAME}-wal"])


async def test_kinds_that_are_not_known_stay_in_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An older Mooring on the folder of a newer one loses nothing."""
    async with kept(tmp_path):
        pass
    file = durable.ObjectFile(tmp_path / NAME, durable.read(tmp_path / NAME))
    unknown = DiskRow("example.com/things", "", "x", file.version + 1, NOW, b"{}")
    file.append([unknown])
    file.close()
    async with kept(tmp_path) as (store, _):
        assert unknown.version == store.version
        create(store, VOLUME_ATTACHMENTS, a_va("a"))
    assert 'kinds="example.com/things"' in capsys.readouterr().err
    assert unknown in durable.read(tmp_path / NAME).log


CARELESS = """
import asyncio, os, pathlib, sys
from mooring.apiserver.disk.state import lasting
from mooring.base.randomness import Random
from mooring.base.clock import LoopClock
async def main():
    path = pathlib.Path(sys.argv[1])
    async with lasting(path, clock=LoopClock(), randomness=Random(), careful=False) as (store, log):
        os._exit(9)
asyncio.run(main())
"""


@pytest.mark.slow
def test_a_file_that_was_written_carelessly_and_not_closed_makes_versions_jump(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", CARELESS, str(tmp_path)], check=False, timeout=30)
    assert 9 == done.returncode

    async def version(*, careful: bool) -> int:
        async with kept(tmp_path, careful=careful) as (store, _):
            return store.version

    assert 5 + durable.JUMP == asyncio.run(version(careful=False))
    assert 5 + durable.JUMP == asyncio.run(version(careful=True)), "it was closed"
    subprocess.run([sys.executable, "-c", CARELESS, str(tmp_path)], check=False, timeout=30)
    assert 5 + 2 * durable.JUMP == asyncio.run(version(careful=True))
    assert 5 + 2 * durable.JUMP == asyncio.run(version(careful=True)), "once for each such run"
