"""`mooring doctor` on rights: the table is what deploy/ gives, and what an account lacks is told with its rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.inspect.doctor.finding import Severity
from mooring.inspect.doctor.inventory import Inventory
from mooring.inspect.doctor.needs import NEEDS, makes_groups
from mooring.inspect.doctor.objects import CLUSTER_ROLES
from tests.support.rights import UPSTREAM, UPSTREAM_CAPACITY, UPSTREAM_ELECTION, deployed
from tests.support.sick_cluster import an_inventory, deployment, healthy, judged, rights, sidecar, wrong

Json = dict[str, Any]


@pytest.fixture
def seen(tmp_path: Path) -> Any:
    """Objects as the doctor sees them in a cluster."""

    def read(*objects: Json) -> Inventory:
        return an_inventory(yaml.safe_dump_all(objects), tmp_path, of_files=False)

    return read


PARTS = {
    "csi-attacher": "attacher",
    "csi-provisioner": "provisioner",
    "csi-resizer": "resizer",
    "csi-snapshotter": "snapshotter",
}
GATED = "With --feature-gates=CSIVolumeGroupSnapshot=true"


def as_words(program: str, *, groups: bool) -> set[str]:
    found = set()
    for need in NEEDS[program]:
        if groups or need.when is not makes_groups:
            resource = need.resource + (f".{need.group}" if need.group else "")
            found |= {f"{verb} {resource}{' at home' if need.at_home else ''}" for verb in need.verbs.split()}
    return found


def in_manifest(part: str, feature: str = "") -> set[str]:
    return {f"{right}{' at home' if right.namespace else ''}" for right in deployed(part, feature).rights()}


@pytest.mark.parametrize("program", [*PARTS, "snapshot-controller"])
def test_the_table_of_rights_is_what_deploy_gives(program: str) -> None:
    part = PARTS.get(program, program)
    assert in_manifest(part) == as_words(program, groups=False)
    if any(need.when is makes_groups for need in NEEDS[program]):
        assert in_manifest(part, GATED) == as_words(program, groups=True)


@pytest.mark.parametrize("program", [*PARTS, "snapshot-controller"])
def test_no_go_sidecar_is_asked_for_more_than_its_own_manifest_gives(program: str) -> None:
    """But for the right that is known to be missing there."""
    here = (*UPSTREAM_ELECTION, *UPSTREAM_CAPACITY)
    given = {
        (group, resource, verb)
        for group, resources, verbs in (*UPSTREAM[PARTS.get(program, program)], *here)
        for resource in resources.split()
        for verb in verbs.split()
    }
    asked = {
        (need.group, need.resource, verb)
        for need in NEEDS[program]
        if need.whose != "ours" and need.when is not makes_groups
        for verb in need.verbs.split()
    }
    lacking = {("storage.k8s.io", "volumeattributesclasses", "get")} if program == "csi-provisioner" else set()
    assert lacking == asked - given


def without(objects: list[Json], resource: str, verb: str) -> list[Json]:
    """The objects, with one verb taken out of every rule for the resource."""
    for one in objects:
        for rule in one.get("rules", ()):
            if resource in rule["resources"]:
                rule["verbs"] = [word for word in rule["verbs"] if word != verb]
    return objects


@pytest.mark.parametrize(
    ("resource", "verb", "program"),
    [
        ("volumeattachments/status", "patch", "csi-attacher"),
        ("storageclasses", "list", "csi-provisioner"),
        ("persistentvolumeclaims/status", "patch", "csi-resizer"),
        ("leases", "create", "snapshot-controller"),
    ],
)
def test_a_missing_right_is_told_with_its_rule(seen: Any, resource: str, verb: str, program: str) -> None:
    found = wrong(seen(*without(healthy(), resource, verb)))
    one = next(one for one in found if program in one.about)
    assert (Severity.ERROR, "rights") == (one.severity, one.check)
    assert f"storage/csi has no right to {verb} {resource}" in one.wrong
    rule = yaml.safe_load(one.change.line)[0]
    assert ([resource], [verb]) == (rule["resources"], rule["verbs"])
    home = "role" if resource == "leases" else "clusterrole"
    assert f"edit {home} csi" in one.change.where


def test_an_account_without_any_role_gets_commands_that_make_one(seen: Any) -> None:
    found = judged(seen(deployment(sidecar("csi-attacher"))), "rights")
    one = next(one for one in found if "volumeattachments/status" in one.about + one.wrong)
    name = "csi-attacher-volumeattachments-status"
    assert one.change.line == (
        f"kubectl create clusterrole {name} --verb=patch --resource=volumeattachments.storage.k8s.io/status && "
        f"kubectl create clusterrolebinding {name} --clusterrole={name} --serviceaccount=storage:csi"
    )


def test_a_role_that_reaches_one_namespace_gives_no_right_to_the_cluster(seen: Any) -> None:
    everything = (("", "persistentvolumes", "get list watch patch"),)
    found = judged(seen(deployment(sidecar("csi-attacher")), *rights((), everything)), "rights")
    assert any("persistentvolumes" in one.wrong for one in found)


def test_stars_and_a_groups_binding_give_rights(seen: Any) -> None:
    granted = rights((("*", "*", "*"),))
    granted[1]["subjects"] = [{"kind": "Group", "name": "system:serviceaccounts:storage"}]
    assert [] == judged(seen(deployment(sidecar("csi-attacher")), *granted), "rights")


def test_a_rule_for_named_objects_gives_no_right_to_list_or_create(seen: Any) -> None:
    granted = rights((("*", "*", "*"),))
    granted[0]["rules"][0]["resourceNames"] = ["one"]
    found = judged(seen(deployment(sidecar("csi-attacher")), *granted), "rights")
    assert "storage/csi has no right to create leases.coordination.k8s.io in the namespace storage" in [
        one.wrong.partition("account ")[2] for one in found
    ]
    assert not [one for one in found if "volumeattachments/status" in one.wrong], "it may be for the object that counts"


def test_a_role_that_takes_others_together_gives_their_rights(seen: Any) -> None:
    role, binding = rights((("*", "*", "*"),))[:2]
    part = {**role, "metadata": {"name": "part", "labels": {"part": "csi"}}}
    whole = {**role, "rules": [], "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"part": "csi"}}]}}
    assert [] == judged(seen(deployment(sidecar("csi-attacher")), whole, part, binding), "rights")


def test_nothing_is_said_of_rights_that_could_not_be_seen(seen: Any) -> None:
    inventory = seen(deployment(sidecar("csi-attacher")))
    inventory.hide(CLUSTER_ROLES, "forbidden")
    assert [] == judged(inventory, "rights")
