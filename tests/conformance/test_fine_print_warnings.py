"""Warnings about what is valid and odd in pods and in the kinds that make them: both servers give the same ones."""

from __future__ import annotations

from typing import Final

from tests.support.builders import APP, Json, a_job, a_workload
from tests.support.paths import JOBS, PODS
from tests.support.pod_specs import pod
from tests.support.rest import Rest
from tests.support.rows import each_row

GROUP: Final = "/apis/apps/v1/namespaces/default"
PORT: Final = {"containerPort": 80, "protocol": "TCP"}


WARNED: dict[str, tuple[Json, list[str]]] = {
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
            "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference."
            "matchExpressions[0].values[1]: "
            f"{'x' * 64} is invalid, must be no more than 63 bytes"
        ],
    ),
}


def told(warnings: list[str]) -> list[str]:
    return sorted(text.removeprefix('299 - "').removesuffix('"').replace('\\"', '"') for text in warnings)


OLD = pod(volumes=[{"name": "v", "gitRepo": {"repository": "x"}}])
"""A spec that earns a warning."""


@each_row("row", WARNED)
def test_warnings_about_a_pod(api: Rest, name: str, row: str) -> None:
    spec, wanted = WARNED[row]
    answer = api.post(PODS, {"metadata": {"name": name}, "spec": spec}, dryRun="All")
    answer.ok(201)
    assert sorted(wanted) == told(answer.warnings)


@each_row("row", WARNED)
def test_warnings_about_a_template(api: Rest, name: str, row: str) -> None:
    spec, wanted = WARNED[row]
    made = {"metadata": {"name": "A b", "labels": APP}, "spec": spec}
    answer = api.post(f"{GROUP}/deployments", a_workload("Deployment", name, template=made), dryRun="All")
    answer.ok(201)
    below = [text.replace("spec.", "spec.template.spec.") for text in wanted]
    assert sorted(below) == told(answer.warnings)


def test_a_refusal_has_no_warnings_of_its_kind(api: Rest, name: str) -> None:
    spec = {**OLD, "hostname": "A_b"}
    answer = api.post(PODS, {"metadata": {"name": name}, "spec": spec})
    answer.refused(422, "Invalid")
    assert [] == answer.warnings


def test_a_template_is_warned_about_with_each_generation(api: Rest, name: str) -> None:
    path = f"{GROUP}/deployments"
    template = {"metadata": {"labels": APP}, "spec": OLD}
    assert 1 == len(api.post(path, a_workload("Deployment", name, template=template)).warnings)
    for change, count in (
        ({"spec": {"replicas": 0}}, 1),
        ({"metadata": {"annotations": {"a": "b"}}}, 1),
        ({"metadata": {"labels": {"a": "b"}}}, 0),
    ):
        assert count == len(api.patch(f"{path}/{name}", change).warnings), change


@each_row("kind", ["deployments", "replicasets", "jobs"])
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


@each_row(
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
