"""The real kubectl as a user types it, when he looks: the same lines on both servers, and the same words from both.

What differs knowingly is not typed here: docs/apiserver.md names it, and the last tests say what the embedded server
says instead.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.conftest import Server
from tests.support.kubectl_manifests import MANIFESTS
from tests.support.kubectl_pair import Life, a_harbour
from tests.support.real import kubectl, run_kubectl
from tests.support.terminal import Terminal

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.long]

Agree = Callable[[Life], None]


@pytest.fixture
def embedded(servers: Callable[[str], Server], tmp_path: Path) -> Path:
    """A kubeconfig of the embedded server, beside which kubectl keeps its cache."""
    path = tmp_path / "kubeconfig"
    path.write_bytes(servers("embedded").kubeconfig.read_bytes())
    return path


def test_what_is_there_is_listed_and_shown(agree: Agree) -> None:
    def life(terminal: Terminal) -> None:
        a_harbour(terminal)
        terminal.type("""
            get pv,pvc,sc,vac -l test={name}
            get pv,pvc,sc,vac -l test={name} -o wide
            get pods,secrets,cm,leases,events,be,csistoragecapacities
            get pods,secrets,cm,leases,be -o wide
            get pods,secrets,cm,leases,be -o name
            get pods,secrets,cm,leases,be -o yaml
            get volumeattachments,csinodes,csidrivers,nodes,ns -l test={name} --show-labels
            get volumeattachments,csinodes,csidrivers,nodes -l test={name} -o yaml
            get harbour
            get ns {name} -o jsonpath={.status}
            get pv {name} -o json
            get pv {name} -o custom-columns=N:.metadata.name,M:.spec.accessModes[*],X:.spec.none
            get pvc -o jsonpath={.items[*].metadata.name}
            get pvc --sort-by=.metadata.name
            get pvc --sort-by=.spec.volumeMode -o wide --no-headers
            get pvc -A -l test={name},other!=yes
            get pvc -l "test in ({name}, x), other" -L other --show-kind
            get pvc --field-selector metadata.name=claim -o go-template="{{range .items}}{{.metadata.name}}{{end}}"
            get pvc --chunk-size=1
            get pods --field-selector spec.nodeName={name},status.phase!=Running
            get events --field-selector reason=Provisioning,involvedObject.kind=PersistentVolumeClaim -o wide
            get events --sort-by=.lastTimestamp -o custom-columns=R:.reason
            get events.events.k8s.io earlier -o jsonpath={.note}
            get events.v1.events.k8s.io
            get pvc/claim be/berth
            get pvc claim a-claim
            get berths.v1.kubectl.test berth -o kyaml
            get be berth --subresource=scale -o wide
            get be berth --subresource=status
            get pod pod --subresource=status -o name
            get -f - < claim,volume
            get pods,pvc,be --server-print=false
            get pvc nobody --ignore-not-found
            get pods -n nowhere
            get pvc -l other=no
            !get pvc nobody
            !get pvc claim nobody -o name
            !get pvc claim -l test={name}
            !get berths.v2.kubectl.test
            !get pods --field-selector spec.nope=1
            !get pvc claim --subresource=scale
            !get sc {name} --subresource=status
            !get nothings
            !get pods,nothings
            !get pvc claim -o nonsense
            !get --raw /apis/kubectl.test/v1/nothings
            !get --raw /nothing
            !get --raw /api/v1/namespaces/{name}/pods/nobody
            delete pod pod --force
            delete namespace {name} --wait=false
            delete -f - --wait=false < volume,class,node,attachment,csi node,driver,attributes
        """)

    agree(life)


def test_what_is_there_is_described(agree: Agree) -> None:
    def life(terminal: Terminal) -> None:
        a_harbour(terminal)
        terminal.type("""
            describe pv,sc,vac,volumeattachments,csinodes,csidrivers -l test={name}
            describe node {name}
            describe pvc,pod
            describe pvc cla
            describe pvc claim --show-events=false
            describe -f - < claim,secret
            describe secret/secret cm/config lease/lease be/berth csistoragecapacity/capacity event/first
            describe crd berths.kubectl.test
            !describe pvc nobody
            !describe nothing x
            events
            events --for pvc/claim --types=Warning --no-headers
            !events --for nothing/claim
            delete pod pod --force
            delete namespace {name} --wait=false
            delete -f - --wait=false < volume,class,node,attachment,csi node,driver,attributes
        """)

    agree(life)


def test_changes_are_watched(agree: Agree) -> None:
    def life(terminal: Terminal) -> None:
        terminal.type("create namespace {name}\ncreate -f - < lease,berth,claim")
        changes = """
            scale be berth --replicas=5
            label be berth a=b
            delete be berth
        """
        terminal.follow("get be -w", changes, first=2, count=4)
        terminal.type("create -f - < berth")
        terminal.follow("get be -w --output-watch-events -o name", changes, first=1, count=4)
        terminal.type("create -f - < berth")
        terminal.follow(
            "get be berth -w -o custom-columns=N:.spec.count,L:.metadata.labels.a", changes, first=2, count=5
        )
        patch = """patch lease lease --type=merge -p '{"spec":{"holderIdentity":"you"}}'"""
        terminal.follow("get lease -w -o jsonpath='{.spec.holderIdentity}{\"\\n\"}'", patch, first=1, count=2)
        terminal.follow("get pvc -w --show-labels --no-headers", "label pvc claim a=b", first=1, count=2)
        terminal.type("delete namespace {name} --wait=false")

    agree(life)


def test_the_server_is_asked_about_itself(agree: Agree) -> None:
    def life(terminal: Terminal) -> None:
        terminal.type("""
            create namespace {name}
            api-resources --api-group=storage.k8s.io -o wide
            api-resources --api-group=kubectl.test -o wide
            api-resources --api-group=coordination.k8s.io --namespaced=true -o name
            api-resources --categories=harbour --no-headers
            api-resources --api-group=nothing
            explain berth.spec
            explain be.spec.count
            explain be --recursive
            !explain be.nothing
            !explain pv.spec.nothing
            !explain nothing
            auth can-i get pv
            auth can-i create pods/log -q
            auth can-i "*" "*"
            auth can-i get /healthz
            auth can-i list nothings
            get --raw /healthz
            get --raw /livez/ping
            get --raw /apis/kubectl.test
            get --raw /apis/storage.k8s.io
            get --raw /apis/storage.k8s.io/v1/namespaces/{name}/csistoragecapacities?limit=1
            !get --raw /apis/nothing
            !get --raw /api/v1/nothing
            config view -o jsonpath={.clusters[0].cluster.server}
            !top pods
            !top nodes
            !--token=wrong get pods
            !rollout status nothing/x
            !logs nobody
            !exec nobody -- ls
            !port-forward pod/nobody 8080:80
            delete namespace {name} --wait=false
        """)

    agree(life)


def test_what_is_not_served_is_refused_in_kubectls_words(embedded: Path) -> None:
    refused = {
        "get daemonsets": 'the server doesn\'t have a resource type "daemonsets"',
        "create quota q": "failed to create quota: the server could not find the requested resource",
    }
    for line, words in refused.items():
        assert words in run_kubectl(embedded, *line.split()).stderr


def test_kubectl_shows_the_server_and_the_services(embedded: Path, name: str) -> None:
    """cluster-info asks for the Services of kube-system that name themselves parts of the cluster."""
    server = kubectl(embedded, "config", "view", "-o", "jsonpath={.clusters[0].cluster.server}")
    info = run_kubectl(embedded, "cluster-info")
    assert (0, True) == (info.returncode, f"is running at {server}" in info.stdout.replace("\x1b[0;33m", "")), (
        info.stdout
    )
    kubectl(embedded, "create", "service", "nodeport", name, "--tcp=80:8080", "--node-port=30001")
    (shown,) = [line.split() for line in kubectl(embedded, "get", "svc").splitlines() if line.startswith(name)]
    assert [name, "NodePort", "<none>", "<none>", "80:30001/TCP"] == shown[:5]
    assert "8080/TCP" in kubectl(embedded, "describe", "service", name)


def test_the_embedded_server_says_who_it_is_and_what_it_checks(embedded: Path) -> None:
    assert "Server Version: v1.36.0+mooring" in kubectl(embedded, "version")
    assert ["Username", "mooring-admin"] == kubectl(embedded, "auth", "whoami").splitlines()[1].split()
    assert "[+]storage ok" in kubectl(embedded, "get", "--raw", "/readyz?verbose")
    assert "# TYPE apiserver_request_total counter" in kubectl(embedded, "get", "--raw", "/metrics")
    assert "/apis/storage.k8s.io/v1" in json.loads(kubectl(embedded, "get", "--raw", "/"))["paths"]


def test_pods_are_not_looked_into(embedded: Path, name: str) -> None:
    kubectl(embedded, "create", "-f", "-", stdin=MANIFESTS["node"].replace("{name}", name))
    kubectl(
        embedded,
        "create",
        "-f",
        "-",
        stdin=MANIFESTS["pod"].replace("{name}", name).replace("name: pod", f"name: {name}"),
    )
    no_kubelet = "there is no kubelet behind this API server"
    refused = {
        "logs": no_kubelet,
        "exec": no_kubelet,
        "attach": no_kubelet,
        "port-forward": "pod is not running. Current status=Pending",
    }
    for command, words in refused.items():
        done = run_kubectl(
            embedded, command, name, *({"exec": ["--", "ls"], "port-forward": ["0:80"]}.get(command, []))
        )
        assert (1, True) == (done.returncode, words in done.stderr), done.stderr
