"""Warnings about what is valid and odd in pods and in the kinds that make them: both servers give the same ones."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.support.builders import APP, CONTAINER, Json, a_job, a_workload
from tests.support.paths import JOBS, PODS
from tests.support.pod_specs import container, pod
from tests.support.rest import Rest

GROUP: Final = "/apis/apps/v1/namespaces/default"
PORT: Final = {"containerPort": 80, "protocol": "TCP"}


def ports(*given: Json) -> Json:
    """One on each container."""
    return pod(
        containers=[
            {**CONTAINER, "name": f"c{number}", "ports": [{**PORT, **port}]} for number, port in enumerate(given)
        ]
    )


def files(source: str, *paths: str, **fields: Any) -> Json:
    return {source: {**fields, "items": [{"key": f"k{number}", "path": path} for number, path in enumerate(paths)]}}


def volume(source: Json) -> Json:
    return pod(volumes=[{"name": "v", **source}])


AT = "spec.containers[{}].ports[0]"
WARNED: dict[str, tuple[Json, list[str]]] = {
    "address_alone": (
        ports({"hostIP": "1.2.3.4", "name": "a"}),
        [
            f"{AT.format(0)}: hostIP set without hostPort: {{Name:a HostPort:0 ContainerPort:80 Protocol:TCP HostIP:1.2.3.4}}"
        ],
    ),
    "every_twin": (
        ports({}, {}, {}),
        [
            f"{AT.format(one)}: duplicate port definition with {AT.format(other)}"
            for one, other in ((1, 0), (2, 0), (2, 1))
        ],
    ),
    "any_port_of_the_host": (
        ports({"hostPort": 1}, {}),
        [f"{AT.format(1)}: overlapping port definition with {AT.format(0)}"],
    ),
    "any_address": (
        ports({"hostPort": 1, "hostIP": "1.2.3.4"}, {"hostPort": 1}),
        [f"{AT.format(1)}: dangerously ambiguous port definition with {AT.format(0)}"],
    ),
    "port_names": (
        ports({"name": "a"}, {"name": "a", "containerPort": 81}),
        [
            f'{AT.format(1)}: duplicate port name "a" with {AT.format(0)}, services and probes that select ports by name will use '
            f"{AT.format(0)}"
        ],
    ),
    "variables": (
        container(env=[{"name": "A", "value": value} for value in ("x", "$(A)", "$(A)b")]),
        ['spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply'],
    ),
    "paths": (
        volume(files("configMap", "p", "p/q", "p/", "pq", name="m")),
        [
            f'volume "v" (ConfigMap "m"): overlapping paths: {pair}'
            for pair in ('"p/q" with "p"', '"p" with "p"', '"p" with "p/q"')
        ],
    ),
    "secret_paths": (
        volume(files("secret", "p", "p", secretName="s")),
        ['volume "v" (Secret "s"): overlapping paths: "p" with "p"'],
    ),
    "projected_paths": (
        volume({"projected": {"sources": [files("secret", "p", name="s"), files("configMap", "p/x", name="m"), {}]}}),
        [
            'volume "v" (Projected): overlapping paths: "p/x" (ConfigMap "m") with "p" (Secret "s")',
            'volume "v" (Projected) has no sources provided',
        ],
    ),
    "preferred_values": (
        pod(
            affinity={
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 1,
                            "preference": {
                                "matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "x" * 64]}]
                            },
                        }
                    ]
                }
            }
        ),
        [
            "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].values[1]: "
            f"{'x' * 64} is invalid, must be no more than 63 bytes"
        ],
    ),
    "addresses": (
        pod(dnsConfig={"nameservers": ["FE80::1"]}, hostAliases=[{"ip": "fe80:0::2"}]),
        [
            'spec.dnsConfig.nameservers[0]: IPv6 address "FE80::1" should be in RFC 5952 canonical format ("fe80::1")',
            'spec.hostAliases[0].ip: IPv6 address "fe80:0::2" should be in RFC 5952 canonical format ("fe80::2")',
        ],
    ),
    "no_secrets": (
        pod(imagePullSecrets=[{"name": ""}, {"name": ""}]),
        [
            'spec.imagePullSecrets[1].name: duplicate name ""',
            *(f'spec.imagePullSecrets[{number}].name: invalid empty name ""' for number in (0, 1)),
        ],
    ),
}


def told(warnings: list[str]) -> list[str]:
    return sorted(text.removeprefix('299 - "').removesuffix('"').replace('\\"', '"') for text in warnings)


@pytest.mark.parametrize("row", WARNED)
def test_warnings_about_a_pod(api: Rest, name: str, row: str) -> None:
    spec, wanted = WARNED[row]
    answer = api.post(PODS, {"metadata": {"name": name}, "spec": spec}, dryRun="All")
    answer.ok(201)
    assert sorted(wanted) == told(answer.warnings)


@pytest.mark.parametrize("row", WARNED)
def test_warnings_about_a_template(api: Rest, name: str, row: str) -> None:
    spec, wanted = WARNED[row]
    made = {"metadata": {"name": "A b", "labels": APP}, "spec": spec}
    answer = api.post(f"{GROUP}/deployments", a_workload("Deployment", name, template=made), dryRun="All")
    answer.ok(201)
    below = [text.replace("spec.", "spec.template.spec.") for text in wanted]
    assert sorted(below) == told(answer.warnings)


def test_a_refusal_has_no_warnings_of_its_kind(api: Rest, name: str) -> None:
    spec = {**ports({}, {}), "hostname": "A_b", "dnsConfig": {"nameservers": ["x"]}}
    answer = api.post(PODS, {"metadata": {"name": name}, "spec": spec})
    answer.refused(422, "Invalid")
    assert [] == answer.warnings


def test_a_template_is_warned_about_with_each_generation(api: Rest, name: str) -> None:
    path = f"{GROUP}/deployments"
    template = {"metadata": {"labels": APP}, "spec": ports({}, {})}
    assert 1 == len(api.post(path, a_workload("Deployment", name, template=template)).warnings)
    for change, count in (
        ({"spec": {"replicas": 0}}, 1),
        ({"metadata": {"annotations": {"a": "b"}}}, 1),
        ({"metadata": {"labels": {"a": "b"}}}, 0),
    ):
        assert count == len(api.patch(f"{path}/{name}", change).warnings), change


@pytest.mark.parametrize("kind", ["deployments", "replicasets", "jobs"])
def test_names_that_pods_take_up(api: Rest, name: str, kind: str) -> None:
    title = {"deployments": "Deployment", "replicasets": "ReplicaSet"}.get(kind, "")
    made = a_workload(title, f"{name}.x") if title else a_job(f"{name}.x")
    answer = api.post(f"{GROUP}/{kind}" if title else JOBS, made, dryRun="All")
    answer.ok(201)
    text = (
        "this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended"
    )
    assert [f"metadata.name: {text}: [must not contain dots]"] == told(answer.warnings)


def test_warnings_about_a_stateful_set(api: Rest, name: str) -> None:
    claim = {
        "metadata": {"name": "v"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1500m"}}},
    }
    kept = "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
    made = a_workload("StatefulSet", name, revisionHistoryLimit=-1, volumeClaimTemplates=[claim])
    fraction = 'resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer'
    assert [kept, f"spec.volumeClaimTemplates[0].{fraction}"] == told(api.post(f"{GROUP}/statefulsets", made).warnings)
    changed = api.patch(f"{GROUP}/statefulsets/{name}", {"metadata": {"labels": {"a": "b"}}})
    assert [kept, f"spec.volumeClaimTemplates[0].Spec.{fraction}"] == told(changed.warnings)


def test_a_job_of_very_many_at_once(api: Rest, name: str) -> None:
    answer = api.post(
        JOBS, a_job(name, completionMode="Indexed", completions=100_001, parallelism=10_001), dryRun="All"
    )
    answer.ok(201)
    assert told(answer.warnings)[0].startswith("spec: In Indexed Jobs with a number of completions higher than 10^5")


@pytest.mark.parametrize(
    ("rules", "field"),
    [
        ([{"action": "Ignore", "onPodConditions": [{"type": "a"}]}] * 21, ""),
        ([{"action": "Ignore", "onPodConditions": [{"type": "a"}] * 21}], "[0].onPodConditions"),
    ],
)
def test_rules_of_a_job_are_counted(api: Rest, name: str, rules: list[Json], field: str) -> None:
    answer = api.post(JOBS, a_job(name, podFailurePolicy={"rules": rules}), dryRun="All")
    answer.invalid(
        ("FieldValueTooMany", f"spec.podFailurePolicy.rules{field}", "Too many: 21: must have at most 20 items")
    )
