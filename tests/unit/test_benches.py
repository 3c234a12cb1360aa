"""What a bench says about the Python that runs it, without which figures mean little; and that its watchers count
right.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import inspect
import os
import platform
import random
import ssl
import subprocess
import typing
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import cast

import pytest

from bench import turns as turns_module
from bench.apiwatch import Watcher
from bench.contender import Contender
from bench.interpreter import interpreter, optimisations, spread_kib
from bench.tables import Table, heading
from bench.turns import Turns
from tests.support.rows import each_row

ROOT = Path(__file__).resolve().parents[2]


@each_row(
    ("configured", "flags", "spread", "profile", "linked"),
    [
        ("'--enable-shared'", "-O3", 8, "no", "no"),
        ("'--enable-optimizations' '--with-lto'", "-O3", 1500, "yes", "yes"),
        ("'--enable-optimizations'", "-O3", 700, "yes", "no"),
        ("'--prefix=/usr'", "-O2 -flto=auto", 8, "no", "yes"),
        (
            "'--prefix=/usr' '--with-computed-gotos'",
            "-O2",
            1508,
            "yes, by the layout of its code",
            "not known",
        ),  # Debian 12
    ],
)
def test_a_build_is_told_as_far_as_it_can_be_known(
    configured: str, flags: str, spread: int, profile: str, linked: str
) -> None:
    told = optimisations(configured, flags, spread)
    assert f"profile-guided optimisation: {profile}; link-time optimisation: {linked}" == told


def test_the_layout_can_be_read_here() -> None:
    assert 1 <= spread_kib() < 100 * 1024


def test_every_heading_names_the_build() -> None:
    assert platform.python_version() in interpreter()
    assert platform.python_compiler().split()[0] in interpreter()
    assert interpreter() in heading("the Go one")
    assert "{heading(" in (ROOT / "bench" / "apiserver.py").read_text()


BENCHES = (
    *("bench-attach", "bench-attachdetach", "bench-provision", "bench-resize", "bench-snapshot"),
    *("bench-apiserver", "bench-node", "bench-sidecars", "bench-scale", "bench-bounds"),
)


def commands(target: str, **environment: str) -> str:
    """What make would run."""
    bare = {name: value for name, value in os.environ.items() if name not in ("PYTHON", "MAKEFLAGS", "MAKELEVEL")}
    command = ["make", "--dry-run", "--always-make", target]
    return subprocess.run(
        command, cwd=ROOT, env={**bare, **environment}, check=True, capture_output=True, text=True
    ).stdout


@each_row("target", BENCHES)
def test_a_bench_on_another_python_leaves_the_developers_environment_alone(target: str) -> None:
    told = commands(target, PYTHON="/opt/other/python3")
    assert "hack/setup .venv-bench\n" in told
    assert ".venv-bench/bin/python -m bench." in told
    assert ".venv/" not in told


@each_row("target", BENCHES)
def test_a_bench_takes_the_developers_environment_otherwise(target: str) -> None:
    told = commands(target)
    assert ".venv-bench" not in told
    assert ".venv/bin/python -m bench." in told


MODULES = sorted(
    ".".join(path.relative_to(ROOT / "bench").with_suffix("").parts)
    for folder in (".", "scale", "bounds")
    for path in (ROOT / "bench" / folder).glob("*.py")
    if path.stem not in ("__init__", "__main__")
)


@each_row("module", MODULES)
def test_every_bench_can_be_imported_and_its_annotations_name_what_is_there(module: str) -> None:
    bench = importlib.import_module(f"bench.{module}")
    for owner in [
        bench,
        *(one for one in vars(bench).values() if inspect.isclass(one) and one.__module__ == bench.__name__),
    ]:
        typing.get_type_hints(owner)
        for function in vars(owner).values():
            if inspect.isfunction(function) and function.__module__ == bench.__name__:
                typing.get_type_hints(function)


@dataclasses.dataclass
class _Round:
    strangers: float = 0.0


async def _in_turns(
    job: Callable[[Contender], Awaitable[_Round]], bound_s: float | None
) -> tuple[dict[str, list[_Round]], list[str]]:
    turns = Turns([Contender("restless", ()), Contender("quick", ())], rounds=3, quiet=1000.0, bound_s=bound_s)
    return await turns.take("Many", job), turns.unfinished


async def test_a_contender_that_never_comes_to_rest_is_told_and_has_no_more_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns_module, "CALM_S", 0.001)
    begun: list[str] = []

    async def job(contender: Contender) -> _Round:
        begun.append(contender.name)
        async with asyncio.TaskGroup():  # as in a load, which raises groups
            if contender.name == "restless":
                await asyncio.Event().wait()
        return _Round()

    found, told = await _in_turns(job, 0.05)
    assert begun == ["restless", "quick", "quick", "quick"]
    assert {name: len(rounds) for name, rounds in found.items()} == {"restless": 0, "quick": 3}
    assert told == ["Many, round 1, restless: NOT DONE within 0.05 s"]
    table = Table("Title", found)
    table.row("busy", "{:.1f}", lambda run: run.strangers)
    assert "| busy | - | 0.0 |" in str(table)


async def test_a_wait_that_fails_within_a_round_is_an_error_where_rounds_have_no_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns_module, "CALM_S", 0.001)

    async def job(_: Contender) -> _Round:
        raise TimeoutError

    with pytest.raises(ExceptionGroup):
        await _in_turns(job, None)


class _Pieces:
    """A TLS connection that gives what it has in these pieces."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = list(pieces)

    def recv_into(self, buffer: bytearray) -> int:
        if not self._pieces:
            raise ssl.SSLWantReadError
        piece = self._pieces.pop(0)
        buffer[: len(piece)] = piece
        return len(piece)


@each_row("seed", range(100))
def test_a_watcher_counts_each_event_once_however_chunks_and_reads_cut_it(seed: int) -> None:
    draw = random.Random(seed)
    events = draw.randrange(1, 6)
    chunks = _cut(b'{"object":{}}\n' * events, draw, 12)
    sent = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    buffer = bytearray(64)
    watcher = Watcher(cast(ssl.SSLSocket, _Pieces(_cut(sent, draw, 9))))
    watcher.read(buffer, memoryview(buffer), None)
    assert watcher.events == events


def _cut(text: bytes, draw: random.Random, size_max: int) -> list[bytes]:
    pieces = []
    while text:
        size = draw.randrange(1, size_max)
        pieces.append(text[:size])
        text = text[size:]
    return pieces
