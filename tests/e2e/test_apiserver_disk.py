"""`mooring apiserver` and `mooring dev` on a disk that fails: what was acknowledged is there, and the process ends with
the reason.
"""

from __future__ import annotations

import http.client
import json
import re
import resource
import sys
from pathlib import Path

import pytest

from tests.support.builders import a_va
from tests.support.paths import VAS
from tests.support.programs import Program
from tests.support.rest import Rest
from tests.support.waiting import eventually

_GONE = (OSError, http.client.HTTPException)


def started(folder: Path, command: str) -> tuple[Program, Rest]:
    config = folder / "state" / "kubeconfig"
    config.unlink(missing_ok=True)
    program = Program(
        [sys.executable, "-m", "mooring.cli.mooring", command, f"--state={folder / 'state'}"], folder / "log"
    )
    eventually(lambda: bool(program.output_alive()) and config.exists(), 30, "the server answers", 0.02)
    url = json.loads(config.read_text())["clusters"][0]["cluster"]["server"]
    return program, Rest(url, folder / "state" / "tls" / "ca.crt", (folder / "state" / "tls" / "token").read_text())


def leave(program: Program, folder: Path, size: int) -> None:
    """From now on the program's files hold no more than its journal has, and so many bytes."""
    limit = (folder / "state" / "objects.db-wal").stat().st_size + size
    resource.prlimit(program.pid, resource.RLIMIT_FSIZE, (limit, limit))


def names_written(api: Rest) -> tuple[list[str], int]:
    """Names that were acknowledged until one was not, and the code that was told then; 0 for none at all."""
    names: list[str] = []
    for number in range(2000):
        name = f"va-{number}"
        try:
            answer = api.post(VAS, a_va(name, annotations={"x": "y" * 4000}))
        except _GONE:
            return names, 0
        if answer.status != 201:
            answer.refused(500, "InternalError", says="the server could not save its objects and ends")
            return names, answer.status
        names.append(name)
    return names, 201


@pytest.mark.slow
def test_a_disk_that_fails_while_dev_starts_is_what_it_ends_with(tmp_path: Path) -> None:
    """Not with the error of the part that wanted to write just then."""
    program, api = started(tmp_path, "dev")
    try:
        leave(program, tmp_path, 10_000)
        assert 1 == program.wait_exit()
    finally:
        program.kill()
        api.close()
    said = program.output()
    assert "mooring dev: the API objects could not be saved: " in said
    assert "Traceback" not in said


@pytest.mark.slow
@pytest.mark.parametrize("command", ["apiserver", "dev"])
def test_a_disk_that_fails_ends_the_server_and_loses_nothing(tmp_path: Path, command: str) -> None:
    program, api = started(tmp_path, command)
    try:
        leave(program, tmp_path, 1_000_000)  # beyond what the start of dev writes
        names, code = names_written(api)
        assert len(names) > 5
        assert 500 == code, "the first refusal says why"
        assert 1 == program.wait_exit()
    finally:
        program.kill()
        api.close()
    said = program.output()
    assert "The objects could not be saved; nothing is answered from now on" in said
    assert re.search(rf"mooring {command}: the (API )?objects could not be saved: ", said)
    program, api = started(tmp_path, command)
    try:
        assert sorted(names) == [item["metadata"]["name"] for item in api.get(VAS).ok()["items"]]
    finally:
        api.close()
        program.kill()
