"""The live view of `mooring dev`, on a terminal that can be read."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.dev.seed_objects import claim, pod
from tests.support.mooring_dev import MOORING, Screen, create, needs_mounts, turned

pytestmark = [pytest.mark.slow, pytest.mark.long]

VIEW = r"^── 3 nodes · "


@pytest.fixture
def screen() -> Iterator[Screen]:
    made = Screen(*MOORING, "dev", columns=100, lines=40)
    try:
        yield made
    finally:
        made.close()


def lives(screen: Screen) -> Path:
    """Its kubeconfig, once the view is there."""
    assert screen.until(lambda: has_view(screen)), screen.shown
    found = re.search(r"export KUBECONFIG=(\S+)", "\n".join(screen.lines))
    assert found is not None
    return Path(found[1])


def has_view(screen: Screen) -> bool:
    return any(re.match(VIEW, line) for line in screen.shown)


def sees(screen: Screen, pattern: str) -> None:
    assert screen.until(lambda: any(re.search(pattern, line) for line in screen.shown)), screen.shown


def left_in_order(screen: Screen) -> bool:
    """The view is gone, and the terminal is as the program has found it."""
    screen.draw()
    return (
        not any(re.match(VIEW, line) for line in (*screen.scrolled, *screen.shown))
        and not screen.screen.cursor.hidden
        and screen.echoes
    )


async def test_a_volumes_life_is_seen_below_the_calls(screen: Screen) -> None:
    needs_mounts()
    config = lives(screen)
    sees(screen, r"^n3 +Ready +0")
    await create(config, claim("books", "hostpath"), pod("reader", "books"))
    await create(config, claim("later", "hostpath-wait"), claim("never", "no-such-class"))
    sees(screen, r"^books +n\d +Published +pod reader$")
    sees(screen, r"^later +Pending +\d+s +waiting for first consumer to be created before binding$")
    sees(screen, r"^never +Pending +\d+s$")
    sees(screen, r'^ +the StorageClass "no-such-class" does not exist; it goes on when it is created$')
    sees(screen, r"^n\d +Ready +1 +1")
    top = next(number for number, line in enumerate(screen.shown) if re.match(VIEW, line))
    assert screen.screen.cursor.y == top
    above = "\n".join((*screen.scrolled, *screen.shown[:top]))
    for call in ("CreateVolume", "ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume"):
        assert re.search(rf"CSI → (driver|n\d) +{call} ", above)
    screen.type("\n")
    assert screen.until(lambda: 2 == len(re.findall("^export KUBECONFIG=", "\n".join(screen.lines), re.MULTILINE))), (
        "Enter shows it again"
    )
    screen.type("\x03")
    assert 0 == wait(screen)
    assert left_in_order(screen), screen.shown
    assert re.search(r"ended in good order$", "\n".join(line for line in screen.shown if line))


async def test_a_node_dies_and_comes_back_in_the_view() -> None:
    needs_mounts()
    with contextlib.closing(Screen(*MOORING, "dev", "--node-monitor-grace-period=2s", columns=120, lines=40)) as screen:
        config = lives(screen)
        reader = pod("reader", "books")
        await create(config, claim("books", "hostpath"), {**reader, "spec": {**reader["spec"], "nodeName": "n2"}})
        sees(screen, r"^books .* n2 +Published +pod reader$")
        assert 0 == turned("kill-node", "n2", config=config)[0]
        sees(screen, r"^── 3 nodes, 1 not well · 1 volume, 1 waiting")
        sees(screen, r"^n2 +Unknown +\d+s +1 +1 +unreachable:NoExecute$")
        sees(screen, r"^books .* n2 +Published +\d+s +pod reader, on a node that is Unknown$")
        assert 0 == turned("revive-node", "n2", config=config)[0]
        sees(screen, r"^n2 +Ready +1 +1$")
        sees(screen, r"^books .* n2 +Published +pod reader$")


def wait(screen: Screen) -> int | None:
    """Its exit code. What it writes is drawn meanwhile."""
    assert screen.until(lambda: screen.process.poll() is not None), screen.shown
    return screen.process.returncode


def test_a_terminated_one_leaves_the_terminal_in_order(screen: Screen) -> None:
    lives(screen)
    screen.process.send_signal(signal.SIGTERM)
    assert 0 == wait(screen)
    assert left_in_order(screen), screen.shown


def test_a_suspended_one_gives_the_terminal_back_meanwhile(screen: Screen) -> None:
    lives(screen)
    screen.type("\x1a")
    assert screen.until(lambda: state_of(screen.process.pid) == "T"), "Ctrl-Z stops it"
    assert left_in_order(screen), screen.shown
    screen.process.send_signal(signal.SIGCONT)
    assert screen.until(lambda: has_view(screen) and not screen.echoes), "the view comes back"
    screen.type("\x03")
    assert 0 == wait(screen)
    assert left_in_order(screen), screen.shown


def state_of(pid: int) -> str:
    """T: stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
