"""The real kubectl as a user types it, when he changes something: the same lines on both servers, and the same words
from both.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.kubectl_pair import Life, a_harbour
from tests.support.terminal import Terminal

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.long]

Agree = Callable[[Life], None]


def test_objects_are_made(agree: Agree) -> None:
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


def test_objects_are_changed(agree: Agree) -> None:
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
            patch pod pod --subresource=status \
                -p '{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}'
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


def test_objects_go_and_are_waited_for(agree: Agree) -> None:
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
