"""What is told about pods that are taken although something is odd about them."""

from __future__ import annotations

from tests.support.builders import Json
from tests.support.paths import PODS
from tests.support.pod_specs import claim, container, pod, volume
from tests.support.rest import STRATEGIC_PATCH, Rest
from tests.support.rows import each_row

ZONE = "failure-domain.beta.kubernetes.io/zone"
ZONE_NOW = 'deprecated since v1.17; use \\"topology.kubernetes.io/zone\\" instead'
NULL = "labelSelector: a null labelSelector results in matching no pod"
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
IN_ZONE = {"matchExpressions": [{"key": ZONE, "operator": "Exists"}]}
FRACTION = 'fractional byte value \\"500m\\" is invalid, must be an integer'


def on_nodes(**affinity: object) -> Json:
    return pod(affinity={"nodeAffinity": affinity})


def spread(**constraint: object) -> Json:
    full = {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}, **constraint}
    return pod(topologySpreadConstraints=[{field: value for field, value in full.items() if value is not None}])


TOLD: dict[str, tuple[Json, list[str]]] = {
    "nothing": (pod(terminationGracePeriodSeconds=-5), []),
    "variable_goes_on": (container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}]), []),
    "memory": (
        container(resources={"limits": {"memory": "0.5"}}),
        [f"spec.containers[0].resources.{part}[memory]: {FRACTION}" for part in ("limits", "requests")],
    ),
    "label": (pod(nodeSelector={ZONE: "z"}), [f"spec.nodeSelector[{ZONE}]: {ZONE_NOW}"]),
    "required_label": (
        on_nodes(**{REQUIRED: {"nodeSelectorTerms": [IN_ZONE]}}),
        [f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].key: {ZONE} is {ZONE_NOW}"],
    ),
    "preferred_label": (
        on_nodes(**{PREFERRED: [{"weight": 1, "preference": IN_ZONE}]}),
        [f"spec.affinity.nodeAffinity.{PREFERRED}[0].preference.matchExpressions[0].key: {ZONE} is {ZONE_NOW}"],
    ),
    "spread_label": (
        spread(topologyKey=ZONE),
        [f"spec.topologySpreadConstraints[0].topologyKey: {ZONE} is {ZONE_NOW}"],
    ),
    "spread_of_nobody": (spread(labelSelector=None), [f"spec.topologySpreadConstraints[0].{NULL}"]),
    "beside_nobody": (
        pod(affinity={"podAffinity": {REQUIRED: [{"topologyKey": "z"}]}}),
        [f"spec.affinity.podAffinity.{REQUIRED}[0].{NULL}"],
    ),
    "old_volume": (
        volume(glusterfs={"endpoints": "e", "path": "p"}),
        ["spec.volumes[0].glusterfs: deprecated in v1.25, non-functional in v1.26+"],
    ),
    "very_old_volume": (
        volume(gitRepo={"repository": "x"}),
        ["spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"],
    ),
    "claim": (
        claim(resources={"requests": {"storage": "0.5"}}),
        [f"spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]: {FRACTION}"],
    ),
}


@each_row("row", TOLD)
def test_an_odd_pod_is_taken_with_a_warning(api: Rest, row: str) -> None:
    spec, told = TOLD[row]
    answer = api.post(PODS, {"metadata": {"name": "odd"}, "spec": spec}, dryRun="All")
    answer.ok(201)
    assert sorted(f'299 - "{text}"' for text in told) == sorted(answer.warnings)


def test_a_name_that_makes_no_host_name_is_warned_of_once(api: Rest, name: str) -> None:
    answer = api.post(PODS, {"metadata": {"name": f"{name}.dotted"}, "spec": pod()})
    (warning,) = answer.warnings
    assert "this is used in the Pod's hostname, which can result in surprising behavior" in warning
    assert "[must not contain dots]" in warning
    changed = api.patch(f"{PODS}/{name}.dotted", {"metadata": {"labels": {"a": "b"}}}, STRATEGIC_PATCH)
    assert (200, []) == (changed.status, changed.warnings)
