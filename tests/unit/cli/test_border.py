"""The border of every command: what the system refuses is one line with the next step, and the documented exit code.

Commands and their flags are taken from the tables of flags. A new command needs a line in `COMMANDS`, and a new flag
with a path one in `USES`.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest import mock

import pytest

from mooring.apiserver.disk import file as durable
from mooring.base import log
from mooring.base.flagkinds import FILE, FILES, FOLDER, SOCKET, STRING
from mooring.base.flags import flags_of
from mooring.cli import border
from mooring.cli import mooring as command
from mooring.cli.completion import TABLES
from mooring.cli.conform import OUTPUTS
from mooring.dev.story import Story
from tests.support.builders import a_claim, a_pod, a_ready_node
from tests.support.private_mounts import clear_below, enter_private_mounts
from tests.support.programs import PYTHON, Program
from tests.support.rest import Rest
from tests.support.rows import each_row
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

DRIVER: Final = ("--csi-address={place}/none.sock",)
CLUSTER: Final = ("--kubeconfig={place}/kubeconfig",)
SIDECAR: Final = (*CLUSTER, *DRIVER, "--connection-timeout=1s")
MODULE: Final = "mooring.driver.skeleton.driver:Skeleton"
PROXY: Final = ("--listen=unix://{place}/l.sock", "--to=unix://{place}/t.sock")
HOSTPATH: Final = ("--endpoint=unix://{place}/h.sock", "--state={place}/h", "--node-id=n1")

COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "apiserver": ("--state={place}/s",),
    "apiserver backup": ("--state={place}/state", "{place}/new.db"),
    "apiserver restore": ("--state={place}/s", "{place}/backup.db"),
    "attachdetach": CLUSTER,
    "attacher": SIDECAR,
    "binder": CLUSTER,
    "call": ("CreateVolume", "--dry-run"),
    "cluster-registrar": (*CLUSTER, *DRIVER),
    "completion": ("bash",),
    "conform": ("unix://{place}/none.sock", "--connect-timeout=1s"),
    "controller": ("--enable=attacher", *SIDECAR),
    "demo": (),
    "dev": ("--plain",),
    "dev kill-node": ("n1",),
    "dev revive-node": ("n1",),
    "doctor": (),
    "driver": (),
    "driver hostpath": HOSTPATH,
    "driver new": ("shelf",),
    "driver run": (MODULE, "--endpoint=unix://{place}/d.sock", "--option=folder={place}/v"),
    "fence": ("n1",),
    "livenessprobe": DRIVER,
    "node-agent": (*CLUSTER, "--node-name=n1", "--root-dir={place}/root"),
    "orphans": (*CLUSTER, *DRIVER),
    "provisioner": SIDECAR,
    "proxy": PROXY,
    "registrar": (*DRIVER, "--kubelet-registration-path=/csi.sock"),
    "resizer": SIDECAR,
    "snapshot-controller": CLUSTER,
    "snapshotter": SIDECAR,
    "timeline": ("pod/web-0",),
    "unfence": ("n1",),
    "unstick": ("pvc/a",),
    "why": ("pod/web-0",),
}
"""Each command with words by which it would begin its work."""

READS: Final = ("missing", "folder", "below", "long", "bytes")
WRITES: Final = ("missing", "folder", "below", "long", "read-only", "full")
KEEPS: Final = ("file", "below", "long", "read-only", "full")
"""Faults of a file that is read, of one that is written, and of a folder that is made where it is missing."""
OPENS: Final = ("missing", "folder", "below", "long", "read-only")
"""Faults of a file that grows by lines: a disk that is full is none at the start."""
SERVES: Final = ("missing", "folder", "below", "long", "read-only")
CALLS: Final = ("long",)
"""Faults of a socket that is served on, and of one that is called: others may be waited for."""


class Use(NamedTuple):
    """How a flag's path can fail, and the exit code. words: for this flag in place of the command's. apart: in a
    process of its own, since the command enters a mount namespace. too_long: the code for a path that is."""

    faults: tuple[str, ...]
    code: int = 1
    words: tuple[str, ...] | None = None
    apart: bool = False
    too_long: int = 1


KUBECONFIG: Final = Use(("missing", "folder", "below", "long", "bytes"))
USES: Final[dict[str, Use | None]] = {
    "kubeconfig": KUBECONFIG,
    "csi-address": Use(CALLS),
    "controller --csi-address": Use(CALLS, too_long=2),
    "unstick --csi-address": Use(CALLS, words=("pvc/a", *CLUSTER)),
    "apiserver --state": Use(KEEPS),
    "apiserver --kubeconfig": Use(WRITES, words=("--memory",)),
    "apiserver backup --state": Use(("missing", "file", "below", "long"), words=("{place}/new.db",)),
    "apiserver restore --state": Use(KEEPS, words=("{place}/backup.db",)),
    "call --f": Use(READS, 2),
    "call --secrets-file": Use(READS, 2),
    "call --record": Use(READS, 2, words=DRIVER),
    "call --csi-address": Use(CALLS, words=("GetPluginInfo",), too_long=2),
    "conform --secrets-file": Use(READS, 2),
    "conform --driver-log": Use(OPENS, 2, words=("sleep 9 {{socket}}",), apart=True),
    "conform --data-folder": Use(("file", "below", "long", "read-only"), 1, words=("sleep 9 {{socket}}",), apart=True),
    "conform --staging-folder": None,  # made for each check, which tells what was wrong
    "conform --target-folder": None,
    "dev --state": Use((*KEEPS, "long-for-a-socket"), apart=True),
    "dev --driver-log": Use(OPENS, words=("--plain", "--driver=sleep 9 {{socket}}"), apart=True),
    "dev --faults": Use(READS, 2),
    "dev kill-node --state": Use(("missing", "file", "below", "long")),
    "dev revive-node --state": Use(("missing", "file", "below", "long")),
    "doctor --f": Use(("missing", "below", "long", "bytes")),
    "driver hostpath --state": Use(KEEPS),
    "driver hostpath --endpoint": Use(SERVES),
    "driver hostpath --call-log": Use(OPENS),
    "driver hostpath --faults": Use(("folder", "below", "long", "bytes")),  # it may appear later
    "driver new --folder": Use(KEEPS),
    "driver run --endpoint": Use(SERVES),
    "driver run --plugin-registration-path": Use(SERVES[:1] + SERVES[2:]),
    "node-agent --root-dir": Use(KEEPS[:-1]),  # it writes nothing before the API server answers
    "proxy --listen": Use(SERVES, too_long=2),
    "proxy --to": Use(CALLS, too_long=2),
    "proxy --faults": Use(READS, 2),
    "proxy --record": Use(WRITES),
    "registrar --plugin-registration-path": None,  # used once a driver has answered: as driver run's
}
"""Each flag with a path: by the command and the flag, or by the flag alone where all commands use it alike. None: the
path is none of this machine's, or is used later."""

POSITIONAL: Final[dict[str, Use]] = {
    "apiserver backup": Use(WRITES, words=("--state={place}/state",)),
    "apiserver restore": Use(READS, words=("--state={place}/s",)),
}
NO_PATHS: Final = {"driver", "option", "metrics-path", "pod", "kubelet-registration-path", "mode"}
"""Flags that speak of paths, and have none for this program to open."""

_SPEAKS_OF_PATHS: Final = re.compile(r"\b(files?|folder|sockets?|path)\b", re.IGNORECASE)
_PROGRAMS: Final = {
    *("attachdetach", "attacher", "binder", "cluster-registrar", "controller", "livenessprobe", "node-agent"),
    *("provisioner", "registrar", "resizer", "snapshot-controller", "snapshotter"),
}
"""They log, as the Go programs do."""


def _flags(path: str) -> dict[str, Any]:
    place = TABLES[path]
    if not place:
        return {}
    module, _, name = place.partition(":")
    return flags_of(getattr(importlib.import_module(f"mooring.cli.{module}"), name))


def _use(path: str, flag: str) -> Use | None:
    return USES[f"{path} --{flag}"] if f"{path} --{flag}" in USES else USES[flag]


def _with_paths(path: str) -> list[str]:
    kinds = (FILE, FILES, FOLDER, SOCKET)
    return [name for name, row in _flags(path).items() if any(row.kind is kind for kind in kinds)]


def _rows(*, mounted: bool) -> Iterator[tuple[str, str, Use, str]]:
    for path in TABLES:
        uses = [(f"--{flag}=", _use(path, flag)) for flag in _with_paths(path)]
        for flag, use in [*uses, *([("", POSITIONAL[path])] if path in POSITIONAL else [])]:
            faults = use.faults if use is not None else ()
            for fault in (*faults, *(["no-utf-8"] if "below" in faults else [])):
                if (fault in ("read-only", "full")) is mounted:
                    yield path, flag, use, fault


# -- the table is whole


def test_every_command_and_every_flag_with_a_path_is_in_the_table() -> None:
    words = {*command.COMMANDS, *TABLES}
    assert words == COMMANDS.keys() | {"driver"}
    missing = [
        f"{path} --{flag}"
        for path in TABLES
        for flag in _with_paths(path)
        if f"{path} --{flag}" not in USES and flag not in ("kubeconfig", "csi-address")
    ]
    assert [] == missing, "say in USES how they can fail"


def test_a_flag_that_speaks_of_a_path_has_the_kind_of_a_path() -> None:
    """So that a new one is in the table above: nobody has to think of it."""
    plain = [
        f"{path} --{name}: {row.text}"
        for path in TABLES
        for name, row in _flags(path).items()
        if row.kind is STRING and _SPEAKS_OF_PATHS.search(row.text) and name not in NO_PATHS
    ]
    assert [] == plain, "take FILE, FOLDER or SOCKET of base/flagkinds.py"


# -- paths


class Served(BaseException):
    """The command went on to work."""


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    yield
    log.configure()


def _places(folder: Path) -> Path:
    for name in ("folder", "state", "ends"):
        (folder / name).mkdir()
    (folder / "file").write_text("a file\n")
    (folder / "bytes").write_bytes(b"\xff\xfe: \xff\n")
    durable.create(folder / "state" / "objects.db", version=1)
    durable.create(folder / "backup.db", version=1)
    cluster = {"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "a", "context": {"cluster": "a"}}
    config = {"kind": "Config", "clusters": [cluster], "contexts": [context], "current-context": "a"}
    (folder / "kubeconfig").write_text(json.dumps(config))
    return folder


def _path(place: Path, fault: str) -> Path:
    return place / {
        "missing": "missing/x",
        "folder": "folder",
        "file": "file",
        "below": "file/x",
        "no-utf-8": "file/\udcff",
        "long": "a" * 300,
        "long-for-a-socket": "a" * 100,
        "bytes": "bytes",
        "read-only": "read-only/x",
        "full": "full/x",
    }.get(fault, fault)


def _said(words: list[str], place: Path, *, apart: bool) -> tuple[int, str]:
    """The exit code and stderr of a command, which must end by itself."""
    if apart:
        argv = [sys.executable, "-m", "mooring.cli.mooring", *words]
        done = subprocess.run(argv, capture_output=True, text=True, cwd=place, timeout=60, check=False)
        return done.returncode, done.stderr

    def served(*_: object) -> None:
        raise Served

    stdout, stderr = io.StringIO(), io.StringIO()
    before = signal.signal(signal.SIGALRM, served)
    signal.alarm(20)
    try:
        with (
            contextlib.chdir(place),
            contextlib.redirect_stdout(stdout),
            contextlib.redirect_stderr(stderr),
            mock.patch.object(sys, "stdin", io.StringIO()),
            mock.patch.dict(os.environ, {"HOME": str(place)}),
        ):
            code = command.run(words)
    except Served:
        pytest.fail(f"mooring {' '.join(words)} went on to work: {stdout.getvalue()}{stderr.getvalue()}")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return code, stderr.getvalue()


def _refused(place: Path, path: str, flag: str, use: Use, fault: str) -> str:
    """The one line that the command said."""
    target = _path(place, fault)
    words = [one.format(place=place) for one in (COMMANDS[path] if use.words is None else use.words)]
    before = _all_in(place)
    address = "unix://" if flag in ("--listen=", "--to=", "--endpoint=", "--csi-address=") else ""
    given = [f"{flag}{address}{target}"]
    words = [*given, *words] if flag and path.startswith("apiserver ") else [*words, *given]  # a FILE comes last there
    code, stderr = _said([*path.split(), *words], place, apart=use.apart)
    assert "Traceback" not in stderr
    assert (max(use.code, use.too_long) if fault == "long" else use.code) == code, stderr
    lines = [one for one in stderr.splitlines() if not re.match(r"[IW]\d{4} ", one)]
    assert 1 == len(lines), stderr
    if path in _PROGRAMS:
        assert re.match(r"E\d{4} ", lines[0]) or lines[0].startswith(f"mooring {path}: "), lines[0]
    else:
        assert lines[0].startswith(f"mooring {path}: "), lines[0]
    line = lines[0].replace("\udcff", "\\xff").replace("\\udcff", "\\xff")  # (logs write it as Go does)
    assert str(target).replace("\udcff", "\\xff") in line or f" {len(os.fsencode(target))} bytes" in lines[0], (
        "the path is named"
    )
    assert "damaged" not in lines[0], "nothing is known of what is there"
    assert "[Errno" not in lines[0]
    assert not re.search(r"(directory|device|system|long)\.?$", lines[0]), "the next step is missing"
    if fault not in ("read-only", "full") or flag != "--state=":
        _check_nothing_is_half_written(place, target, before)
    return lines[0]


def _all_in(place: Path) -> set[Path]:
    return {one for one in place.rglob("*") if not one.is_socket()}


def _check_nothing_is_half_written(place: Path, target: Path, before: set[Path]) -> None:
    """But for what the command makes elsewhere: its state, in good order."""
    beside = {one for one in _all_in(place) - before if one.parent == target.parent and target.parent != place}
    left = {one for one in beside if not (one == target and one.stat().st_size == 0)}
    assert set() == left, "this is left"
    if target.parent == place and target not in before:
        assert not target.exists() if len(target.name) < 256 else True


@each_row(("path", "flag", "use", "fault"), lambda: _rows(mounted=False), parts=2, fresh=[_logging_as_before])
def test_a_path_that_can_not_be_used_is_one_line(tmp_path: Path, path: str, flag: str, use: Use, fault: str) -> None:
    _refused(_places(tmp_path), path, flag, use, fault)


@pytest.fixture
def mounts(tmp_path: Path) -> Iterator[Path]:
    """A folder with a place that is read-only, and one on a disk that is full."""
    enter_private_mounts(tmp_path)
    for name in ("read-only", "full"):
        (tmp_path / name).mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "border", tmp_path / name], check=True)
    subprocess.run(["mount", "-o", "remount,ro", tmp_path / "read-only"], check=True)
    _fill(tmp_path / "full")
    yield tmp_path
    clear_below(tmp_path)


def _fill(folder: Path) -> None:
    with contextlib.suppress(OSError), open(folder / "filler", "wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass


@each_row(("path", "flag", "use", "fault"), lambda: _rows(mounted=True), fresh=[_logging_as_before, mounts])
def test_a_place_that_takes_nothing_is_one_line(mounts: Path, path: str, flag: str, use: Use, fault: str) -> None:
    line = _refused(_places(mounts), path, flag, use, fault)
    assert re.search("[Rr]ead-only" if fault == "read-only" else "full|No space|I/O", line), line


def test_a_disk_that_is_full_and_a_file_that_is_held_are_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever moves a damaged file away loses its objects; these are sound."""
    enter_private_mounts(tmp_path)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "border", tmp_path], check=True)
    place = _places(tmp_path)
    with sqlite3.connect(place / "state" / "objects.db", isolation_level=None) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        monkeypatch.setattr(durable, "_BUSY_S_MAX", 0.1)
        code, err = _said(["apiserver", "--state", str(place / "state")], place, apart=False)
        assert (1, 1) == (code, err.count("\n"))
        assert "locked; end the other program that has the file open; no object is lost" in err
    other.close()
    _fill(place)
    code, err = _said(["apiserver", "--state", str(place / "state")], place, apart=False)
    assert (1, 1) == (code, err.count("\n"))
    assert "make room there; no object is lost" in err
    clear_below(tmp_path)


@each_row("words", [("backup", "--state=state", "new.db"), ("restore", "--state=restored", "backup.db")])
def test_whichever_step_sqlite_fails_at_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """Also the last one, when it closes a file."""
    code = 1
    for step in range(1, 100):
        place = tmp_path / str(step)
        place.mkdir()
        monkeypatch.setattr(sqlite3, "connect", _fails_at(step))
        with monkeypatch.context() as whole:
            whole.setattr(sqlite3, "connect", _CONNECT)
            _places(place)
        code, err = _said(["apiserver", *words], place, apart=False)
        if code == 0:
            break
        assert (1, 1) == (code, err.count("\n")), step
        assert "disk I/O error; look at the room there, and into the kernel's log" in err
    assert 0 == code


_CONNECT: Final = sqlite3.connect


def _fails_at(step: int) -> Callable[..., sqlite3.Connection]:
    """connect of sqlite3, where a disk gives up at this step of all connections."""
    left = iter(range(step - 1, -1, -1))

    def go() -> None:
        if next(left, -1) == 0:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error

    class Failing(sqlite3.Connection):
        def execute(self, *words: Any) -> sqlite3.Cursor:
            go()
            return super().execute(*words)

        def executescript(self, *words: Any) -> sqlite3.Cursor:
            go()
            return super().executescript(*words)

        def close(self) -> None:
            super().close()
            go()

    return lambda *words, **more: _CONNECT(*words, factory=Failing, **more)


@each_row("other", ["clusters: [{name: production}]\n", '{"clusters": [{"name": "production"}]}', "a text"])
def test_the_kubeconfig_of_other_clusters_stays(tmp_path: Path, other: str) -> None:
    """It may be the only copy of their keys."""
    place = _places(tmp_path)
    file = place / "file"
    file.write_text(other)
    code, err = _said(["apiserver", "--memory", f"--kubeconfig={file}"], place, apart=False)
    assert (1, 1, other) == (code, err.count("\n"), file.read_text())
    assert "give another file" in err


def test_a_path_that_is_no_utf_8_is_a_path_as_any_other(tmp_path: Path) -> None:
    """The objects go from a folder to a backup and into another folder; stdout has the paths as the system has them."""
    place = _places(tmp_path)
    state, backup = (os.fsdecode(os.fsencode(place) + name) for name in (b"/\xff-state", b"/\xff.db"))
    (place / "state").rename(state)
    for words in (
        ["apiserver", "backup", f"--state={state}", backup],
        ["apiserver", "restore", f"--state={backup}-restored", backup],
        ["driver", "new", "shelf", f"--folder={backup}-driver"],
    ):
        code, out, err = _entered(words, place)
        assert (0, b"") == (code, err)
        assert os.fsencode(backup) in out


REGISTERED: Final = "--plugin-registration-path={place}"
NAMED_IN_CALLS: Final = (
    ("conform", MODULE, "--option=folder={place}/v", "--staging-folder={place}/\udcff"),
    ("conform", MODULE, "--option=folder={place}/v", "--target-folder={place}/\udcff"),
    ("dev", "--plain", "--state={place}/\udcff"),
    ("driver", "run", MODULE, "--endpoint=unix://{place}/\udcff", "--option=folder={place}/v", REGISTERED),
    ("node-agent", *CLUSTER, "--node-name=n1", "--root-dir={place}/\udcff"),
    ("registrar", "--csi-address={place}/h.sock", "--kubelet-registration-path={place}/\udcff", REGISTERED),
)


@each_row("words", NAMED_IN_CALLS)
def test_a_path_that_no_call_can_name_is_refused_at_the_start(cluster: Path, words: tuple[str, ...]) -> None:
    """A text of CSI and of the kubelet is UTF-8; else each call would fail, for ever."""
    code, err = _said([one.format(place=cluster) for one in words], cluster, apart=True)
    (line,) = [one for one in err.splitlines() if not re.match(r"[IW]\d{4} ", one)]
    assert (2 if words[0] == "conform" else 1) == code
    assert re.search(r"ff' is no UTF-8, as calls that name it must be; give another path", line), line


@each_row(
    ("words", "expected"),
    [
        (("conform", MODULE, "--option=folder={place}/v"), 2),
        (("dev", "--plain"), 1),
        (("demo",), 1),
    ],
)
def test_a_tmpdir_that_is_too_long_for_sockets_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], expected: int
) -> None:
    """No flag of these commands has given the folder that is too long."""
    place = tmp_path / ("x" * 100)
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    code, err = _said([one.format(place=tmp_path) for one in words], tmp_path, apart=True)
    assert (expected, 1) == (code, err.count("\n")), err
    assert err.startswith(f"mooring {words[0]}: TMPDIR: "), err
    assert err.endswith(": give a shorter one\n"), err
    assert [] == list(place.iterdir())


def test_a_missing_path_that_is_no_utf_8_is_one_line(tmp_path: Path) -> None:
    code, _, err = _entered(["call", "CreateVolume", "--dry-run", "-f", "/no\udcff"], tmp_path)
    assert 2 == code
    assert err.startswith(b"mooring call: can't read /no\\udcff: No such file or directory; ")


# -- what a command forgets

FORGETFUL: Final = {
    "apiserver backup": ("apiserver._back_up", COMMANDS["apiserver backup"]),
    "attacher": ("csi_attacher._serve", COMMANDS["attacher"]),
    "call": ("call._call", COMMANDS["call"]),
    "driver new": ("driver._write", COMMANDS["driver new"]),
}
"""Commands whose work is replaced by one that lets an error through: by the name of its function."""

LET_THROUGH: Final[dict[str, tuple[Exception, str]]] = {
    "a full disk": (
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/srv/x"),
        "'/srv/x': No space left on device; make room there, or give a place on another disk",
    ),
    "a name": (
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        "invalid start byte; give names and texts in UTF-8",
    ),
    "depth": (RecursionError("maximum recursion depth exceeded"), "nested too deeply; give a flatter one"),
    "a database": (sqlite3.OperationalError("disk I/O error"), "a database: disk I/O error; look at the rights of its"),
    "in a task": (
        ExceptionGroup("tasks", [PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/srv/x")]),
        "'/srv/x': Permission denied; give a place that this user may use",
    ),
}
DEFECTS: Final = (KeyError("x"), sqlite3.ProgrammingError("closed"), ExceptionGroup("tasks", [AssertionError("x")]))


def _lets_through(monkeypatch: pytest.MonkeyPatch, place: str, error: Exception) -> None:
    def work(*_: object) -> int:
        raise error

    monkeypatch.setattr(f"mooring.cli.{place}", work)


@each_row(("path", "place", "words"), [(path, *row) for path, row in FORGETFUL.items()])
@each_row(("error", "text"), LET_THROUGH.values(), ids=LET_THROUGH)
def test_what_a_command_lets_through_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    place: str,
    words: tuple[str, ...],
    error: Exception,
    text: str,
) -> None:
    _lets_through(monkeypatch, place, error)
    places = _places(tmp_path)
    code, stderr = _said([*path.split(), *(one.format(place=places) for one in words)], places, apart=False)
    [line] = [one for one in stderr.splitlines() if not re.match(r"[IW]\d{4} ", one)]
    assert (1, True) == (code, text in line), line
    assert line.startswith("E" if path in _PROGRAMS else f"mooring {path}: ")


@each_row(("path", "place", "words"), [(path, *row) for path, row in FORGETFUL.items()])
@each_row("error", DEFECTS)
def test_a_defect_of_a_command_keeps_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, place: str, words: tuple[str, ...], error: Exception
) -> None:
    _lets_through(monkeypatch, place, error)
    places = _places(tmp_path)
    given = [*path.split(), *(one.format(place=places) for one in words)]
    if path in _PROGRAMS:
        code, stderr = _said(given, places, apart=False)
        assert (1, True) == (code, "Traceback" in stderr)
        return
    with pytest.raises(type(error)):
        _said(given, places, apart=False)


# -- streams


def _entered(words: list[str], place: Path, stdout: Any = None, stderr: Any = None) -> tuple[int, bytes, bytes]:
    """The exit code, stdout and stderr of the executable, by its entry point."""
    out, err = io.BytesIO(), io.BytesIO()
    streams = {
        "stdout": stdout or io.TextIOWrapper(out, "utf-8", border._AS_IT_CAME),
        "stderr": stderr or io.TextIOWrapper(err, "utf-8", "backslashreplace"),
    }
    with (
        contextlib.chdir(place),
        mock.patch.multiple(sys, **streams, argv=["mooring", *words], stdin=io.StringIO()),
    ):
        code = command.main()
    for one in streams.values():
        with contextlib.suppress(OSError):
            one.flush()
    return code, out.getvalue(), err.getvalue()


WRITERS: Final = (
    ("--help",),
    ("--version",),
    *((*path.split(), "--help") for path in TABLES),
    ("completion", "bash"),
    ("completion", "fields", "call", "CreateVolume"),
    ("completion", "checks"),
    ("call", "CreateVolume", "name=a", "--dry-run", "--csi-address={place}/h.sock"),
    ("conform", "--list"),
    ("dev", "--examples"),
    ("doctor", "-f", "{place}/folder"),
    ("driver", "new", "shelf"),
    ("apiserver", "backup", "--state={place}/state", "{place}/new.db"),
)


@each_row("words", WRITERS, fresh=[_logging_as_before])
def test_a_stdout_that_is_full_is_one_line(tmp_path: Path, words: tuple[str, ...]) -> None:
    place = _places(tmp_path)
    with open("/dev/full", "w") as full:
        code, _, err = _entered([one.format(place=place) for one in words], place, full)
    assert 1 == code
    (line,) = [one for one in err.decode().splitlines() if not one.startswith("I")]
    assert re.search(r"stdout can't be written: No space left on device; make room", line), line


ON_A_CLUSTER: Final = (
    ("why",),
    ("why", "pod/web-0"),
    ("timeline", "pod/web-0"),
    ("unstick", "pvc/a", "--dry-run"),
    ("fence", "n1", "--dry-run"),
    ("unfence", "n1", "--dry-run"),
    ("orphans", "--csi-address={place}/h.sock"),
)
ON_A_DRIVER: Final = (
    ("call", "GetPluginInfo", "--csi-address={place}/h.sock"),
    *(("conform", "unix://{place}/h.sock", "--only=create-volume-without-name", f"-o={one}") for one in OUTPUTS),
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of an API server and a driver, with the kubeconfig."""
    place = tmp_path_factory.mktemp("cluster")
    mooring = [sys.executable, "-m", "mooring.cli.mooring"]
    server = [*mooring, "apiserver", f"--state={place}/s", "--port=0", f"--kubeconfig={place}/kubeconfig"]
    driver = [*mooring, "driver", "hostpath", *(one.format(place=place) for one in HOSTPATH)]
    programs = [Program(server, place / "server.log"), Program(driver, place / "driver.log")]
    try:
        eventually(lambda: "export KUBECONFIG=" in programs[0].output_alive(), 30, "the server answers")
        eventually((place / "h.sock").exists, 30, "the driver answers")
        url = programs[0].output().split("answers on ")[1].split()[0]
        rest = Rest(url, place / "s" / "tls" / "ca.crt", (place / "s" / "tls" / "token").read_text())
        rest.post("/api/v1/nodes", a_ready_node("n1")).ok(201)
        rest.post("/api/v1/namespaces/default/persistentvolumeclaims", a_claim("a")).ok(201)
        rest.post("/api/v1/namespaces/default/pods", a_pod("web-0", "a")).ok(201)
        rest.close()
        yield place
    finally:
        for one in programs:
            one.stop()


@each_row("words", [*((*words, *CLUSTER) for words in ON_A_CLUSTER), *ON_A_DRIVER], fresh=[_logging_as_before])
def test_a_stdout_that_is_full_is_one_line_after_a_look_outside(cluster: Path, words: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        code, _, err = _entered([one.format(place=cluster) for one in words], cluster, full)
    (line,) = [one for one in err.decode().splitlines() if not one.startswith(("kept", "broke"))]
    assert 1 == code
    assert "stdout can't be written: No space left on device; make room" in line


@each_row("words", WRITERS, fresh=[_logging_as_before])
def test_a_stdout_that_nobody_reads_is_a_quiet_end(tmp_path: Path, words: tuple[str, ...]) -> None:
    place = _places(tmp_path)
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as gone:
        code, _, err = _entered([one.format(place=place) for one in words], place, gone)
    assert (border.CUT_OFF, []) == (code, [one for one in err.decode().splitlines() if not one.startswith("I")])


EXECUTABLES: Final = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]["scripts"]


def _ended(name: str, words: str) -> tuple[int, str]:
    """words: as a shell reads them. The exit code and stderr."""
    module, _, function = EXECUTABLES[name].partition(":")
    code = f"import sys; from {module} import {function} as main; sys.argv[0] = {name!r}; sys.exit(main())"
    line = ["sh", "-c", f'exec {PYTHON} -c "$CODE" {words}']
    done = subprocess.run(line, env={**os.environ, "CODE": code}, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@each_row("name", EXECUTABLES)
def test_the_interpreter_has_nothing_to_add_at_the_end(name: str) -> None:
    """What is left in the buffer of a stream fails again when the interpreter ends: with words of its own, and 120."""
    code, err = _ended(name, "--version >/dev/full")
    assert (1, 1) == (code, err.count("\n")), err


@each_row("name", ["mooring", "csi-attacher"])
def test_a_stream_that_takes_nothing_or_is_closed_changes_no_exit_code(name: str) -> None:
    assert (0, "") == _ended(name, "--version >&-")
    assert (0, "") == _ended(name, "--version <&-")
    assert (2, "") == _ended(name, "--no-such-flag 2>/dev/full")
    assert (2, "") == _ended(name, "--no-such-flag 2>&-")


# -- files that grow by lines


def test_logs_on_a_full_disk_change_no_answer(mounts: Path) -> None:
    """They take nothing any more; the driver answers, and conform judges it."""
    place = _places(mounts)
    driver = [*(one.format(place=place) for one in HOSTPATH), f"--call-log={place}/full/calls"]
    program = Program([sys.executable, "-m", "mooring.cli.mooring", "driver", "hostpath", *driver], place / "log")
    try:
        eventually((place / "h.sock").exists, 30, "the driver answers")
        assert (0, "") == _said(["call", "GetPluginInfo", f"--csi-address={place}/h.sock"], place, apart=True)
        eventually(lambda: "The log of calls ends here" in program.output_alive(), 10, "it says so, once")
    finally:
        program.stop()
    words = ["conform", MODULE, f"--option=folder={place}/v", "--only=create-volume-without-name"]
    assert (0, "") == _said([*words, f"--driver-log={place}/full/driver"], place, apart=True)


def test_a_log_of_the_driver_on_a_full_disk_goes_on_on_the_screen() -> None:
    told: list[str] = []

    class Told:
        def happening(self, one: Any) -> None:
            told.append(one.what)

    story = Story(Told(), mock.Mock(now=lambda: 0.0))  # type: ignore[arg-type]
    with open("/dev/full", "w", buffering=1) as full:
        story.driver_log = full
        story.printed("one")
        story.printed("two")
        assert [True, False, False] == ["No space left on device; make room" in one for one in told]
        assert ["one", "two"] == told[1:]
        border.give_up(full)
