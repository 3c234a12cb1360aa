"""What comes again and again is told in full once."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

from mooring.api.core import EVENTS
from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.local import LocalCluster
from mooring.base.clock import LoopClock
from mooring.base.log import logger
from mooring.base.randomness import Random
from mooring.csi.errors import DriverError
from mooring.dev.screen import PlainScreen
from mooring.dev.story import KNOWN_MAX, Repeats, Story, log_told_in
from mooring.dev.traced import TracedCluster
from mooring.driver.guard import CallRecord
from mooring.kube.cluster import Patch, PatchType
from mooring.wire.grpc.codes import Code
from tests.unit.dev.stepped_clock import StillClock

_log = logger("mooring.test_repeats")


def lines_of(tell: Callable[[Story, StillClock], None]) -> list[str]:
    stream, clock = io.StringIO(), StillClock()
    tell(Story(PlainScreen(stream), clock), clock)
    return stream.getvalue().splitlines()


def test_a_call_that_fails_again_is_told_in_a_few_words() -> None:
    def tell(story: Story, clock: StillClock) -> None:
        for name, error in (
            ("v", "too big"),
            ("v", "too big"),
            ("w", "too big"),
            ("v", "other"),
            ("v", "too big"),
            ("v", "too big"),
        ):
            story.called(
                CallRecord("CreateVolume", f'{{"name":"{name}"}}', "", DriverError(Code.OUT_OF_RANGE, error), 0.001)
            )
            clock.at += 1

    again = " CSI → driver    CreateVolume  → failed: again, "
    first, second, other, another, third, fourth = lines_of(tell)
    assert f" 1.000   {again}2nd time, see 0.000" == second
    assert [f" 4.000   {again}3rd time, see 0.000", f" 5.000   {again}4th time, see 0.000"] == [third, fourth]
    assert all("CreateVolume name=" in line and "OutOfRange" in line for line in (first, other, another))


def test_what_works_is_told_in_full_each_time() -> None:
    def tell(story: Story, _: StillClock) -> None:
        for _time in range(2):
            story.called(CallRecord("Probe", "{}", "{}", None, 0.001))
            story.wrote("demo", "create nodes/n", 0.002)

    assert 2 == len(set(lines_of(tell)))
    assert not any("again" in line for line in lines_of(tell))


def test_a_write_that_fails_again_is_told_in_a_few_words() -> None:
    def tell(story: Story, _: StillClock) -> None:
        for _time in range(2):
            story.wrote("attacher", "patch nodes/n: a=b", 0.002, "Forbidden: no")

    assert " 0.000    attacher → API  patch nodes/n  → failed: again, 2nd time, see 0.000" == lines_of(tell)[1]


def test_a_logged_error_that_comes_again_says_when_the_next_try_is() -> None:
    def tell(story: Story, clock: StillClock) -> None:
        with log_told_in(story, verbosity=0, vmodule=""):
            for wait_s in (1.0, 2.0):
                _log.error("failed to provision: no room", PVC="default/a", retry_in_s=wait_s)
                clock.at += 1
            _log.error("failed to provision: no room", PVC="default/b", retry_in_s=1.0)
            _log.info(0, "Serving")
            _log.info(0, "Serving")

    assert lines_of(tell) == [
        ' 0.000    error           failed to provision: no room PVC="default/a" retry_in_s=1',
        " 1.000    error           failed to provision retry_in_s=2  → again, 2nd time, see 0.000",
        ' 2.000    error           failed to provision: no room PVC="default/b" retry_in_s=1',
        " 2.000    log             Serving",
        " 2.000    log             Serving",
    ]


async def test_an_event_that_is_counted_up_is_told_in_a_few_words() -> None:
    stream, clock = io.StringIO(), LoopClock()
    local = LocalCluster(new_store(Random(1), 0.0), clock=clock, randomness=Random(1))
    cluster = TracedCluster(local, "provisioner", Story(PlainScreen(stream), clock), clock)
    about = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "big"}
    event = {
        "metadata": {"name": "big.1"},
        "involvedObject": about,
        "reason": "ProvisioningFailed",
        "message": "no room",
        "count": 1,
    }
    await cluster.create(EVENTS.whole(), event, "default")
    await cluster.patch(EVENTS, "big.1", Patch(PatchType.MERGE, {"count": 2, "message": "no room"}), "default")
    first, second = stream.getvalue().splitlines()
    assert "event on PersistentVolumeClaim big: ProvisioningFailed: no room" in first
    assert re.fullmatch(
        r" *\S+    provisioner → API  event ProvisioningFailed on big  → again, 2nd time, see \S+", second
    )


def test_ordinals_and_a_bound() -> None:
    repeats = Repeats()
    assert repeats.seen("a", 0.0, "it") is None
    words = [again.words for number in range(2, 24) if (again := repeats.seen("a", number, ""))]
    picked = [words[number - 2].split()[1] for number in (2, 3, 4, 11, 12, 13, 21, 22, 23)]
    assert ["2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "23rd"] == picked
    for number in range(KNOWN_MAX):
        repeats.seen(number, 0.0, "")
    assert repeats.seen("a", 1.0, "it") is None, "forgotten, and told in full again"
