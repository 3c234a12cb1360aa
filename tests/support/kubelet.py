"""The kubelet's part for tests of manifests: containers as processes, probed as their pods say, told in the pods'
status.

What a pod brings is used as it stands: its arguments, its variables, its volumes, a token of its account that is bound
to it. In place of network and file system each pod has a loopback address of its own, on which its containers share the
ports, and folders for its volumes; those of the host are below one folder of the node. A container that ends is a
failed test.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import shutil
import signal
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.builders import Json
from tests.support.control_plane import ControlPlane
from tests.support.programs import Program
from tests.support.rest import MERGE_PATCH, STRATEGIC_PATCH

PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
SINCE = "2026-01-01T00:00:00Z"
"""When everything here began: nobody asks."""

ROOM: Json = {"cpu": "8", "memory": "16Gi", "pods": "110"}

Commands = Callable[[str, Path], Sequence[str | Path]]
"""The entry point of an image, by its name and tag. Path: a kubeconfig in place of the account's files, also in
$KUBECONFIG.
"""


class Kubelet:
    """Of one node. `step` does what is due; call it from the thread that the processes shall live with. host: the
    node's root folder.
    """

    def __init__(self, plane: ControlPlane, commands: Commands, folder: Path, node: str = "node-1") -> None:
        self._plane, self._commands, self._folder, self.node = plane, commands, folder, node
        self.host = folder / "host"
        self.host.mkdir()
        self._pods: dict[str, RunningPod] = {}
        self._made = 0

    def register(self) -> None:
        """The Node: ready, with room, and without the taint that admission gives to new ones."""
        self._ask(
            "POST", NODES, {"metadata": {"name": self.node, "labels": {"kubernetes.io/hostname": self.node}}}, 201
        )
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": SINCE, "lastTransitionTime": SINCE}
        self._patch(
            f"{NODES}/{self.node}/status", {"status": {"capacity": ROOM, "allocatable": ROOM, "conditions": [ready]}}
        )
        status, _ = self._plane.request("PATCH", f"{NODES}/{self.node}", {"spec": {"taints": None}}, MERGE_PATCH)
        assert 200 == status

    def until(self, holds: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Works until it holds. Raises AssertionError naming `what` when it does not in time, and at once when a
        container has ended.
        """
        deadline = time.monotonic() + timeout_s
        while not holds():
            assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}"
            self.step()
            time.sleep(0.1)

    def step(self) -> None:
        """Starts the pods that are new here, ends those that are deleted, and tells of those whose containers have
        become ready.
        """
        found = self._ask("GET", f"{PODS}?fieldSelector=spec.nodeName%3D{self.node}")["items"]
        for pod in found:
            uid = pod["metadata"]["uid"]
            if "deletionTimestamp" in pod["metadata"]:
                self._end(pod)
            elif uid not in self._pods:
                self._pods[uid] = self._started(pod)
            self._tell(uid, pod)

    def logs(self) -> str:
        """The end of each container's output."""
        return "\n".join(program.log_tail(10) for pod in self._pods.values() for program in pod.programs.values())

    def stop(self) -> None:
        """Kills every process."""
        for pod in self._pods.values():
            pod.kill()

    def _started(self, pod: Json) -> RunningPod:
        self._made += 1
        folder = self._folder / str(self._made)
        folder.mkdir()
        port = urlsplit(self._plane.server).port or 0  # nobody else has this one now, nor these addresses
        address = f"127.{port >> 8}.{port & 255}.{self._made}"
        return RunningPod(pod, address, folder, self._login(pod, folder), self._commands, self.host)

    def _login(self, pod: Json, folder: Path) -> Path:
        """A kubeconfig with what the pod's own projected volume would hold. For a pod that has none the file is
        missing.
        """
        found = [
            one["projected"]["sources"] for one in pod["spec"]["volumes"] if one["name"].startswith("kube-api-access-")
        ]
        if not found:
            return folder / "kubeconfig"
        (projected,) = found
        (authority,) = (source["configMap"]["name"] for source in projected if "configMap" in source)
        meta, spec = pod["metadata"], pod["spec"]
        own = f"/api/v1/namespaces/{meta['namespace']}"
        certificate = self._ask("GET", f"{own}/configmaps/{authority}")["data"]["ca.crt"]
        bound = {"kind": "Pod", "apiVersion": "v1", "name": meta["name"], "uid": meta["uid"]}
        asked = {"spec": {"audiences": None, "boundObjectRef": bound}}
        token = self._ask("POST", f"{own}/serviceaccounts/{spec['serviceAccountName']}/token", asked, 201)["status"][
            "token"
        ]
        cluster = {
            "server": self._plane.server,
            "certificate-authority-data": base64.b64encode(certificate.encode()).decode(),
        }
        config: Json = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
        path = folder / "kubeconfig"
        path.write_text(json.dumps(config))
        return path

    def _end(self, pod: Json) -> None:
        if running := self._pods.pop(pod["metadata"]["uid"], None):
            running.end()
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        self._plane.request("DELETE", path, {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}})

    def _tell(self, uid: str, pod: Json) -> None:
        running = self._pods.get(uid)
        if running is not None and (status := running.status()) != running.told:
            meta = pod["metadata"]
            self._patch(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/status", {"status": status})
            running.told = status

    def _ask(self, method: str, path: str, body: Json | None = None, wanted: int = 200) -> Json:
        status, answer = self._plane.request(method, path, body)
        assert wanted == status, (method, path, answer)
        found: Json = json.loads(answer)
        return found

    def _patch(self, path: str, body: Json) -> None:
        status, answer = self._plane.request("PATCH", path, body, STRATEGIC_PATCH)
        assert 200 == status, (path, answer)


class RunningPod:
    """The processes of one pod. told: the status that the API server has of us."""

    def __init__(self, pod: Json, address: str, folder: Path, kubeconfig: Path, commands: Commands, host: Path) -> None:
        self._pod, self._address = pod, address
        self.told: Json = {}
        self.programs: dict[str, Program] = {}
        self._of_host = {
            one["hostPath"]["path"]: host_folder(host, one["hostPath"])
            for one in pod["spec"]["volumes"]
            if "hostPath" in one
        }
        self._volumes = {one["name"]: folder / one["name"] for one in pod["spec"]["volumes"] if "emptyDir" in one}
        for path in self._volumes.values():
            path.mkdir()
        self._volumes |= {
            one["name"]: self._of_host[one["hostPath"]["path"]] for one in pod["spec"]["volumes"] if "hostPath" in one
        }
        for container in pod["spec"]["containers"]:
            variables = self._variables(container)
            words = (self._here(container, _filled_in(word, variables)) for word in container.get("args", ()))
            command = [*commands(container["image"], kubeconfig), *words]
            env = {**os.environ, **variables, "KUBECONFIG": str(kubeconfig)}
            self.programs[container["name"]] = Program(command, folder / f"{container['name']}.log", env)

    def status(self) -> Json:
        """As a kubelet writes it. Raises AssertionError when a container has ended."""
        containers = [self._container_status(one) for one in self._pod["spec"]["containers"]]
        ready = "True" if all(one["ready"] for one in containers) else "False"
        kinds = {"Initialized": "True", "ContainersReady": ready, "Ready": ready}
        conditions = [{"type": kind, "status": value, "lastTransitionTime": SINCE} for kind, value in kinds.items()]
        addresses = {"podIP": self._address, "podIPs": [{"ip": self._address}]}
        return {
            "phase": "Running",
            "startTime": SINCE,
            **addresses,
            "conditions": conditions,
            "containerStatuses": containers,
        }

    def end(self) -> None:
        """SIGTERM for all, and a wait for their ends."""
        for program in self.programs.values():
            program.send(signal.SIGTERM)
        for program in self.programs.values():
            program.wait_exit(30)

    def kill(self) -> None:
        for program in self.programs.values():
            program.kill()

    def _container_status(self, container: Json) -> Json:
        name, image = container["name"], container["image"]
        self.programs[name].assert_alive()
        state = {"running": {"startedAt": SINCE}}
        return {
            "name": name,
            "image": image,
            "imageID": "",
            "ready": self._is_ready(container),
            "restartCount": 0,
            "state": state,
        }

    def _is_ready(self, container: Json) -> bool:
        """What the readiness probe finds; liveness has to hold whenever it does."""
        probes = [container[kind]["httpGet"] for kind in ("readinessProbe", "livenessProbe") if kind in container]
        ports = {one["name"]: one["containerPort"] for one in container.get("ports", ())}
        return all(_answers(f"http://{self._address}:{ports[probe['port']]}{probe['path']}") for probe in probes)

    def _here(self, container: Json, word: str) -> str:
        """An argument with the pod's folders, the host's folders and the pod's address in it."""
        mounted = {
            mount["mountPath"]: self._volumes[mount["name"]]
            for mount in container.get("volumeMounts", ())
            if mount["name"] in self._volumes
        }
        folders = {**self._of_host, **mounted}
        if folders:
            any_of_them = "|".join(re.escape(path) for path in sorted(folders, key=len, reverse=True))
            word = re.sub(rf"({any_of_them})(?=/|$)", lambda found: str(folders[found[1]]), word)
        return re.sub(r"=:(\d+)$", rf"={self._address}:\1", word)

    def _variables(self, container: Json) -> Mapping[str, str]:
        fields = {f"metadata.{key}": self._pod["metadata"][key] for key in ("name", "namespace")}
        fields["spec.nodeName"] = self._pod["spec"]["nodeName"]
        return {one["name"]: fields[one["valueFrom"]["fieldRef"]["fieldPath"]] for one in container.get("env", ())}


def host_folder(host: Path, volume: Json) -> Path:
    """Where a path of the host is. Raises AssertionError for one that has to be there and is not."""
    path = host / volume["path"].lstrip("/")
    if volume.get("type") == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
    assert path.is_dir(), f"{volume['path']} is no folder of this node"
    return path


def _filled_in(word: str, variables: Mapping[str, str]) -> str:
    return re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], word)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@contextlib.contextmanager
def a_kubelet(plane: ControlPlane, commands: Commands) -> Iterator[Kubelet]:
    """A registered node with its kubelet. What its containers said last is shown when a test fails."""
    folder = Path(tempfile.mkdtemp(prefix="mooring-pods-"))  # short: there are sockets in it
    kubelet = Kubelet(plane, commands, folder)
    kubelet.register()
    try:
        yield kubelet
    except BaseException as error:
        error.add_note(kubelet.logs())
        raise
    finally:
        kubelet.stop()
        shutil.rmtree(folder, ignore_errors=True)
