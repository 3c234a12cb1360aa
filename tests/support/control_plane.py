"""A real control plane for tests: etcd and kube-apiserver on loopback, controllers and a scheduler on request.

About five seconds to start, so the fixture `control_plane` is shared by all tests and all workers of a run: names must
be a test's own. Two controllers run on it, whose work the embedded server does by itself: owner references are
collected, and deleted namespaces are emptied. No other may run there that acts on the whole cluster: who needs one
takes `new_control_plane`.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import trustme

from tests.support.programs import Program, free_ports
from tests.support.real import binary
from tests.support.real import kubectl as real_kubectl
from tests.support.waiting import eventually

ADMIN = "test-admin"
ADMIN_TOKEN = "test-admin-token"
READY_S_MAX = 90.0
HOUSEKEEPING = ("garbage-collector-controller", "namespace-controller")
"""What a kube-apiserver alone does not do, and the embedded server does."""

START_TRIES = 3
NO_ACCOUNTS = ("--disable-admission-plugins=ServiceAccount",)
"""Nobody makes the default accounts that pods would need."""


_KEEPERS: list[subprocess.Popen[bytes]] = []
"""They live until their owners end."""


class PortTaken(AssertionError):
    """Another program listens on a port that was free a moment ago."""


class ControlPlane:
    """`start` makes one in a folder of its own, `attached` uses one that another process started."""

    token = ADMIN_TOKEN
    """The cluster admin's."""

    def __init__(self, folder: Path, server: str) -> None:
        self.folder = folder
        self.server = server
        self.ca_file = folder / "ca.crt"
        self._programs: dict[str, Program] = {}
        self._authority: trustme.CA | None = None

    # -- from start to end

    @classmethod
    def start(
        cls,
        *,
        apiserver_flags: Sequence[str] = (),
        etcd_flags: Sequence[str] = (),
        accounts: bool = False,
        fill: Callable[[str], None] | None = None,
    ) -> Self:
        """A control plane that answers. accounts: pods are admitted with their service account alone, as in a cluster.
        fill: is called with etcd's URL before the API server starts. A port that another program has taken meanwhile is
        drawn again.
        """
        for _ in range(START_TRIES - 1):
            with contextlib.suppress(PortTaken):
                return cls._start(apiserver_flags, etcd_flags, accounts, fill)
        return cls._start(apiserver_flags, etcd_flags, accounts, fill)

    @classmethod
    def _start(
        cls,
        apiserver_flags: Sequence[str],
        etcd_flags: Sequence[str],
        accounts: bool,
        fill: Callable[[str], None] | None,
    ) -> Self:
        programs = {name: binary(name) for name in ("etcd", "kube-apiserver")}  # first of all: the test may end here
        etcd_port, peer_port, port = free_ports(3)
        plane = cls(Path(tempfile.mkdtemp(prefix="mooring-plane-")), f"https://127.0.0.1:{port}")
        try:
            plane._make_certificates()
            plane._run("etcd", [programs["etcd"], *_etcd_flags(plane.folder, etcd_port, peer_port), *etcd_flags])
            if fill is not None:
                etcd = f"http://127.0.0.1:{etcd_port}"
                eventually(lambda: _answers(f"{etcd}/health"), READY_S_MAX, "etcd is ready", every_s=0.1)
                fill(etcd)
            flags = [
                *_apiserver_flags(plane.folder, etcd_port, port),
                *(() if accounts else NO_ACCOUNTS),
                *apiserver_flags,
            ]
            plane._run("kube-apiserver", [programs["kube-apiserver"], *flags])
            eventually(
                lambda: plane._has_ended() or plane.is_ready(), READY_S_MAX, "the API server is ready", every_s=0.1
            )
            for program in plane._programs.values():
                program.assert_alive()
        except BaseException as error:
            tails = plane.log_tails()
            error.add_note(tails)
            plane.stop()
            if isinstance(error, AssertionError) and "address already in use" in tails:
                raise PortTaken(tails) from error
            raise
        return plane

    @classmethod
    def attached(cls, state: str) -> Self:
        """Another process' control plane. state: what `state` gave there."""
        values = json.loads(state)
        return cls(Path(values["folder"]), values["server"])

    def state(self) -> str:
        """What another process needs to use this one."""
        return json.dumps({"folder": str(self.folder), "server": self.server})

    def pids(self) -> tuple[int, ...]:
        """Of the programs that this process started."""
        return tuple(program.pid for program in self._programs.values())

    def _has_ended(self) -> bool:
        """True where one of the programs that this process started does not run any more."""
        return any(program.exit_code is not None for program in self._programs.values())

    def is_ready(self) -> bool:
        """True when the API server says so and its own objects are there. Raises AssertionError when a program has
        ended.
        """
        for program in self._programs.values():
            program.assert_alive()
        try:
            return (
                self.request("GET", "/readyz")[0] == 200 and self.request("GET", "/api/v1/namespaces/default")[0] == 200
            )
        except OSError:
            return False

    def stop(self) -> None:
        """Ends what this process started, the youngest first, and removes the folder."""
        for name in reversed(list(self._programs)):
            self._programs.pop(name).kill()  # nothing here is worth a clean end
        shutil.rmtree(self.folder, ignore_errors=True)

    def log_tails(self, lines_max: int = 30) -> str:
        """The end of each program's output."""
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(
            f"-- {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-lines_max:]) for log in logs
        )

    # -- more programs on it

    def start_controllers(self, *controllers: str, flags: Sequence[str] = ()) -> Program:
        """kube-controller-manager with only these controllers, such as "persistentvolume-attach-detach-controller"."""
        return self._run(
            "kube-controller-manager",
            [
                binary("kube-controller-manager"),
                f"--kubeconfig={self.kubeconfig('kube-controller-manager')}",
                f"--controllers={','.join(controllers)}",
                f"--service-account-private-key-file={self.folder / 'service-accounts.key'}",
                "--leader-elect=false",
                "--secure-port=0",
                *flags,
            ],
        )

    def start_scheduler(self, *flags: str) -> Program:
        """kube-scheduler with its default profile."""
        kubeconfig = self.kubeconfig("kube-scheduler")
        command: list[str | Path] = [
            binary("kube-scheduler"),
            f"--kubeconfig={kubeconfig}",
            "--leader-elect=false",
            "--secure-port=0",
            *flags,
        ]
        return self._run("kube-scheduler", command)

    def start_binding(self) -> None:
        """Everything that binds claims and pods, quick. It acts on the whole cluster."""
        parts = (
            "persistentvolume-binder",
            "persistentvolumeclaim-protection",
            "persistentvolume-protection",
            "ephemeral-volume",
        )
        controllers = (*(f"{part}-controller" for part in parts), "garbage-collector-controller")
        quick = ("--kube-api-qps=1000", "--kube-api-burst=2000")
        self.start_controllers(*controllers, flags=["--pvclaimbinder-sync-period=1s", *quick])
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "podMaxBackoffSeconds": 1,
        }
        client = {"kubeconfig": str(self.kubeconfig("kube-scheduler")), "qps": 1000, "burst": 2000}
        file = self.folder / "scheduler.json"
        file.write_text(json.dumps({**config, "leaderElection": {"leaderElect": False}, "clientConnection": client}))
        self.start_scheduler(f"--config={file}")

    def end(self, name: str) -> None:
        """kill -9 for a program that was started on it."""
        self._programs.pop(name).kill()

    def _run(self, name: str, command: Sequence[str | Path]) -> Program:
        assert name not in self._programs, f"{name} runs already"
        self._programs[name] = Program(command, self.folder / f"{name}.log")
        return self._programs[name]

    # -- access

    def kubeconfig(self, user: str = ADMIN, group: str = "system:masters", *, server: str = "") -> Path:
        """A file that logs in with a client certificate of this user, made once. server: another address, such as a
        proxy's.
        """
        path = self.folder / f"{_file_name(user, group, server)}.kubeconfig"
        if not path.exists():
            # The name is for nobody: Go takes no certificate with an empty list of names.
            certificate = self._ca().issue_cert("client.invalid", common_name=user, organization_name=group)
            login = {
                "client-certificate-data": _base64(certificate.cert_chain_pems[0].bytes()),
                "client-key-data": _base64(certificate.private_key_pem.bytes()),
            }
            self._write_kubeconfig(path, server or self.server, user, login)
        return path

    def token_kubeconfig(self) -> Path:
        """A file that logs in as cluster admin with a bearer token."""
        path = self.folder / "token.kubeconfig"
        if not path.exists():
            self._write_kubeconfig(path, self.server, ADMIN, {"token": ADMIN_TOKEN})
        return path

    def kubectl(self, *args: str, stdin: str = "") -> str:
        """What kubectl prints, as cluster admin. Raises AssertionError with its words when it fails."""
        return real_kubectl(self.kubeconfig(), *args, stdin=stdin)

    def request(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> tuple[int, bytes]:
        """Status and body of one request as cluster admin. body: JSON values. Raises OSError when there was no
        answer.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type, "Accept": "application/json"}
        request = urllib.request.Request(self.server + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(
                request, timeout=30, context=ssl.create_default_context(cafile=self.ca_file)
            ) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def _write_kubeconfig(self, path: Path, server: str, user: str, login: dict[str, str]) -> None:
        cluster = {"server": server, "certificate-authority-data": _base64(self.ca_file.read_bytes())}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": login}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
        }
        write_whole(path, json.dumps(config, indent=1).encode())

    # -- certificates

    def _ca(self) -> trustme.CA:
        if self._authority is None:
            self._authority = trustme.CA.from_pem(self.ca_file.read_bytes(), (self.folder / "ca.key").read_bytes())
        return self._authority

    def _make_certificates(self) -> None:
        authority = self._authority = trustme.CA(organization_name="Mooring tests")
        authority.cert_pem.write_to_path(self.ca_file)
        authority.private_key_pem.write_to_path(self.folder / "ca.key")
        server = authority.issue_cert("127.0.0.1", "localhost", "kubernetes.default.svc")
        server.private_key_pem.write_to_path(self.folder / "server.key")
        for pem in server.cert_chain_pems:
            pem.write_to_path(self.folder / "server.crt", append=True)
        # Any key pair does for signing the tokens of service accounts.
        authority.issue_cert("service-accounts").private_key_pem.write_to_path(self.folder / "service-accounts.key")
        (self.folder / "tokens.csv").write_text(f'{ADMIN_TOKEN},{ADMIN},{ADMIN},"system:masters"\n')


def _etcd_flags(folder: Path, port: int, peer_port: int) -> list[str]:
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    return [
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",  # what is lost with the machine is lost with the test
        "--log-level=warn",
    ]


def _apiserver_flags(folder: Path, etcd_port: int, port: int) -> list[str]:
    return [
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",  # it asks the machine's routes otherwise, and there may be none
        f"--secure-port={port}",
        f"--tls-cert-file={folder / 'server.crt'}",
        f"--tls-private-key-file={folder / 'server.key'}",
        f"--client-ca-file={folder / 'ca.crt'}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder / 'service-accounts.key'}",
        f"--service-account-signing-key-file={folder / 'service-accounts.key'}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--endpoint-reconciler-type=none",
        "--allow-privileged",  # as every cluster has it whose nodes mount with CSI
    ]


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _file_name(*parts: str) -> str:
    return "-".join("".join(letter if letter.isalnum() else "_" for letter in part) for part in parts if part)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def write_whole(path: Path, data: bytes) -> None:
    """Other workers see the whole file or none."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(data)
    Path(file.name).replace(path)


def shared_control_plane(folder: Path, owner: int) -> ControlPlane:
    """Return the one control plane of all processes that name the same folder; the first starts it.

    owner: the process at whose end it ends, such as the one that controls all workers.
    """
    state_file, log = folder / "control-plane.json", folder / "control-plane.log"
    with _locked(folder / "control-plane.lock"):
        if state_file.exists() and (plane := ControlPlane.attached(state_file.read_text())).is_ready():
            return plane
        state_file.unlink(missing_ok=True)
        for name in ("etcd", "kube-apiserver"):
            binary(name)  # the test may end here
        with log.open("ab") as output:
            keeper = subprocess.Popen(
                [sys.executable, "-m", "tests.support.plane_keeper", str(owner), str(folder)],
                cwd=Path(__file__).parents[2],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        _KEEPERS.append(keeper)
        while not state_file.exists():
            assert keeper.poll() is None, f"the control plane did not start: {log.read_text(errors='replace')}"
            time.sleep(0.05)
        return ControlPlane.attached(state_file.read_text())


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
