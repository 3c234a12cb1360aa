"""Every command in a page's code block does what the page promises, typed in the order of the page.

A page has a folder of its own: what it says of `/tmp` and `./` is in there, and ports are free ones. Programs that last
go on until the page ends, and end well then. `PRELUDES` has the pages that are typed; of each other command `ELSEWHERE`
says who types it.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.mooring_dev import needs_mounts
from tests.support.page_commands import PAGES, ROOT, Command, commands_of
from tests.support.pages import blocks
from tests.support.programs import Program, free_ports
from tests.support.real import binary
from tests.support.waiting import eventually

pytestmark = pytest.mark.long

BIN: Final = Path(sys.executable).parent

LASTING: Final[dict[str, str]] = {
    r"mooring dev(?! (kill|revive))": "export KUBECONFIG=",
    r"mooring apiserver --": "export KUBECONFIG=",
    r"mooring driver (run|hostpath)": '"Serving"',
    r"mooring proxy": "Passing calls",
    r"mooring (binder|attachdetach|controller|node-agent)": '"Version"',
    r"csi-node-driver-registrar": "Registration socket is there",
    r"livenessprobe": "CSI driver name",
    r"(csi-(attacher|provisioner|resizer|snapshotter)|snapshot-controller)": '"Version"',
    r"python where.py": '"Starting"',
    r"kubectl get .* --watch": "",
}
"""Programs that last, by the words that they begin with: what they write once they are at work."""

WORDS_FIRST: Final = r"(\S*/)?"


def lasts(text: str) -> str | None:
    """What a program that lasts writes once it is at work; None for a command that ends by itself."""
    return next((sign for words, sign in LASTING.items() if re.match(WORDS_FIRST + words, text)), None)


class Desk:
    """Where somebody types what a page says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[str, Program] = {}
        self.kubeconfig = folder / "kubeconfig"
        self._ports: dict[str, int] = {}
        self._logs = itertools.count()
        (folder / "venv").symlink_to(BIN.parent)  # a path without blanks, wherever the project lies
        self.programs = folder / "venv" / BIN.name
        (folder / "tmp").mkdir()
        (folder / "bin").mkdir()
        (folder / "bin" / "kubectl").symlink_to(binary("kubectl"))

    def type(self, command: Command) -> None:
        """Raises AssertionError where the command does not do what it should."""
        text = self._here(command.text)
        sign = lasts(command.text)
        where = f"{command.page}:{command.line}: {text}"
        if sign is None:
            done = subprocess.run(
                ["bash", "-c", text], cwd=self.folder, env=self._env(), capture_output=True, text=True, timeout=120
            )
            assert done.returncode == 0, f"{where}\n{done.stdout}{done.stderr}"
            return
        program = Program(
            ["bash", "-c", f"cd {self.folder}; exec {text}"], self.folder / f"log-{next(self._logs)}", self._env()
        )
        self.running[command.text] = program
        eventually(lambda: sign in program.output_alive(), 40, where)
        if found := re.findall(r"export KUBECONFIG=(\S+)", program.output()):
            self.kubeconfig = self.folder / found[-1]

    def answer(self, text: str) -> tuple[int, str]:
        """The exit code of a command, and all that it said."""
        done = subprocess.run(
            ["bash", "-c", self._here(text)],
            cwd=self.folder,
            env=self._env(),
            capture_output=True,
            text=True,
            timeout=120,
        )
        return done.returncode, done.stdout + done.stderr

    def start(self, text: str) -> None:
        """What the page takes for granted."""
        self.type(Command("what the page takes for granted", 0, text))

    def leave(self) -> None:
        """Ends what runs, the last one first. Raises AssertionError where one has failed."""
        for text in list(self.running)[::-1]:
            self.end(text)

    def end(self, text: str) -> None:
        program = self.running.pop(text)
        if text.startswith("kubectl"):
            program.kill()  # a watch, which ends with its server
            return
        program.assert_alive()
        code = program.stop(20)
        assert code in (0, 143), f"{text} ended with {code}\n{program.log_tail()}"
        assert "Traceback" not in program.output(), program.log_tail()

    def kill(self) -> None:
        for program in self.running.values():
            program.kill()

    def _here(self, text: str) -> str:
        """The text with this desk's places."""
        parts = text.replace("/run/csi/socket", "/tmp/csi.sock").split(str(ROOT))  # (which may be in /tmp itself)
        text = str(ROOT).join(part.replace("/tmp/", f"{self.folder}/tmp/") for part in parts)
        text = re.sub(r"(?<![\w/])\.venv/bin/", f"{self.programs}/", text)
        if re.match(r"(csi-\w|snapshot-controller)", text):
            text += " --kubeconfig FILE"  # the page has a pod with an account of its own
        text = re.sub(r"^(csi-\w|snapshot-controller|mooring )", rf"{self.programs}/\1", text)
        text = text.replace("$HOME/.kube/config", str(self.kubeconfig)).replace(
            "--kubeconfig FILE", f"--kubeconfig {self.kubeconfig}"
        )
        text = text.replace("/PID/", f"/{self._plane()}/").replace("/…/", f"{self.folder}/tmp/*/")
        return re.sub(
            r"(127\.0\.0\.1)?:(8080|8081|8082|9808|9809)\b", lambda match: f"127.0.0.1:{self._port(match[2])}", text
        )

    def _plane(self) -> int:
        """The process of the running `mooring dev`, 0 for none."""
        return next((program.pid for text, program in self.running.items() if "mooring dev" in text), 0)

    def _port(self, name: str) -> int:
        if name not in self._ports:
            self._ports[name] = free_ports(1)[0]
        return self._ports[name]

    def _env(self) -> dict[str, str]:
        pod = {"POD_NAME": "typed", "POD_NAMESPACE": "default", "NAMESPACE": "default"}
        places = {
            "KUBECONFIG": str(self.kubeconfig),
            "PATH": f"{self.folder / 'bin'}:{self.programs}:{os.environ['PATH']}",
            "TMPDIR": str(self.folder / "tmp"),
        }
        return {**os.environ, **pod, **places}


@pytest.fixture
def desk() -> Iterator[Desk]:
    needs_mounts()
    with tempfile.TemporaryDirectory() as folder:  # a short path: sockets are in it
        found = Desk(Path(folder))
        try:
            yield found
        finally:
            found.kill()


DRIVER: Final = ".venv/bin/mooring driver hostpath --endpoint unix:///tmp/csi.sock --state /tmp/hostpath --node-id n1"
SERVER: Final = ".venv/bin/mooring apiserver --memory --kubeconfig kubeconfig"
DEV: Final = ".venv/bin/mooring dev --state dev"
CLAIM: Final = """kubectl apply -f - <<EOF
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Mi}}
EOF
"""
FAULTS: Final = f"""cat > faults.yaml <<'EOF'
{blocks("proxy.md", "yaml")[0]}EOF
"""
OWN_DRIVER: Final = """cat > my-driver <<'EOF' && chmod +x my-driver
#!/bin/sh
exec mooring driver hostpath --state /tmp/state --node-id "$NODE_ID" --endpoint "$CSI_ENDPOINT"
EOF
"""
MANIFESTS: Final = f"cp -r {shlex.quote(str(ROOT / 'deploy' / 'attacher'))} manifests"


def with_files(desk: Desk) -> None:
    """What the pages let people save, and drivers of their own: one in the place of Go's, and my_driver:MyDriver."""
    serve = (
        f'exec {desk.programs}/mooring driver hostpath --state "{desk.folder}/tmp/$$" --node-id "$NODE_ID" --endpoint '
        '"$CSI_ENDPOINT"\n'
    )
    program = desk.folder / "bin" / "go"
    program.write_text(f"#!/bin/sh\n{serve}")
    program.chmod(0o755)
    shelf = blocks("driver.md")[0]
    for name, text in (
        ("shelf.py", shelf),
        ("shelf.yaml", blocks("driver.md", "yaml")[0]),
        ("where.py", blocks("library.md")[0]),
    ):
        (desk.folder / name).write_text(text)
    own = shelf.replace("class Shelf", "class MyDriver").replace(
        "shelf: Path,", f'folder: Path = Path("{desk.folder}/tmp/shelf"),'
    )
    (desk.folder / "my_driver.py").write_text(
        own.replace(" = shelf, nodes", " = folder, nodes").replace("        shelf.mkdir", "        folder.mkdir")
    )


PRELUDES: Final[dict[str, tuple[str, ...]]] = {
    "docs/apiserver.md": (),
    "docs/attachdetach.md": (SERVER,),
    "docs/attacher.md": (SERVER, DRIVER),
    "docs/binder.md": (SERVER,),
    "docs/call.md": (DRIVER,),
    "docs/conform.md": (OWN_DRIVER,),
    "docs/controller.md": (SERVER, DRIVER),
    "docs/dev.md": (DRIVER,),
    "docs/doctor.md": (DEV, MANIFESTS),
    "docs/driver.md": (),
    "docs/for-driver-authors.md": (),
    "docs/for-operators.md": (DEV,),
    "docs/for-people-on-call.md": (DEV,),
    "docs/for-platform-engineers.md": (),
    "docs/hostpath.md": (),
    "docs/library.md": (SERVER,),
    "docs/node-agent.md": (SERVER,),
    "docs/node-sidecars.md": (),
    "docs/package.md": (SERVER, DRIVER),
    "docs/provisioner.md": (DEV,),
    "docs/proxy.md": (DRIVER, FAULTS),
    "docs/resizer.md": (SERVER, DRIVER),
    "docs/snapshots.md": (SERVER, DRIVER),
    "docs/timeline.md": (DEV,),
    "docs/tracing.md": (SERVER, DRIVER, CLAIM),
    "docs/why.md": (DEV,),
}
"""The pages that are typed here, and what each takes for granted."""

IN_THE_TEXT: Final = {
    r"ls /proc": "\n".join(
        command.text
        for command in commands_of(ROOT / "docs/dev.md")
        if re.search("metadata: {name: reader}|pod/reader", command.text)
    ),
    r"kubectl apply -f - <<EOF\napiVersion: storage.k8s.io/v1\nkind: VolumeAttachment": (
        "kubectl apply -f shelf.yaml && kubectl wait --for=jsonpath='{.status.phase}'=Bound pvc/books"
    ),
}
"""What is typed before a command, since the page's text says so."""

ONE_AT_A_TIME: Final = (r"\.venv/bin/mooring dev(?! (kill|revive))", r"\.venv/bin/mooring driver run")
"""What a page starts again ends before."""

ELSEWHERE: Final[dict[str, str]] = {
    r"make (demo|test|check)\b": ".ci/run",
    r"make (dev|venv|docs)\b": "Makefile",
    r"make images\b": "tests/in_images.py",
    r"podman (build|pull|inspect)": "tests/unit/test_images.py",
    r"\.venv/bin/mooring (unstick|fence|unfence)": "tests/e2e/test_unstick_nights.py",
    r"curl -s 127\.0\.0\.1:8080/metrics \| grep workqueue": "tests/unit/monitoring/test_pages.py",
    r"pip install": "hack/lowest",
    r"kubectl (apply|delete) -k|kubectl -n storage (rollout|scale)": "tests/e2e/test_deploy.py",
    r"kubectl (label|taint) node ": "tests/e2e/test_deploy_variants.py",
    r"kubectl label namespace ": "tests/e2e/test_pod_security.py",
    r"GOBIN|/tmp/csi-sanity|unshare": "tests/real/test_csi_sanity.py",
    r"kubectl patch pod sum-": "tests/support/workload_course.py",
    r"\.venv/bin/python -m tests\.sim\.points": "Makefile",
}
"""Who types the other commands, by the words that they begin with. No engine of containers is here, the package is not
published, and no image is pulled: the images' recipes, the wheel's extras and the manifests are what can be tested of
these.
"""


RUNBOOKS: Final = sorted(page.relative_to(ROOT).as_posix() for page in PAGES if page.parent.name == "runbooks")
NAMES: Final = {
    "KIND": "pvc",
    "NAME": "nobody",
    "POD": "nobody",
    "DRIVER": "nobody",
    "NODE": "n1",
    "NAMESPACE": "default",
    "ACCOUNT": "default",
    "RESOURCE": "pods",
}
"""What stands in a runbook for a name that only its reader knows."""


def elsewhere(text: str) -> str:
    return next((who for words, who in ELSEWHERE.items() if re.match(words, text)), "")


def typed(page: str) -> list[Command]:
    return [command for command in commands_of(ROOT / page) if not elsewhere(command.text)]


@pytest.mark.parametrize("page", sorted(PRELUDES))
def test_each_command_of_a_page_does_what_it_should(page: str, desk: Desk) -> None:
    with_files(desk)
    for text in PRELUDES[page]:
        desk.start(text)
    for command in typed(page):
        words = next((words for words in ONE_AT_A_TIME if re.match(words, command.text)), "")
        for text in [text for text in desk.running if words and re.match(words, text)]:
            desk.end(text)
        for words, text in IN_THE_TEXT.items():
            if re.match(words, command.text):
                desk.start(text)
        desk.type(command)
    desk.leave()


def test_each_command_of_the_runbooks_is_understood(desk: Desk) -> None:
    """Here is no pod of a driver: what is asked about one is not found, but is no mistake of typing either."""
    desk.start(DEV)
    for command in itertools.chain.from_iterable(map(typed, RUNBOOKS)):
        text = re.sub(r"\b[A-Z]+\b", lambda match: NAMES.get(match[0], match[0]), command.text)
        code, said = desk.answer(text)
        where = f"{command.page}:{command.line}: {text}: {code}\n{said}"
        assert (
            code == 0
            if text == command.text
            else code != 2 and not re.search("unknown|[Uu]sage:|have a resource type", said)
        ), where
    desk.leave()


def test_every_command_of_every_page_is_typed_somewhere() -> None:
    pages = {page.relative_to(ROOT).as_posix(): list(commands_of(page)) for page in PAGES}
    here = {*PRELUDES, *RUNBOOKS}
    nowhere = [
        command
        for page, commands in pages.items()
        if page not in here
        for command in commands
        if not elsewhere(command.text)
    ]
    assert [] == nowhere
    assert [] == [page for page in PRELUDES if page not in pages or not typed(page)]
    assert [] == [who for who in ELSEWHERE.values() if not (ROOT / who).exists()]
    used = [
        words
        for words in ELSEWHERE
        if not any(re.match(words, one.text) for commands in pages.values() for one in commands)
    ]
    assert [] == used, "no page has these any more"
