"""Requests that take long are answered beside the loop: nobody waits for them, and nothing stale that they have read is
written.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import dataclasses
import json
import random
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from mooring.api.meta import Key
from mooring.apiserver import effort
from mooring.apiserver.aside import Overtaken, begin_aside, in_loop
from mooring.apiserver.deletion import DeleteOptions
from mooring.apiserver.effort import Effort, NeedsThread, TooMuch, in_the_loop
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.identity.tls import ServerIdentity, identity_in
from mooring.apiserver.listing import ListScope
from mooring.apiserver.resource import Resource
from mooring.apiserver.rules import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from mooring.apiserver.web import long_requests
from mooring.apiserver.web.long_requests import LongRequests
from mooring.apiserver.web.messages import HttpReply, HttpRequest, WatchReply
from mooring.apiserver.web.queries import Route, route_of
from mooring.apiserver.web.service import Service
from mooring.kube.errors import AlreadyExists
from tests.support.rows import each_row
from tests.unit.apiserver.objects import NOW, a_store, create, decoded
from tests.unit.apiserver.serving import answered, connected, head, serving
from tests.unit.apiserver.test_custom_bounds import DEFINITIONS, THINGS
from tests.unit.apiserver.test_service import StoppedClock

Json = dict[str, Any]
CONFIG: Json = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "namespace": "default"},
    "data": {"k": "v"},
}
KEY = Key("default", "a")
PATTERN = "(a|b)*a(a|b){600}$"


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> ServerIdentity:
    return identity_in(tmp_path_factory.mktemp("identity"), time.time())


def definition(schema: Json) -> bytes:
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]
    spec = {"group": "bounds.test", "scope": "Cluster", "names": names, "versions": versions}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.bounds.test"},
    }
    return json.dumps({**body, "spec": spec}).encode()


def a_long_text() -> str:
    letters = random.Random(1)
    return "".join(letters.choice("ab") for _ in range(1000))


PATTERNED: Json = {
    "type": "object",
    "properties": {"l": {"type": "array", "items": {"type": "string", "pattern": PATTERN}}},
}
RULE = f"self.l.all(x, !x.matches('{PATTERN}'))"
RULED: Json = {
    "type": "object",
    "properties": {"l": {"type": "array", "items": {"type": "string"}}},
    "x-kubernetes-validations": [{"rule": RULE}],
}


@pytest.mark.parametrize("schema", [PATTERNED, RULED], ids=["pattern", "rule"])
async def test_a_probe_is_answered_while_an_object_is_judged(identity: ServerIdentity, schema: Json) -> None:
    """The judging of one such text takes 0.3 s of a processor, and the body is small."""
    thing = {"apiVersion": "bounds.test/v1", "kind": "Thing", "metadata": {"name": "one"}, "l": [a_long_text()] * 4}
    made, body = definition(schema), json.dumps(thing).encode()
    assert len(body) < long_requests.BODY_BYTES
    async with (
        serving(identity) as server,
        connected(server, identity) as (reader, writer),
        connected(server, identity) as (probe, asking),
    ):
        writer.write(
            head(identity, "POST", DEFINITIONS, Content_Length=len(made), Content_Type="application/json") + made
        )
        assert 201 == (await answered(reader))[0]
        writer.write(head(identity, "POST", THINGS, Content_Length=len(body), Content_Type="application/json") + body)
        told = asyncio.create_task(answered(reader))
        probes = 0
        while not told.done():
            asking.write(head(identity, "GET", "/livez"))
            assert (200, b"ok") == await answered(probe)
            probes += 1
    assert (await told)[0] in (201, 422)
    assert probes >= 2, "the probes came through while the object was judged"


# -- the store


class Beside:
    """A thread beside the running loop, as the server's."""

    def __init__(self) -> None:
        self._pool = concurrent.futures.ThreadPoolExecutor(
            1, initializer=begin_aside, initargs=(asyncio.get_running_loop(),)
        )

    def begin(self, call: Callable[[], Any]) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().run_in_executor(self._pool, call)


class Halt:
    """A place where a thread stands until the loop has done something."""

    def __init__(self) -> None:
        self._there, self._go_on = threading.Event(), threading.Event()

    def stand(self) -> None:
        self._there.set()
        assert self._go_on.wait(10)

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._there.wait, 10)

    def end(self) -> None:
        self._go_on.set()

    async def meanwhile(self, call: Callable[[], Any]) -> None:
        await self.reached()
        call()
        self.end()


def judged_slowly(halt: Halt) -> Resource:
    """The kind, whose objects wait to be judged."""

    def judge(new: Json) -> Iterable[FieldCause]:
        halt.stand()
        return CONFIG_MAPS.validate_create(new)

    return dataclasses.replace(CONFIG_MAPS, validate_create=judge)


async def test_what_was_read_aside_is_not_written_over_a_later_write() -> None:
    store, halt = a_store(), Halt()
    create(store, CONFIG_MAPS, CONFIG, "default")

    def slow(obj: Json) -> Json:
        halt.stand()
        return {**obj, "data": {**obj["data"], "slow": "1"}}

    def quick(obj: Json) -> Json:
        return {**obj, "data": {**obj["data"], "quick": "1"}}

    def again() -> Any:
        with pytest.raises(Overtaken):
            store.patch(CONFIG_MAPS, KEY, slow, NOW)
        return store.patch(CONFIG_MAPS, KEY, slow, NOW)

    told = Beside().begin(again)
    await halt.meanwhile(lambda: store.patch(CONFIG_MAPS, KEY, quick, NOW))
    await told
    assert store.get(CONFIG_MAPS, KEY).whole()["data"] == {"k": "v", "quick": "1", "slow": "1"}


async def test_nothing_is_made_aside_where_somebody_has_been_quicker() -> None:
    store, halt = a_store(), Halt()
    other = {**CONFIG, "data": {"k": "other"}}

    def slow() -> None:
        with pytest.raises(AlreadyExists):
            store.create(judged_slowly(halt), decoded(CONFIG_MAPS, CONFIG), "default", NOW)

    told = Beside().begin(slow)
    await halt.meanwhile(lambda: create(store, CONFIG_MAPS, other, "default"))
    await told
    assert store.get(CONFIG_MAPS, KEY).whole()["data"] == {"k": "other"}


async def test_nothing_is_made_aside_in_a_namespace_that_has_gone() -> None:
    store, halt = a_store(), Halt()
    create(store, NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})

    def slow() -> None:
        body = decoded(CONFIG_MAPS, {**CONFIG, "metadata": {"name": "a", "namespace": "n"}})
        with pytest.raises(Overtaken):
            store.create(judged_slowly(halt), body, "n", NOW)

    told = Beside().begin(slow)
    await halt.meanwhile(lambda: store.delete(NAMESPACES, Key("", "n"), NOW))
    await told
    assert not len(store.table(CONFIG_MAPS))


async def test_what_was_read_aside_is_not_written_where_its_kind_has_gone() -> None:
    store, halt = a_store(), Halt()
    create(store, CUSTOM_RESOURCE_DEFINITIONS, json.loads(definition({"type": "object"})))
    [kind] = [resource for resource in store.resources if resource.group == "bounds.test"]
    create(store, kind, {"apiVersion": "bounds.test/v1", "kind": "Thing", "metadata": {"name": "a"}})

    def slow(obj: Json) -> Json:
        halt.stand()
        return {**obj, "x": 1}

    def overtaken() -> None:
        with pytest.raises(Overtaken):
            store.patch(kind, Key("", "a"), slow, NOW)
        with pytest.raises(Overtaken):
            store.list(kind, ListScope())

    told = Beside().begin(overtaken)
    await halt.meanwhile(lambda: store.delete(CUSTOM_RESOURCE_DEFINITIONS, Key("", "things.bounds.test"), NOW))
    await told


async def test_a_kind_that_goes_while_its_request_waits_is_not_found(identity: ServerIdentity) -> None:
    store, halt = a_store(), Halt()
    store.serve([judged_slowly(halt)])
    create(store, CUSTOM_RESOURCE_DEFINITIONS, json.loads(definition({"type": "object"})))
    large = json.dumps({**CONFIG, "data": {"k": "x" * long_requests.BODY_BYTES}}).encode()
    maps = "/api/v1/namespaces/default/configmaps"
    async with (
        serving(identity, store) as server,
        connected(server, identity) as (first, slow),
        connected(server, identity) as (second, waiting),
    ):
        slow.write(head(identity, "POST", maps, Content_Length=len(large), Content_Type="application/json") + large)
        await halt.reached()
        waiting.write(head(identity, "GET", THINGS, Accept="application/yaml"))
        async with asyncio.timeout(10):
            while server._dispatcher._long._waiting < 2:  # noqa: ASYNC110  (nobody tells)
                await asyncio.sleep(0)
        store.delete(CUSTOM_RESOURCE_DEFINITIONS, Key("", "things.bounds.test"), NOW)
        halt.end()
        assert 201 == (await answered(first))[0]
        assert 404 == (await answered(second))[0]


async def test_a_collection_is_deleted_whole_where_one_object_changes_meanwhile() -> None:
    store, halt, met = a_store(), Halt(), []
    for name in "abc":
        create(store, CONFIG_MAPS, {**CONFIG, "metadata": {"name": name, "namespace": "default"}}, "default")

    def delete(obj: Json, options: DeleteOptions, now: float) -> Json | None:
        met.append(obj["metadata"]["name"])
        if met == ["a", "b"]:
            halt.stand()
        return CONFIG_MAPS.delete(obj, options, now)

    path = ("api", "v1", "namespaces", "default", "configmaps")
    route = Route(dataclasses.replace(CONFIG_MAPS, delete=delete), "default")
    service = Service(store, clock=StoppedClock(), token="t")
    told = Beside().begin(lambda: service.answer(HttpRequest("DELETE", path, {}, {}), route, Effort()))
    await halt.meanwhile(
        lambda: store.patch(CONFIG_MAPS, Key("default", "b"), lambda obj: {**obj, "data": {"k": "w"}}, NOW)
    )
    assert ["a", "b", "c"] == [item["metadata"]["name"] for item in json.loads((await told).body)["items"]]
    assert met == ["a", "b", "b", "c"]
    assert not len(store.table(CONFIG_MAPS))


async def test_a_thread_gets_what_the_loop_answers_or_raises() -> None:
    here = threading.get_ident()

    def fail() -> None:
        raise KeyError("no")

    assert here == await Beside().begin(lambda: in_loop(threading.get_ident))
    assert here == in_loop(threading.get_ident)
    with pytest.raises(KeyError):
        await Beside().begin(lambda: in_loop(fail))


def test_what_follows_from_a_write_is_not_the_request_s_work() -> None:
    """Else the request would begin anew after its own write, and what follows would be left half done."""
    store, writer, seen = a_store(), contextvars.ContextVar("writer", default=""), []
    store.on_change(lambda _resource, _change: seen.append(writer.get()))
    store.follow(lambda _resource, _change: effort.current().spend(effort.STEPS_MAX))
    writer.set("me")
    with effort.of_request(in_the_loop()):
        create(store, CONFIG_MAPS, CONFIG, "default")
    assert store.get(CONFIG_MAPS, KEY)
    assert ["me"] == seen, "the rest of the writer's context is there"


# -- the line


async def test_who_is_always_overtaken_is_told_to_come_again() -> None:
    tries = []
    told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def overtaken() -> HttpReply:
        tries.append(1)
        raise Overtaken

    LongRequests(a_store()).take(1, overtaken, told.set_result)
    answer = await told
    assert (429, 5) == (answer.status, len(tries))


@each_row(("sizes", "taken"), [([1] * 300, 256), ([30 * 1024 * 1024] * 5, 2)], ids=["many", "large"])
async def test_so_many_wait_at_most(sizes: list[int], taken: int) -> None:
    told: asyncio.Queue[int] = asyncio.Queue()
    go_on = threading.Event()

    def slow() -> HttpReply:
        assert go_on.wait(10)
        return HttpReply(200, b"")

    def tell(answer: HttpReply | WatchReply | Exception) -> None:
        assert isinstance(answer, HttpReply), answer
        told.put_nowait(answer.status)

    line = LongRequests(a_store())
    for size in sizes:
        line.take(size, slow, tell)
    assert [told.get_nowait() for _ in range(told.qsize())] == [429] * (len(sizes) - taken)
    go_on.set()
    async with asyncio.timeout(10):
        assert [await told.get() for _ in range(taken)] == [200] * taken
        line.take(1, slow, tell)  # (there is room again)
        assert 200 == await told.get()


# -- the effort


def test_what_is_over_the_budget_is_refused_or_goes_elsewhere() -> None:
    with pytest.raises(TooMuch):
        Effort().spend(effort.STEPS_MAX + 1)
    with pytest.raises(NeedsThread):
        in_the_loop().spend(effort.STEPS_MAX)
    whole = Effort()
    with effort.of_request(whole):
        assert effort.current() is whole
    assert effort.current() is not whole


def test_a_list_is_long_by_the_bytes_of_its_objects_too() -> None:
    """A few of a megabyte are as much work as hundreds of small ones."""
    store = a_store()
    requests = LongRequests(store)
    path = ("api", "v1", "namespaces", "default", "configmaps")
    route = route_of(path, store)
    assert route is not None

    def is_long(method: str, accept: str = "") -> bool:
        return requests.is_one(HttpRequest(method, path, {}, {"accept": accept}), route)

    table = store.table(route.resource)
    assert not is_long("DELETE")
    for number in range(3):
        create(store, route.resource, {"metadata": {"name": f"m{number}"}, "data": {"k": "v" * 500_000}}, "default")
    assert table.bytes_count == sum(len(stored.body) for stored in table.items()) > 1_500_000
    assert is_long("DELETE")
    assert is_long("GET", "application/json;as=Table;v=v1;g=meta.k8s.io")
    assert not is_long("GET")
    create(store, route.resource, {"metadata": {"name": "more"}, "data": {"k": "v" * 700_000}}, "default")
    assert is_long("GET"), "many clients may ask for it at once"
    for stored in tuple(table.items()):
        store.delete(route.resource, stored.key, 0.0)
    assert 0 == table.bytes_count
    assert not is_long("DELETE")


@each_row("path", ["", "apis", "api/v1", "metrics"])
def test_what_speaks_of_all_kinds_is_long_where_there_are_many(path: str) -> None:
    store = a_store()
    requests, request = LongRequests(store), HttpRequest("GET", tuple(path.split("/")), {}, {})
    assert not requests.is_one(request, None)
    store.serve([dataclasses.replace(CONFIG_MAPS, group=f"g{number}.test") for number in range(long_requests._KINDS)])
    assert requests.is_one(request, None)
    assert not requests.is_one(HttpRequest("GET", ("healthz",), {}, {}), None)
