"""Item 27 b6: shells complete commands and flags, by scripts that `mooring completion` prints."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.base.flags import Section, flags_of
from mooring.cli import completion
from mooring.cli import mooring as command
from mooring.cli.completion import SHELLS, TABLES
from mooring.cli.dev import DevFlags
from tests.support.embedded import EmbeddedServer
from tests.support.in_process import in_process
from tests.support.rows import each_row


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert 0 == command.run(["completion", shell])
    out, err = capsys.readouterr()
    assert "" == err
    return out


def test_every_command_is_completed() -> None:
    assert set(command.COMMANDS) == {path for path in TABLES if " " not in path}


@each_row("shell", SHELLS)
def test_a_script_has_all_commands_and_their_flags(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = script(shell, capsys)
    assert [] == [word for path in TABLES for word in path.split() if word not in text]
    for path, place in TABLES.items():
        assert [] == [row.name for row in completion._rows(place) if row.name not in text], path


@each_row("shell", SHELLS)
def test_the_shell_reads_its_script(shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    if (program := shutil.which(shell)) is None:
        return  # its script is compared with the tables all the same
    file = tmp_path / "script"
    file.write_text(script(shell, capsys))
    subprocess.run([program, "-n", file], check=True, timeout=30)


@each_row(
    ("words", "expected"),
    [
        (["dr"], ["driver"]),
        (["apiserver", "ba"], ["backup"]),
        (["dev", "kill"], ["kill-node"]),
        (["dev", "--nod"], ["--node-id", "--node-monitor-grace-period", "--nodes"]),
        (["driver", "run", "--kubelet"], ["--kubelet-registration-path"]),
        (["orphans", "--o", ""], ["table", "json"]),
        (["why", "-o", ""], ["text", "json", "yaml"]),
        (["why", "--output", "=", "y"], ["yaml"]),
        (["why", "--output", "="], ["text", "json", "yaml"]),
        (["timeline", "--output", ""], ["text", "json", "yaml", "html"]),
        (["why", "-n", "s"], ["shop", "shipping"]),
        (["unstick", "--kubeconfig", "=", "/x", "--namespace", "=", "sh"], ["shop", "shipping"]),
        (["timeline", "pod/web-0", "--namespace", ""], ["default", "shop", "shipping"]),
        (["completion", "f"], ["fish"]),
        (["call", "CreateV"], ["CreateVolume", "CreateVolumeGroupSnapshot"]),
        (["call", "NodeStageVolume", "--csi-address", "/x", "volume_id", "=", "a", "publ"], ["publish_context."]),
        (["call", "CreateVolume", "capacity_range.r"], ["capacity_range.required_bytes="]),
        (["call", "CreateVolume", "volume_capabilities.access_mode.m"], ["volume_capabilities.access_mode.mode="]),
        (
            ["call", "CreateVolume", "volume_capabilities.access_mode.mode", "=", "MULTI_NODE_R"],
            ["MULTI_NODE_READER_ONLY"],
        ),
        (["conform", "--only", "=", "snapshot-tw"], ["snapshot-twice"]),
        (["node-agent", "--l"], ["--logging-format"]),
        (["node-agent", "--f"], ["--feature-gates"]),
    ],
)
def test_bash_completes(
    words: list[str], expected: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "script").write_text(script("bash", capsys))
    asked, answer = tmp_path / "asked", tmp_path / "answer"
    environ = with_namespaces(tmp_path, f"printf '%s\\0' \"$@\" > {asked}\ncat {answer}")
    found = bash_completes(words, tmp_path, environ)
    if asked.exists():  # once more, with the program's answer
        answer.write_text(in_process(command.run, *asked.read_text().split("\0")[:-1]).stdout)
        found = bash_completes(words, tmp_path, environ)
    assert expected == found


def test_bash_asks_the_program_itself(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "script").write_text(script("bash", capsys))
    words = ["call", "CreateVolume", "capacity_range.r"]
    assert ["capacity_range.required_bytes="] == bash_completes(words, tmp_path, with_namespaces(tmp_path))


def bash_completes(words: list[str], folder: Path, environ: dict[str, str]) -> list[str]:
    """What bash offers after these words, by the script in the folder."""
    line = (
        f'source {folder}/script; COMP_WORDS=(mooring "$@"); COMP_CWORD=$#; $(complete -p mooring | grep -o '
        '"_[a-z_]*mooring") mooring'
    )
    line += '; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "-c", line, "bash", *words], capture_output=True, text=True, check=True, timeout=30, env=environ
    )
    return done.stdout.split()


REAL = f'exec "{Path(sys.executable).parent}/mooring" "$@"'


def with_namespaces(folder: Path, otherwise: str = REAL) -> dict[str, str]:
    """An environment with a `mooring` that knows three namespaces, and is else the real one."""
    program = folder / "mooring"
    names = '[ "$1 $2" = "completion namespaces" ] && printf "default\\nshop\\nshipping\\n" && exit\n'
    program.write_text(f"#!/bin/sh\n{names}{otherwise}\n")
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


@each_row(
    ("line", "expected"),
    [
        ("mooring why -n s", ["shop", "shipping"]),
        ("mooring timeline --output=h", ["--output=html"]),
        ("mooring why --kubeconfig /x --namespace=sho", ["--namespace=shop"]),
    ],
)
def test_fish_completes(line: str, expected: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    if (fish := shutil.which("fish")) is None:
        assert "mooring completion namespaces" in script("fish", capsys)
        return
    file = tmp_path / "script"
    file.write_text(script("fish", capsys))
    words = [fish, "--no-config", "-c", f'source {file}; complete -C "{line}"']
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=30, env=with_namespaces(tmp_path))
    assert expected == [one.partition("\t")[0] for one in done.stdout.splitlines() if one]


def test_zsh_completes_values_behind_an_equals_sign(capsys: pytest.CaptureFixture[str]) -> None:
    text = script("zsh", capsys)
    assert '{-o=,--o=}"[The same as --output.]:string:(text json yaml html)"' in text
    assert text.count(":string:_mooring_namespaces") == 6
    assert '  "--watch[Look again' in text, "a flag without a value"


def test_the_namespaces_are_those_of_the_cluster_that_the_line_names(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with EmbeddedServer(tmp_path / "server") as server:
        for words in (
            ["--kubeconfig", str(server.kubeconfig)],
            [f"--kubeconfig={server.kubeconfig}"],
            ["-kubeconfig", "=", str(server.kubeconfig)],
        ):
            assert 0 == command.run(["completion", "namespaces", "why", *words, "-n", "d"])
            assert {"default", "kube-system"} <= set(capsys.readouterr().out.split())
    assert 1 == command.run(["completion", "namespaces", "why", f"--kubeconfig={tmp_path / 'none'}"])
    assert "" == capsys.readouterr().out


def test_flags_that_do_nothing_are_not_offered(capsys: pytest.CaptureFixture[str]) -> None:
    assert {row.section for row in flags_of(DevFlags).values()}.isdisjoint({Section.COMPATIBLE})
    assert "automaxprocs" not in script("bash", capsys)


@each_row(("words", "text"), [([], "give one SHELL of bash, zsh, fish"), (["tcsh"], "not 'tcsh'")])
def test_another_shell_is_refused(words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == command.run(["completion", *words])
    assert text in capsys.readouterr().err


def test_without_the_package_it_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert 1 == command.run(["completion", "bash"])
    assert "needs the package shtab, which is not installed" in capsys.readouterr().err
