"""The real kubectl as a user types it: the same lines on both servers, and the same words from both.

What differs knowingly is not typed here: docs/apiserver.md names it, and the last tests say what the embedded server says instead.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conformance.conftest import Server
from tests.support.real import kubectl, run_kubectl
from tests.support.terminal import Terminal
from tests.support.typedobjects import BERTH_DEFINITION, BERTHS, MANIFESTS
from tests.support.waiting import eventually

pytestmark = [pytest.mark.real, pytest.mark.slow]

Life = Callable[[Terminal], None]
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def serves_berths(server: Server) -> None:
    """The custom kind is there, in everything that kubectl asks first."""
    api = server.api
    made = api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", BERTH_DEFINITION)
    assert made.status in (201, 409), made
    eventually(lambda: api.get(BERTHS).status == 200, 30, "the kind is served")
    eventually(lambda: "Berth" in api.get("/openapi/v3/apis/kubectl.test/v1").body.decode(), 30, "its schema is published")
    listed = functools.partial(api.request, "GET", "/apis", headers={"Accept": _AGGREGATED})
    eventually(lambda: "berths" in listed().body.decode(), 30, "it is discovered")


@pytest.fixture
def agree(servers: Callable[[str], Server], name: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Life], None]:
    """Types a life on both servers at once; they must say the same, line by line."""

    def begin(which: str) -> Terminal:
        server = servers(which)
        serves_berths(server)
        folder = tmp_path_factory.getbasetemp() / f"kubectl-{which}"
        folder.mkdir(exist_ok=True)
        return Terminal(server.kubeconfig, folder, MANIFESTS, name=name)

    def both(life: Life) -> None:
        terminals = [begin("real"), begin("embedded")]
        with ThreadPoolExecutor(2) as pool:
            lives = [pool.submit(life, terminal) for terminal in terminals]
        different = [embedded.differs_from(real) for real, embedded in zip(*(terminal.said for terminal in terminals), strict=False)]
        assert not any(different), "\n\n".join(filter(None, different))
        for ended in lives:
            ended.result()

    return both


@pytest.fixture
def embedded(servers: Callable[[str], Server], tmp_path: Path) -> Path:
    """A kubeconfig of the embedded server, beside which kubectl keeps its cache."""
    path = tmp_path / "kubeconfig"
    path.write_bytes(servers("embedded").kubeconfig.read_bytes())
    return path


def a_harbour(terminal: Terminal) -> None:
    """One of each, made by kubectl."""
    terminal.type("""
        create namespace {name}
        create -f - < volume,class,node,attachment,csi node,driver,attributes
        create -f - < claim,other claim,pod,capacity,lease,secret,config,berth
    """)
    terminal.words["uid"] = terminal.type("get pvc claim -o jsonpath={.metadata.uid}")
    terminal.type("create -f - < event,earlier event")


def test_what_is_there_is_listed_and_shown(agree: Callable[[Life], None]) -> None:
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


def test_what_is_there_is_described(agree: Callable[[Life], None]) -> None:
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


def test_objects_are_made(agree: Callable[[Life], None]) -> None:
    def life(terminal: Terminal) -> None:
        terminal.type("""
            create namespace {name}
            !create namespace {name}
            !create namespace Bad_Name
            create namespace other-{name} --dry-run=server -o yaml
            create secret generic s --from-literal=a=b --type=example.com/x -o jsonpath={.data}{.type}
            create secret docker-registry reg --docker-server=s --docker-username=u --docker-password=p
            create configmap c --from-literal=a=b -o yaml
            create serviceaccount robot
            create token robot --duration=1h -o jsonpath={.kind}{.spec.audiences}
            !create token nobody
            !create token robot --duration=1s
            run p --image=i --dry-run=server -o yaml
            create -f - < list
            !create -f - < list
            !create -n nowhere -f - < claim
            create -f - --save-config -o jsonpath={.metadata.annotations} < lease
            apply -f - < list
            create -f - < typed list
            get cm,secrets
            create -f - --dry-run=server -o yaml < volume,claim,berth
            create -f - --dry-run=server < volume,claim,berth
            create -f - --dry-run=client -o name < volume,claim,berth
            !create -f - --dry-run=server < nobody's
            !apply -f - < nobody's
            !create -f - --dry-run=server -o name < no name
            !create -f - < no kind
            !create -f - < no base64
            !create -f - < no yaml
            !create -f - < nothing
            delete --raw /api/v1/namespaces/{name}/configmaps/c
            delete -f - < list,typed list
            !delete -f - < list
            delete -f - --ignore-not-found < list
            delete namespace {name} --wait=false
        """)

    agree(life)


def test_objects_are_changed(agree: Callable[[Life], None]) -> None:
    def life(terminal: Terminal) -> None:
        terminal.type("""
            create namespace {name}
            apply -f - < class,node
            apply -f - < claim,pod,lease,config,berth
            apply -f - < claim,pod,lease,config,berth
            apply -f - < larger berth
            !apply -f - < huge berth
            apply -f - --dry-run=server < berth
            apply -f - --dry-run=client -o yaml < berth
            apply view-last-applied be/berth
            KUBE_EDITOR="sed -i s/large/small/" apply edit-last-applied be/berth
            diff -f - < larger berth
            !diff -f - < berth
            apply -f - --prune -l test={name} --prune-allowlist=core/v1/ConfigMap < other config
            get cm -o name
            apply -f - --server-side --force-conflicts < lease
            KUBE_EDITOR="sed -i s/small/large/" edit be berth
            KUBE_EDITOR="sed -i s/large/small/" edit be berth
            KUBE_EDITOR=true edit be berth
            KUBE_EDITOR="sed -i 's/Seconds: 15/Seconds: 16/'" edit lease lease
            patch be berth --type=merge -p '{"spec":{"size":"small"}}'
            patch be berth --type=merge -p '{"spec":{"size":"small"}}'
            patch be berth --type=json -p '[{"op":"add","path":"/spec/ships/-","value":"c"}]' -o jsonpath={.spec.ships}
            patch be berth --type=merge --subresource=status -p '{"status":{"count":2,"selector":"a=b"}}'
            !patch be berth -p '{"spec":{"size":"small"}}'
            !patch be berth --type=merge -p '{"spec":{"size":5}}'
            !patch be berth --type=json -p '[{"op":"test","path":"/spec/size","value":"x"}]'
            !patch be nobody --type=merge -p '{}'
            !patch be berth --type=merge --subresource=nothing -p '{}'
            patch pod pod -p '{"spec":{"containers":[{"name":"c","image":"j"}]}}'
            patch pod pod --subresource=status -p '{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}'
            !patch pod pod -p '{"spec":{"containers":[{"name":"c","$patch":"delete"}]}}'
            !patch pod pod --type=merge -p '{"metadata":{"name":"other"}}'
            !patch pod pod --type=merge -p '{"metadata":{"uid":"other"}}'
            !patch pod pod --type=merge -p '{"metadata":{"resourceVersion":"1"}}'
            patch pod pod --type=merge -p '{"spec":{"odd":1}}'
            !patch sc {name} -p '{"provisioner":"x"}'
            set image pod/pod c=k
            get pods,be
            scale be berth --replicas=3
            scale be berth --replicas=4 --current-replicas=3
            !scale be berth --replicas=5 --current-replicas=1
            !scale pvc claim --replicas=1
            get be berth --subresource=scale
            label be berth x=1
            !label be berth x=2
            label be berth x=2 --overwrite
            label be berth x-
            label be berth none-
            label cm,pvc --all y=1
            !label pvc claim "bad key=1"
            !label pvc claim y=@ --overwrite
            annotate pvc claim example.com/a="some text"
            !annotate pvc claim example.com/a=b
            !annotate pvc claim example.com/a=b --overwrite --resource-version=1
            annotate pvc claim example.com/a-
            annotate pvc claim b=c --dry-run=server
            taint node {name} a=b:NoSchedule
            taint node {name} a-
            cordon {name}
            uncordon {name}
            drain {name} --force --delete-emptydir-data --dry-run=server
            replace -f - < lease
            !replace -f - < other config,nobody's
            replace -f - --subresource=status < berth
            replace --force -f - < lease
            !rollout status pod/pod
            delete pods,pvc --all --force --wait=false
            delete sc,node {name} --wait=false
            delete namespace {name} --wait=false
        """)

    agree(life)


def test_objects_go_and_are_waited_for(agree: Callable[[Life], None]) -> None:
    def life(terminal: Terminal) -> None:
        holding = """patch lease lease --type=merge -p '{"metadata":{"finalizers":["example.com/hold"]}}'"""
        letting_go = """patch lease lease --type=merge -p '{"metadata":{"finalizers":null}}'"""
        a_harbour(terminal)
        terminal.type(holding)
        terminal.type("""
            delete lease lease --dry-run=server
            !delete lease lease --timeout=1s
            delete lease lease --wait=false --now
            delete lease lease --wait=false --force --grace-period=0
            get lease lease -o jsonpath={.metadata.finalizers}
            !wait lease/lease --for=delete --timeout=1s
        """)
        terminal.follow("delete lease lease", letting_go, first=1, count=1)
        terminal.type("""
            wait lease/lease --for=delete --timeout=20s
            !delete lease lease
            delete lease lease --ignore-not-found
            wait be/berth --for=jsonpath={.spec.size}=small --timeout=20s
            wait be/berth --for=jsonpath={.spec.size} --timeout=20s
            wait be/berth --for=create --timeout=20s
            wait crd/berths.kubectl.test --for=condition=Established --timeout=20s
            !wait be/berth --for=jsonpath={.spec.size}=large --timeout=1s
            !wait be/nobody --for=condition=Ready --timeout=1s
            create configmap a
            delete configmap a --cascade=foreground --timeout=20s
            create configmap a
            delete configmap a --cascade=orphan --timeout=20s
            !delete configmap a --cascade=nonsense
            create configmap a
            create configmap b
            label cm a of=x
            delete cm -l of=x
            delete cm,secrets --all
            delete pod pod --grace-period=0 --wait=false
            get pod pod
            delete pod pod --force
            create -f - < pod
            delete pod pod --now --wait=false
            delete pod pod --grace-period=0 --force --wait=false
            get harbour,pods
            delete be -l test={name}
            delete pvc claim --wait=false
            label pvc --all going=yes
            patch pvc claim --type=json -p '[{"op":"remove","path":"/metadata/finalizers"}]'
            patch pvc a-claim --type=merge -p '{"metadata":{"finalizers":null}}'
            patch pv {name} --type=merge -p '{"metadata":{"finalizers":null}}'
            get pvc
            delete pv {name}
            delete -f - < class,node,attachment,csi node,driver
            delete vac {name} --wait=false
            delete namespace {name} --wait=false
        """)

    agree(life)


def test_changes_are_watched(agree: Callable[[Life], None]) -> None:
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
        terminal.follow("get be berth -w -o custom-columns=N:.spec.count,L:.metadata.labels.a", changes, first=2, count=5)
        patch = """patch lease lease --type=merge -p '{"spec":{"holderIdentity":"you"}}'"""
        terminal.follow("get lease -w -o jsonpath='{.spec.holderIdentity}{\"\\n\"}'", patch, first=1, count=2)
        terminal.follow("get pvc -w --show-labels --no-headers", "label pvc claim a=b", first=1, count=2)
        terminal.type("delete namespace {name} --wait=false")

    agree(life)


def test_the_server_is_asked_about_itself(agree: Callable[[Life], None]) -> None:
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
        "get deployments": 'the server doesn\'t have a resource type "deployments"',
        "create job j --image=i": "failed to create job: the server could not find the requested resource",
        "create quota q": "failed to create quota: the server could not find the requested resource",
        "cluster-info": 'the server doesn\'t have a resource type "services"',
    }
    for line, words in refused.items():
        assert words in run_kubectl(embedded, *line.split()).stderr


def test_the_embedded_server_says_who_it_is_and_what_it_checks(embedded: Path) -> None:
    assert "Server Version: v1.36.0+mooring" in kubectl(embedded, "version")
    assert ["Username", "mooring-admin"] == kubectl(embedded, "auth", "whoami").splitlines()[1].split()
    assert "[+]storage ok" in kubectl(embedded, "get", "--raw", "/readyz?verbose")
    assert "# TYPE apiserver_request_total counter" in kubectl(embedded, "get", "--raw", "/metrics")
    assert "/apis/storage.k8s.io/v1" in json.loads(kubectl(embedded, "get", "--raw", "/"))["paths"]


def test_pods_are_not_looked_into(embedded: Path, name: str) -> None:
    kubectl(embedded, "create", "-f", "-", stdin=MANIFESTS["pod"].replace("{name}", name).replace("name: pod", f"name: {name}"))
    no_kubelet = "there is no kubelet behind this API server"
    refused = {"logs": no_kubelet, "exec": no_kubelet, "attach": no_kubelet, "port-forward": "pod is not running. Current status=Pending"}
    for command, words in refused.items():
        done = run_kubectl(embedded, command, name, *({"exec": ["--", "ls"], "port-forward": ["0:80"]}.get(command, [])))
        assert (1, True) == (done.returncode, words in done.stderr), done.stderr
