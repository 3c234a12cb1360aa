"""What is valid in the containers of a pod: the same verdict from both servers."""

from __future__ import annotations

import pytest

from tests.support.pod_specs import (
    CLAIM,
    DUPLICATE,
    FORBIDDEN,
    INVALID,
    NOT_FOUND,
    REQUIRED,
    UNSUPPORTED,
    Row,
    check,
    container,
    first,
    handler,
    mount,
    pod,
    probe,
    variable,
)
from tests.support.rest import Rest

JUDGED: dict[str, Row] = {
    "port0": (container(ports=[{"containerPort": 0}]), [(REQUIRED, ".ports[0].containerPort")]),
    "portbig": (
        container(ports=[{"containerPort": 70000, "hostPort": -1}]),
        [(INVALID, ".ports[0].containerPort"), (INVALID, ".ports[0].hostPort")],
    ),
    "portname": (container(ports=[{"containerPort": 1, "name": "A"}]), [(INVALID, ".ports[0].name")]),
    "portdup": (
        container(ports=[{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]),
        [(DUPLICATE, ".ports[1].name")],
    ),
    "portproto": (container(ports=[{"containerPort": 1, "protocol": "x"}]), [(UNSUPPORTED, ".ports[0].protocol")]),
    "hostport": (
        container(ports=[{"containerPort": 1, "hostPort": 5}, {"containerPort": 2, "hostPort": 5}]),
        [(DUPLICATE, ".ports[1].hostPort")],
    ),
    "hostnet": (
        {**container(ports=[{"containerPort": 1, "hostPort": 5}]), "hostNetwork": True},
        [(INVALID, ".ports[0].hostPort")],
    ),
    "envname": (container(env=[{"name": ""}]), [(REQUIRED, ".env[0].name")]),
    "envname2": (container(env=[{"name": "1a="}]), [(INVALID, ".env[0].name")]),
    "envboth": (
        variable(value="x", valueFrom={"fieldRef": {"fieldPath": "metadata.name"}}),
        [(INVALID, ".env[0].valueFrom")],
    ),
    "envnone": (variable(valueFrom={}), [(INVALID, ".env[0].valueFrom")]),
    "envtwo": (
        variable(valueFrom={"fieldRef": {"fieldPath": "metadata.name"}, "secretKeyRef": {"name": "a", "key": "b"}}),
        [(INVALID, ".env[0].valueFrom")],
    ),
    "envfield": (
        variable(valueFrom={"fieldRef": {"fieldPath": "metadata.foo"}}),
        [(INVALID, ".env[0].valueFrom.fieldRef.fieldPath")],
    ),
    "envfield2": (
        variable(valueFrom={"fieldRef": {"fieldPath": ""}}),
        [(REQUIRED, ".env[0].valueFrom.fieldRef.fieldPath")],
    ),
    "envfield4": (
        variable(valueFrom={"fieldRef": {"fieldPath": "metadata.labels"}}),
        [(UNSUPPORTED, ".env[0].valueFrom.fieldRef.fieldPath")],
    ),
    "envfieldv": (
        variable(valueFrom={"fieldRef": {"apiVersion": "v2", "fieldPath": "metadata.name"}}),
        [(INVALID, ".env[0].valueFrom.fieldRef.fieldPath")],
    ),
    "envres": (
        variable(valueFrom={"resourceFieldRef": {"resource": ""}}),
        [(REQUIRED, ".env[0].valueFrom.resourceFieldRef.resource")],
    ),
    "envres2": (
        variable(valueFrom={"resourceFieldRef": {"resource": "limits.foo"}}),
        [(UNSUPPORTED, ".env[0].valueFrom.resourceFieldRef.resource")],
    ),
    "envdiv": (
        variable(valueFrom={"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}),
        [(INVALID, ".env[0].valueFrom.resourceFieldRef.divisor")],
    ),
    "envsec": (
        variable(valueFrom={"secretKeyRef": {"name": "", "key": ""}}),
        [(INVALID, ".env[0].valueFrom.secretKeyRef.name"), (REQUIRED, ".env[0].valueFrom.secretKeyRef.key")],
    ),
    "envcm": (
        variable(valueFrom={"configMapKeyRef": {"name": "", "key": "a b"}}),
        [(INVALID, ".env[0].valueFrom.configMapKeyRef.name"), (INVALID, ".env[0].valueFrom.configMapKeyRef.key")],
    ),
    "envfrom": (container(envFrom=[{}]), [(INVALID, ".envFrom")]),
    "envfrom2": (container(envFrom=[{"configMapRef": {"name": ""}}]), [(REQUIRED, ".envFrom[0].configMapRef.name")]),
    "envfrom3": (
        container(envFrom=[{"configMapRef": {"name": "a"}, "secretRef": {"name": "a"}}]),
        [(INVALID, ".envFrom")],
    ),
    "envfrom4": (
        container(envFrom=[{"prefix": "a b", "secretRef": {"name": "A_"}}]),
        [(INVALID, ".envFrom[0].secretRef.name")],
    ),
    "mount_none": (container(volumeMounts=[{"name": "v", "mountPath": "/x"}]), [(NOT_FOUND, ".volumeMounts[0].name")]),
    "mount_noname": (mount(name=""), [(REQUIRED, ".volumeMounts[0].name"), (NOT_FOUND, ".volumeMounts[0].name")]),
    "mount_nopath": (mount(mountPath=""), [(REQUIRED, ".volumeMounts[0].mountPath")]),
    "mount_dup": (
        {**container(volumeMounts=[{"name": "v", "mountPath": "/x"}] * 2), "volumes": [{"name": "v"}]},
        [(INVALID, ".volumeMounts[1].mountPath")],
    ),
    "mount_sub": (mount(subPath="../x"), [(INVALID, ".volumeMounts.subPath")]),
    "mount_sub2": (mount(subPath="/x"), [(INVALID, ".volumeMounts.subPath")]),
    "mount_subboth": (mount(subPath="x", subPathExpr="y"), [(INVALID, ".volumeMounts[0].subPathExpr")]),
    "mount_subexpr": (mount(subPathExpr="/y"), [(INVALID, ".volumeMounts.subPathExpr")]),
    "mount_prop": (mount(mountPropagation="x"), [(UNSUPPORTED, ".volumeMounts.mountPropagation")]),
    "mount_bidi": (mount(mountPropagation="Bidirectional"), [(FORBIDDEN, ".volumeMounts.mountPropagation")]),
    "mount_rro": (mount(recursiveReadOnly="Enabled"), [(FORBIDDEN, ".volumeMounts.recursiveReadOnly")]),
    "mount_rro2": (mount(recursiveReadOnly="x", readOnly=True), [(UNSUPPORTED, ".volumeMounts.recursiveReadOnly")]),
    "mount_rro3": (
        mount(recursiveReadOnly="Enabled", readOnly=True, mountPropagation="HostToContainer"),
        [(FORBIDDEN, ".volumeMounts.recursiveReadOnly")],
    ),
    "device_none": (
        container(volumeDevices=[{"name": "v", "devicePath": "/dev/x"}]),
        [(NOT_FOUND, ".volumeDevices[0].name")],
    ),
    "device_empty": (
        {**container(volumeDevices=[{"name": "v", "devicePath": "/dev/x"}]), "volumes": [{"name": "v"}]},
        [(INVALID, ".volumeDevices[0].name")],
    ),
    "device_nopath": (
        {**container(volumeDevices=[{"name": "v", "devicePath": ""}]), "volumes": [CLAIM]},
        [(REQUIRED, ".volumeDevices[0].devicePath")],
    ),
    "device_dots": (
        {**container(volumeDevices=[{"name": "v", "devicePath": "../x"}]), "volumes": [CLAIM]},
        [(INVALID, ".volumeDevices[0].devicePath")],
    ),
    "device_noname": (
        {**container(volumeDevices=[{"name": "", "devicePath": "/dev/x"}]), "volumes": [CLAIM]},
        [(REQUIRED, ".volumeDevices[0].name"), (NOT_FOUND, ".volumeDevices[0].name")],
    ),
    "device_twice": (
        {
            **container(volumeDevices=[{"name": "v", "devicePath": "/dev/x"}, {"name": "v", "devicePath": "/dev/y"}]),
            "volumes": [CLAIM],
        },
        [(INVALID, ".volumeDevices[1].name")],
    ),
    "device_same": (
        {
            **container(volumeDevices=[{"name": "v", "devicePath": "/dev/x"}, {"name": "w", "devicePath": "/dev/x"}]),
            "volumes": [CLAIM, {**CLAIM, "name": "w"}],
        },
        [(INVALID, ".volumeDevices[1].devicePath")],
    ),
    "device_mnt": (
        {
            **container(
                volumeDevices=[{"name": "v", "devicePath": "/dev/x"}], volumeMounts=[{"name": "v", "mountPath": "/y"}]
            ),
            "volumes": [CLAIM],
        },
        [(INVALID, ".volumeMounts[0].name"), (INVALID, ".volumeDevices[0].name")],
    ),
    "device_mntpath": (
        {
            **container(
                volumeDevices=[{"name": "v", "devicePath": "/dev/x"}],
                volumeMounts=[{"name": "w", "mountPath": "/dev/x"}],
            ),
            "volumes": [CLAIM, {"name": "w"}],
        },
        [(INVALID, ".volumeMounts[0].mountPath"), (INVALID, ".volumeDevices[0].devicePath")],
    ),
    "probe_none": (handler(timeoutSeconds=3), [(REQUIRED, ".livenessProbe")]),
    "probe_two": (probe(tcpSocket={"port": 1}), [(FORBIDDEN, ".livenessProbe.tcpSocket")]),
    "probe_neg": (
        probe(timeoutSeconds=-1, periodSeconds=-1, failureThreshold=-1, initialDelaySeconds=-1, successThreshold=-1),
        [
            (INVALID, ".livenessProbe.initialDelaySeconds"),
            (INVALID, ".livenessProbe.timeoutSeconds"),
            (INVALID, ".livenessProbe.periodSeconds"),
            (INVALID, ".livenessProbe.successThreshold"),
            (INVALID, ".livenessProbe.failureThreshold"),
        ],
    ),
    "probe_succ": (probe(successThreshold=2), [(INVALID, ".livenessProbe.successThreshold")]),
    "probe_exec": (handler(exec={}), [(REQUIRED, ".livenessProbe.exec.command")]),
    "probe_http": (handler(httpGet={"port": 0}), [(INVALID, ".livenessProbe.httpGet.port")]),
    "probe_httpname": (handler(httpGet={"port": "A_"}), [(INVALID, ".livenessProbe.httpGet.port")]),
    "probe_scheme": (handler(httpGet={"port": 1, "scheme": "ftp"}), [(UNSUPPORTED, ".livenessProbe.httpGet.scheme")]),
    "probe_hdr": (
        handler(httpGet={"port": 1, "httpHeaders": [{"name": "a b", "value": "x"}]}),
        [(INVALID, ".livenessProbe.httpGet.httpHeaders")],
    ),
    "probe_tcp": (handler(tcpSocket={"port": 99999}), [(INVALID, ".livenessProbe.tcpSocket.port")]),
    "probe_grpc": (handler(grpc={"port": 0}), [(INVALID, ".livenessProbe.grpc.port")]),
    "probe_grace": (
        probe(terminationGracePeriodSeconds=0),
        [(INVALID, ".livenessProbe.terminationGracePeriodSeconds")],
    ),
    "probe_grace_ready": (
        probe("readinessProbe", terminationGracePeriodSeconds=5),
        [(INVALID, ".readinessProbe.terminationGracePeriodSeconds")],
    ),
    "probe_start": (probe("startupProbe", successThreshold=2), [(INVALID, ".startupProbe.successThreshold")]),
    "probe_init": (
        first(livenessProbe={"exec": {"command": ["x"]}}),
        [(FORBIDDEN, "spec.initContainers[0].livenessProbe")],
    ),
    "hook_init": (
        first(lifecycle={"preStop": {"exec": {"command": ["x"]}}}),
        [(FORBIDDEN, "spec.initContainers[0].lifecycle")],
    ),
    "hooks_init": (
        first(lifecycle={"preStop": {}}, livenessProbe={"periodSeconds": -1}, startupProbe={}),
        [(FORBIDDEN, f"spec.initContainers[0].{part}") for part in ("lifecycle", "livenessProbe", "startupProbe")],
    ),
    "hook_always": (
        first(restartPolicy="Always", lifecycle={"preStop": {}}),
        [(REQUIRED, "spec.initContainers[0].lifecycle.preStop")],
    ),
    "hook_none": (container(lifecycle={"preStop": {}}), [(REQUIRED, ".lifecycle.preStop")]),
    "hook_two": (
        container(lifecycle={"preStop": {"exec": {"command": ["x"]}, "httpGet": {"port": 1}}}),
        [(FORBIDDEN, ".lifecycle.preStop.httpGet")],
    ),
    "hook_sleep": (
        container(lifecycle={"preStop": {"sleep": {"seconds": 31}}}),
        [(INVALID, ".lifecycle.preStop.sleep")],
    ),
    "con_rr": (
        container(restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]),
        [(REQUIRED, ".restartPolicy")],
    ),
    "con_rr2": (
        container(restartPolicy="Never", restartPolicyRules=[{"action": "X", "exitCodes": {"operator": "Y"}}]),
        [(UNSUPPORTED, ".restartPolicyRules[0].action"), (UNSUPPORTED, ".restartPolicyRules[0].exitCodes.operator")],
    ),
    "resources_over": (
        container(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
        [(INVALID, ".resources.requests")],
    ),
    "resources_neg": (
        container(resources={"limits": {"cpu": "-1"}}),
        [(INVALID, ".resources.limits[cpu]"), (INVALID, ".resources.requests[cpu]")],
    ),
    "resources_name": (
        container(resources={"limits": {"foo": "1"}}),
        [(INVALID, ".resources.limits[foo]"), (INVALID, ".resources.requests[foo]")],
    ),
    "resources_ext": (
        container(resources={"limits": {"a.b/c": "1"}, "requests": {"a.b/c": "2"}}),
        [(INVALID, ".resources.requests")],
    ),
    "resources_ext2": (container(resources={"requests": {"a.b/c": "1"}}), [(REQUIRED, ".resources.limits")]),
    "resources_frac": (
        container(resources={"limits": {"a.b/c": "1.5"}}),
        [(INVALID, ".resources.limits[a.b/c]"), (INVALID, ".resources.requests[a.b/c]")],
    ),
    "resources_claim": (container(resources={"claims": [{"name": "x"}]}), [(NOT_FOUND, ".resources.claims[0]")]),
    "resources_huge": (container(resources={"limits": {"hugepages-2Mi": "2Mi"}}), [(FORBIDDEN, ".resources")]),
    "resources_storage": (
        container(resources={"limits": {"storage": "1Gi"}}),
        [(INVALID, ".resources.limits[storage]"), (INVALID, ".resources.requests[storage]")],
    ),
    "podres_name": (pod(resources={"limits": {"foo": "1"}}), [(INVALID, "spec.resources.limits[foo]")]),
    "podres_claim": (
        pod(resources={"claims": [{"name": "x"}]}),
        [(FORBIDDEN, "spec.resources.claims"), (NOT_FOUND, "spec.resources.claims[0]")],
    ),
    "podres_less": (
        {**container(resources={"requests": {"cpu": "2"}}), "resources": {"requests": {"cpu": "1"}}},
        [(INVALID, "spec.resources.requests[cpu]")],
    ),
    "rp_name": (
        container(resizePolicy=[{"resourceName": "x", "restartPolicy": "y"}]),
        [(UNSUPPORTED, ".resizePolicy")],
    ),
    "rp_dup": (
        container(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "NotRequired"}] * 2),
        [(DUPLICATE, ".resizePolicy[1]")],
    ),
    # allowed
    "hostip": (container(ports=[{"containerPort": 1, "hostIP": "x"}]), []),
    "portdup2": (container(ports=[{"containerPort": 1}, {"containerPort": 1}]), []),
    "envfield3": (variable(valueFrom={"fieldRef": {"fieldPath": "metadata.labels['a']"}}), []),
    "mount_colon": (mount(mountPath="a:b"), []),
    "device_ok": ({**container(volumeDevices=[{"name": "v", "devicePath": "/dev/x"}]), "volumes": [CLAIM]}, []),
    "device_eph": (
        {
            **container(volumeDevices=[{"name": "v", "devicePath": "/dev/x"}]),
            "volumes": [
                {
                    "name": "v",
                    "ephemeral": {
                        "volumeClaimTemplate": {
                            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
                        }
                    },
                }
            ],
        },
        [],
    ),
    "probe_succ_ready": (probe("readinessProbe", successThreshold=2), []),
    "hook_sleep0": (container(lifecycle={"preStop": {"sleep": {"seconds": 0}}}), []),
    "hook_sig": (container(lifecycle={"stopSignal": "SIGTERM"}), []),
    "init_restart": (first(restartPolicy="Never"), []),
    "init_always": (first(restartPolicy="Always", livenessProbe={"exec": {"command": ["x"]}}), []),
    "con_restart_odd": (container(restartPolicy="bogus"), [(UNSUPPORTED, ".restartPolicy")]),
    "con_restart_empty": (container(restartPolicy=""), [(UNSUPPORTED, ".restartPolicy")]),
    "con_restart": (container(restartPolicy="Always"), []),
    "con_restart2": (container(restartPolicy="Never"), []),
    "resources_eph": (container(resources={"limits": {"ephemeral-storage": "1Gi"}}), []),
    "resources_frac_mem": (container(resources={"limits": {"memory": "0.5"}}), []),
}


@pytest.mark.parametrize("row", JUDGED)
def test_both_judge_alike(api: Rest, row: str) -> None:
    check(api, JUDGED[row], at="spec.containers[0]")
