"""An API server that hangs, resets, refuses or talks nonsense for a while, on each verb that the attacher uses.

The process lives, the user sees why where a user looks, and when the server is well again everything that was wanted
happens, once. Mostly on the embedded server: the faults are the proxy's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.processes import Attacher, ProcessTarget, embedded_server, on_server
from tests.support.fault_proxy import Answer, Fault, FaultProxy, Hang, Refuse, Reset, Rule, fault_proxy
from tests.support.scripted_driver import PUBLISH, UNPUBLISH

pytestmark = [pytest.mark.slow, pytest.mark.long]

SOON = ("--retry-interval-start=100ms", "--retry-interval-max=400ms")
NO = "the test says no"
BROKE = "broke before the answer was there"
FAULTS: dict[str, tuple[Fault, str]] = {
    "401": (Refuse(401, "Unauthorized"), NO),
    "403": (Refuse(403, "Forbidden"), NO),
    "409": (Refuse(409, "Conflict"), NO),
    "410": (Refuse(410, "Expired"), NO),
    "422": (Refuse(422, "Invalid"), NO),
    "500": (Refuse(500, "InternalError"), NO),
    "reset": (Reset(), BROKE),
    "lost-answer": (Reset(after=True), BROKE),
    "a-page-of-html": (Answer(b"<html>Please log in</html>", "text/html"), "text/html"),
    "half-an-object": (Answer(b'{"kind":"VolumeAttachment","metadata":{'), "can't be read"),
}
RESOURCES = ("volumeattachments", "persistentvolumes", "csinodes")


@contextlib.asynccontextmanager
async def a_target(folder: Path) -> AsyncIterator[tuple[ProcessTarget, FaultProxy]]:
    """An embedded server, the attacher's way to it through a proxy, everybody else's past it."""
    async with (
        asyncio.timeout(240),
        embedded_server(folder) as config,
        fault_proxy(config, folder / "proxy.kubeconfig") as proxy,
        on_server(config) as target,
    ):
        target.config = proxy.kubeconfig
        yield target, proxy


@pytest.mark.parametrize("faults", [tuple(FAULTS)[at : at + 3] for at in range(0, len(FAULTS), 3)], ids="-".join)
async def test_lists_and_watches_that_fail_at_the_start(tmp_path: Path, faults: tuple[str, ...]) -> None:
    """Each resource sees another fault, on its list and on its watch: the back-off passes for three at a time."""
    async with a_target(tmp_path) as (target, proxy):
        pairs = list(zip(RESOURCES, faults, strict=False))
        # A GET whose connection breaks is sent once more at a lower level: only two in a row are noticed.
        times = {fault: 2 if isinstance(FAULTS[fault][0], Reset) else 1 for fault in faults}
        rules = {
            (verb, fault): proxy.fail(verb, resource, FAULTS[fault][0], times=times[fault])
            for verb in ("list", "watch")
            for resource, fault in pairs
        }
        pv, node = await target.volume(), await target.node()
        va = await target.want(pv, node)
        async with target.attaching(*SOON, "-v=2") as attacher:
            await target.attached(va)
            for resource, fault in pairs:
                told = "has forgotten this version" if fault == "410" else "Failed to list or watch"
                assert FAULTS[fault][1] in await attacher.said(told, f"informer/{resource}")
            for (verb, fault), rule in rules.items():
                await target.until(f"{verb} has failed by {fault}", functools.partial(_hit, rule, times[fault]))
            later = await target.want(await target.volume("later"), node)  # the watches work, too
            await target.attached(later)
            attacher.assert_alive()


async def _hit(rule: Rule, count: int) -> bool:
    return rule.hits == count


@pytest.mark.parametrize("fault", FAULTS)
async def test_requests_that_fail_for_a_while(tmp_path: Path, fault: str) -> None:
    how, words = FAULTS[fault]
    async with a_target(tmp_path) as (target, proxy):
        secret, node = await target.secret({"a": "Yg=="}), await target.node()
        ref = {"name": secret, "namespace": "default"}
        async with target.attaching(*SOON) as attacher:
            before = {
                "secret": f'failed to load secret "default/{secret}": ',
                "pv": "could not add PersistentVolume finalizer: ",
            }
            pvs = {"secret": await target.volume("secret-pv", controllerPublishSecretRef=ref)}
            pvs |= {base: await target.volume(base) for base in ("pv", "va", "status")}
            proxy.fail("get", "secrets", how)
            proxy.fail("patch", "persistentvolumes", how, name=pvs["pv"])
            proxy.fail("patch", "volumeattachments", how, name=f"{pvs['va']}.{node}")
            proxy.fail("patch", "volumeattachments/status", how, name=f"{pvs['status']}.{node}")
            vas = {base: await target.want(pv, node) for base, pv in pvs.items()}

            # what can be told is told at the object (a PATCH whose answer was lost has succeeded: the next try knows)
            for base, prefix in before.items():
                if (base, fault) == ("pv", "lost-answer"):
                    continue
                message = (await target.error(vas[base]))["message"]
                assert message.startswith(prefix)
                assert words in message
            # what can't be saved at the object is in the log
            await target.asked(PUBLISH)
            assert words in await attacher.said("mark as attached" if fault != "422" else "publish_context")
            assert {target.node_id(node)} == target.where(pvs["status"])

            proxy.mend()
            for va in vas.values():
                assert "attachError" not in (await target.attached(va))["status"]
            assert [{target.node_id(node)}] * 4 == [target.where(pv) for pv in pvs.values()]

            # what the cache lacks is asked for: without an answer the cache decides, and what comes late is seen by the
            # watch
            rules = [proxy.fail("get", resource, how) for resource in ("persistentvolumes", "csinodes")]
            late = await target.want(target.name("late"), target.name("late-node"))
            assert f'persistentvolume "{target.name("late")}" not found' == (await target.error(late))["message"]
            await target.volume("late")
            told = f'csinode.storage.k8s.io "{target.name("late-node")}" not found'
            await target.until_status(late, lambda status: status["attachError"]["message"] == told, "misses its node")
            await target.node("late-node")
            assert "attachError" not in (await target.attached(late))["status"]
            assert all(rule.hits for rule in rules)

            gone = vas["va"]
            proxy.fail("patch", "volumeattachments", how, name=gone)
            await target.delete("VolumeAttachment", gone)
            await target.asked(UNPUBLISH)
            if fault != "lost-answer":
                message = (await target.error(gone, "detachError"))["message"]
                assert message.startswith("could not mark as detached: ")
                assert words in message
            proxy.mend()
            await target.gone("VolumeAttachment", gone)
            assert set() == target.where(pvs["va"])
            attacher.assert_alive()
        assert [] == target.driver.overlaps


async def test_a_server_that_asks_to_come_back_later_is_obeyed(tmp_path: Path) -> None:
    async with a_target(tmp_path) as (target, proxy):
        later = Refuse(429, "TooManyRequests", headers={"Retry-After": "1"})
        asked = [
            *(("list", resource) for resource in RESOURCES),
            *(("watch", resource) for resource in RESOURCES),
            ("get", "secrets"),
            ("patch", "persistentvolumes"),
            ("patch", "volumeattachments"),
            ("patch", "volumeattachments/status"),
        ]
        rules = {(verb, resource): proxy.fail(verb, resource, later, times=1) for verb, resource in asked}
        secret, node = await target.secret({"a": "Yg=="}), await target.node()
        pv = await target.volume(controllerPublishSecretRef={"name": secret, "namespace": "default"})
        va = await target.want(pv, node)
        async with target.attaching() as attacher:
            assert "attachError" not in (await target.attached(va))["status"]
            attacher.assert_alive()
        assert {1} == {rule.hits for rule in rules.values()}
        for verb, resource in rules:
            times = [request.at_s for request in proxy.requests if (request.verb, request.resource) == (verb, resource)]
            assert times[1] - times[0] >= 1.0, f"{verb} {resource} came back too early"
        assert 1 == len(target.driver.made(PUBLISH))


async def test_a_server_that_never_answers_is_given_up_and_asked_again(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Every verb hangs until the client's own limit, all at the same time; two minutes, which lists have, most of it
    spent waiting.
    """
    folder = tmp_path_factory.mktemp("start")
    async with a_target(tmp_path) as (target, proxy):
        secret, node = await target.secret({"a": "Yg=="}), await target.node()
        hanging = {base: await target.volume(base) for base in ("pv", "va", "status")}
        hanging["secret"] = await target.volume(
            "secret-pv", controllerPublishSecretRef={"name": secret, "namespace": "default"}
        )
        async with target.attaching(*SOON) as attacher, asyncio.TaskGroup() as group:
            group.create_task(_a_start_that_hangs(folder), name="start")
            proxy.fail("get", "secrets", Hang())
            proxy.fail("patch", "persistentvolumes", Hang(), name=hanging["pv"])
            proxy.fail("patch", "volumeattachments", Hang(), name=f"{hanging['va']}.{node}")
            proxy.fail("patch", "volumeattachments/status", Hang(), name=f"{hanging['status']}.{node}")
            vas = {base: await target.want(pv, node) for base, pv in hanging.items()}
            await target.asked(PUBLISH)
            well = await target.want(await target.volume("well"), node)
            await target.attached(well)  # the others hold up nobody
            target.wait_s = 45.0
            for base in ("secret", "pv", "va"):
                message = (await target.error(vas[base]))["message"]
                assert "no answer from https://127.0.0.1" in message
                assert "within 30 s" in message
            assert "within 30 s" in await attacher.said("mark as attached")
            proxy.mend()
            for va in vas.values():
                assert "attachError" not in (await target.attached(va))["status"]
            attacher.assert_alive()
        assert {frozenset({target.node_id(node)})} == {frozenset(target.where(pv)) for pv in hanging.values()}


async def _a_start_that_hangs(folder: Path) -> None:
    """Lists that hang: the attacher waits, gives up, and asks again."""
    async with a_target(folder) as (target, proxy):
        rules = [proxy.fail("list", resource, Hang(), times=1) for resource in RESOURCES]
        target.wait_s = 150.0
        va = await target.want(await target.volume(), await target.node())
        async with target.attaching() as attacher:
            assert "within 120 s" in await attacher.said("Failed to list or watch", timeout_s=135.0)
            await target.attached(va)
        assert [1, 1, 1] == [rule.hits for rule in rules]


async def test_watches_that_break_in_any_way_miss_nothing(tmp_path: Path) -> None:
    expired = {
        "type": "ERROR",
        "object": {"kind": "Status", "status": "Failure", "reason": "Expired", "message": "too old", "code": 410},
    }
    breaks: dict[str, Fault] = {
        "expired": Answer(json.dumps(expired).encode() + b"\n"),
        "gone": Refuse(410, "Expired", "too old resource version"),
        "no-json": Answer(b"\x00\xff{{{\n"),
        "ended-at-once": Answer(b""),
        "cut-in-a-line": Reset(middle=True),
    }
    async with a_target(tmp_path) as (target, proxy):
        node, count = await target.node(), itertools.count()
        async with target.attaching(*SOON) as attacher:
            await target.attached(await target.want(await target.volume(), node))
            for name, fault in breaks.items():
                rules = [
                    proxy.fail("watch", resource, fault, times=1)
                    for resource in ("volumeattachments", "persistentvolumes")
                ]
                asked = len(proxy.requests)
                proxy.cut()
                vas = [await target.want(await target.volume(f"{name}{next(count)}"), node) for _ in range(3)]
                for va in vas:
                    await target.attached(va)
                for va in vas:
                    await target.detached(va)
                for rule in rules:  # it may come late: a PersistentVolume that the cache lacks is asked for
                    await target.until(
                        f"the watch of {rule.resource} has been {name}", functools.partial(_hit, rule, 1)
                    )
                lists = (request for request in proxy.requests[asked:] if request.verb == "list")
                listed = {
                    one.resource for one in lists if "limit=1&" not in f"{one.path}&"
                }  # one of those asks for the version alone
                assert (name in ("expired", "gone")) == ({"volumeattachments", "persistentvolumes"} <= listed), name
            attacher.assert_alive()
        assert 1 + 3 * len(breaks) == len(target.driver.made(PUBLISH))


RENEW_S = 6.0
LEASE = (
    "--leader-election",
    "--leader-election-lease-duration=8s",
    f"--leader-election-renew-deadline={RENEW_S}s",
    "--leader-election-retry-period=300ms",
)


async def _leads(attacher: Attacher, times: int = 1) -> None:
    async with asyncio.timeout(60):
        while attacher.log.count("Became leader") < times:
            attacher.assert_alive()
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("fault", ["401", "409", "500", "lost-answer"])
async def test_a_lease_that_can_not_be_had_for_a_moment(tmp_path: Path, fault: str) -> None:
    how, words = FAULTS[fault]
    async with a_target(tmp_path) as (target, proxy):
        rules = [proxy.fail(verb, "leases", how, times=1) for verb in ("get", "create")]
        node = await target.node()
        async with target.attaching(*SOON, *LEASE) as attacher:
            await _leads(attacher)
            assert words in await attacher.said("Failed to acquire the Lease")
            rules.append(proxy.fail("update", "leases", how, times=1))
            await target.attached(await target.want(await target.volume(), node))
            await asyncio.sleep(RENEW_S + 0.3)
            assert 1 == attacher.log.count("Became leader")
            assert "Stopped leading" not in attacher.log
        assert rules[-1].hits == 1


@pytest.mark.parametrize("fault", ["403", "hang"])
async def test_LE03_a_leader_that_can_not_renew_stops_working_and_stands_again(tmp_path: Path, fault: str) -> None:
    """Differs from external-attacher, which exits: the process lives on as a standby and does no more work."""
    how = Hang() if fault == "hang" else FAULTS[fault][0]
    async with a_target(tmp_path) as (target, proxy):
        node = await target.node()
        async with target.attaching(*SOON, *LEASE) as attacher:
            await target.attached(await target.want(await target.volume(), node))
            proxy.fail("update", "leases", how)
            proxy.fail("get", "leases", how)
            await attacher.said("Stopped leading")
            late = await target.want(await target.volume("late"), node)
            asked = len(proxy.writes())
            await asyncio.sleep(1.5)
            assert 1 == len(target.driver.made(PUBLISH))
            election = ("leases", "events")
            done = [request for request in proxy.writes()[asked:] if request.resource not in election]
            assert [] == done, "it tells that it leads no more, and does nothing else"
            proxy.mend()
            await _leads(attacher, 2)
            await target.attached(late)
            attacher.assert_alive()
