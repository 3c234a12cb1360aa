"""kubectl as a user types it: lines in, and what was said, in a form in which two servers that agree say the same."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import json
import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

import yaml

from tests.support.real import binary

_TIMEOUT_S = 60.0
_SERVER = re.compile(r"https://127\.0\.0\.1:\d+")
_ALIKE = (
    # what may differ between two servers, and what stands in its place
    (re.compile(r"^[IWE]\d{4} .*\n", re.M), ""),  # a log line of kubectl's own
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| \+0000)"), "TIME"),
    (re.compile(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"), "TIME"),
    (re.compile(r"(resource ?version['\"]?:? +['\"]?|was )\d+", re.I), r"\1VERSION"),
    (re.compile(r"\b(\d+[smhdy]){1,2}\b"), "AGE"),
    (re.compile(r"/tmp/[\w./-]+"), "FILE"),
    (re.compile(r"(?<=\S)  +"), "  "),
)


@dataclasses.dataclass(frozen=True)
class Said:
    """A line, and what came of it."""

    line: str
    code: int | None
    out: list[str]
    err: list[str]

    def differs_from(self, other: Said) -> str:
        """Where the words are others; "" where they are the same."""
        ours, theirs = ([f"(ended with {said.code})", *said.out, *said.err] for said in (self, other))
        return "" if self == other else "\n".join([self.line, *difflib.unified_diff(theirs, ours, lineterm="", n=2)])


class Terminal:
    """One server's. folder: where kubectl keeps what it has learnt. words: what stands for {name} and the like in lines
    and manifests.
    """

    def __init__(self, kubeconfig: Path, folder: Path, manifests: Mapping[str, str], **words: str) -> None:
        assert "name" in words, "the namespace of all lines"
        self.words = words
        self.said: list[Said] = []
        self._manifests = manifests
        self._command: list[str | Path] = [
            binary("kubectl"),
            f"--kubeconfig={kubeconfig}",
            f"--cache-dir={folder / 'cache'}",
            "-n",
            words["name"],
        ]
        self._environment = {**os.environ, "HOME": str(folder), "NO_COLOR": "1"}

    def type(self, lines: str) -> str:
        """Each line is what follows `kubectl`; gives the output of the last.

        A line that begins with ! must fail, any other must not. VARIABLE=value may stand before the command; `< a,b`
        gives it those manifests.
        """
        out = ""
        for line in filter(None, map(str.strip, lines.splitlines())):
            words, environment, stdin = self._understood(line)
            done = subprocess.run(
                [*self._command, *words],
                input=stdin,
                env={**self._environment, **environment},
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
            out = done.stdout
            self._keep(line, done.returncode, out, done.stderr)
            assert (done.returncode != 0) == line.startswith("!"), (
                f"{line} ended with {done.returncode}: {done.stderr}{out}"
            )
        return out

    def follow(self, line: str, meanwhile: str, *, first: int, count: int) -> None:
        """A line that does not end by itself. meanwhile: typed once the first lines are out. count: it is ended after
        so many.
        """
        words, environment, _ = self._understood(line)
        place = len(self.said)
        with subprocess.Popen(
            [*self._command, *words],
            env={**self._environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as running:
            assert running.stdout is not None
            try:
                out = [running.stdout.readline() for _ in range(first)]
                self.type(meanwhile)
                out += [running.stdout.readline() for _ in range(count - first)]
            finally:
                running.kill()
        self._keep(line, None, "".join(out), "")
        self.said.insert(place, self.said.pop())

    def _understood(self, line: str) -> tuple[list[str], dict[str, str], str]:
        """Words, variables and standard input."""
        typed, _, manifests = line.removeprefix("!").partition(" < ")
        words, environment = shlex.split(self._filled(typed)), dict[str, str]()
        while re.match(r"[A-Z_]+=", words[0]):
            variable, _, value = words.pop(0).partition("=")
            environment[variable] = value
        given = [self._filled(self._manifests[manifest.strip()]) for manifest in manifests.split(",") if manifest]
        return words, environment, "\n---\n".join(given)

    def _filled(self, text: str) -> str:
        for word, value in self.words.items():
            text = text.replace(f"{{{word}}}", value)
        return text

    def _keep(self, line: str, code: int | None, out: str, err: str) -> None:
        self.said.append(Said(line, code, alike(out), alike(err)))


def alike(text: str) -> list[str]:
    """Lines without what two servers may say differently: ids, versions, times, ages, addresses, blanks, the order of
    JSON's members.
    """
    with contextlib.suppress(ValueError):
        value = json.loads(text)
        text = yaml.safe_dump(value) if isinstance(value, dict | list) else text
    text = _SERVER.sub("SERVER", text)
    for pattern, instead in _ALIKE:
        text = pattern.sub(instead, text)
    return text.splitlines()
