"""What is valid in the containers of a pod: the same verdict from both servers."""

from __future__ import annotations

from tests.support.pod_specs import (
    CLAIM,
    FORBIDDEN,
    INVALID,
    NOT_FOUND,
    REQUIRED,
    UNSUPPORTED,
    Row,
    check,
    container,
    first,
    mount,
    pod,
    probe,
    variable,
)
from tests.support.rest import Rest
from tests.support.rows import each_row

JUDGED: dict[str, Row] = {
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
    "resources_storage": (
        container(resources={"limits": {"storage": "1Gi"}}),
        [(INVALID, ".resources.limits[storage]"), (INVALID, ".resources.requests[storage]")],
    ),
    "podres_name": (pod(resources={"limits": {"foo": "1"}}), [(INVALID, "spec.resources.limits[foo]")]),
    "podres_less": (
        {**container(resources={"requests": {"cpu": "2"}}), "resources": {"requests": {"cpu": "1"}}},
        [(INVALID, "spec.resources.requests[cpu]")],
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


@each_row("row", JUDGED)
def test_both_judge_alike(api: Rest, row: str) -> None:
    check(api, JUDGED[row], at="spec.containers[0]")
