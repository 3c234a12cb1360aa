"""`mooring doctor` on rights: the table is what deploy/ gives, and what an account lacks is told with its rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.inspect.doctor.finding import Finding, Severity
from mooring.inspect.doctor.inventory import Inventory
from mooring.inspect.doctor.needs import NEEDS, makes_groups
from mooring.inspect.doctor.objects import CLUSTER_ROLES
from tests.support.rights import UPSTREAM, UPSTREAM_CAPACITY, UPSTREAM_ELECTION, deployed
from tests.support.rows import each_row
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


@each_row("program", [*PARTS, "snapshot-controller"])
def test_the_table_of_rights_is_what_deploy_gives(program: str) -> None:
    part = PARTS.get(program, program)
    assert in_manifest(part) == as_words(program, groups=False)
    if any(need.when is makes_groups for need in NEEDS[program]):
        assert in_manifest(part, GATED) == as_words(program, groups=True)


@each_row("program", [*PARTS, "snapshot-controller"])
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


@each_row(
    ("resource", "verb", "program"),
    [
        ("volumeattachments/status", "patch", "csi-attacher"),
        ("storageclasses", "list", "csi-provisioner"),
        ("persistentvolumeclaims/status", "patch", "csi-resizer"),
        ("leases", "create", "snapshot-controller"),
    ],
    fresh=[seen],
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


# -- whom a role is given to


def test_an_account_without_a_namespace_is_in_the_bindings_own(seen: Any) -> None:
    """Only in a RoleBinding: a ClusterRoleBinding has none to give."""
    objects = healthy()
    for one in objects:
        if one["kind"] == "RoleBinding":
            del one["subjects"][0]["namespace"]
    assert [] == wrong(seen(*objects))
    for one in objects:
        if one["kind"] == "ClusterRoleBinding":
            del one["subjects"][0]["namespace"]
    assert wrong(seen(*objects))


def test_an_account_by_its_old_spelling_is_the_same(seen: Any) -> None:
    objects = healthy()
    spec = objects[0]["spec"]["template"]["spec"]
    spec["serviceAccount"] = spec.pop("serviceAccountName")
    assert [] == wrong(seen(*objects))
    spec |= {"serviceAccount": "gone", "serviceAccountName": "csi"}
    assert [] == wrong(seen(*objects)), "the new spelling wins"


def test_the_role_to_change_is_the_one_that_the_programs_other_rights_come_from(seen: Any) -> None:
    """Two roles of one account, with rules for the same resource."""
    names = ("attacher", "provisioner")
    objects = [one for name in names for one in rights(UPSTREAM[name])[:2]]
    for at, one in enumerate(objects):
        one["metadata"] = {"name": names[at // 2]}
        if "roleRef" in one:
            one["roleRef"]["name"] = names[at // 2]
    both = [*without(objects, "persistentvolumes", "patch"), *rights((), UPSTREAM_ELECTION)[2:]]
    found = judged(seen(deployment(sidecar("csi-provisioner"), sidecar("csi-attacher")), *both), "rights")
    lacking = [one for one in found if "to patch persistentvolumes" in one.wrong]
    assert [f"kubectl edit clusterrole {name}" for name in names] == [one.change.where for one in lacking]


# -- what a Go program does without


@each_row(
    ("resource", "verb", "program"),
    [
        ("persistentvolumes", "get", "csi-attacher"),
        ("volumeattachments", "get", "csi-attacher"),
        ("csinodes", "get", "csi-attacher"),
        ("persistentvolumeclaims", "get", "csi-provisioner"),
        ("nodes", "get", "csi-provisioner"),
        ("persistentvolumeclaims", "get", "csi-resizer"),
        ("volumesnapshotclasses", "get", "csi-snapshotter"),
        ("volumesnapshotcontents", "get", "snapshot-controller"),
        ("volumesnapshots/status", "patch", "snapshot-controller"),
    ],
    fresh=[seen],
)
def test_a_verb_that_only_ours_uses_is_no_finding_for_the_go_program(
    seen: Any, resource: str, verb: str, program: str
) -> None:
    granted = without(healthy()[1:5], resource, verb)
    assert [] == judged(seen(deployment(sidecar(program)), *granted), "rights")
    ours = deployment(sidecar(program, image=f"mooring-{program}:1"))
    assert [one for one in judged(seen(ours, *granted), "rights") if f"to {verb}" in one.wrong]


@each_row(
    ("resource", "verb", "program", "follows"),
    [
        ("volumesnapshots", "update", "csi-provisioner", "a snapshot may be deleted while a claim is made of it"),
        ("persistentvolumes", "get", "csi-provisioner", "no claim is cloned from another"),
        ("volumeattributesclasses", "get", "csi-provisioner", "if the driver has them"),
        ("volumeattributesclasses", "watch", "csi-resizer", "if the driver has them"),
    ],
    fresh=[seen],
)
def test_a_right_that_the_go_program_goes_on_without_is_a_note(
    seen: Any, resource: str, verb: str, program: str, follows: str
) -> None:
    pods = deployment(sidecar(program), sidecar("csi-snapshotter"))
    found = judged(seen(pods, *without(healthy()[1:5], resource, verb)), "rights")
    one = next(one for one in found if program in one.about)
    assert (Severity.NOTE, True) == (one.severity, follows in one.follows)


@each_row(
    ("flag", "resource", "program"),
    [
        ("--handle-volume-inuse-error=false", "pods", "csi-resizer"),
        ("--feature-gates=VolumeAttributesClass=false", "volumeattributesclasses", "csi-resizer"),
        ("--feature-gates=VolumeAttributesClass=false", "volumeattributesclasses", "csi-provisioner"),
        ("--feature-gates=Topology=false", "nodes", "csi-provisioner"),
        ("--feature-gates=Topology=false", "csinodes", "csi-provisioner"),
        ("--node-deployment", "csinodes", "csi-provisioner"),
    ],
    fresh=[seen],
)
def test_a_flag_that_switches_a_need_off_counts(seen: Any, flag: str, resource: str, program: str) -> None:
    granted = healthy()[1:5]
    for verb in ("get", "list", "watch"):
        without(granted, resource, verb)

    def lacking(*flags: str) -> list[Finding]:
        found = judged(seen(deployment(sidecar(program, *flags)), *granted), "rights")
        return [one for one in found if f" {resource}" in one.wrong]

    assert lacking()
    assert [] == lacking(flag)


@each_row(
    ("level", "lacking"),
    [("-1", set()), ("0", {"pods"}), ("1", {"pods"}), ("2", {"pods", "replicasets"})],
    fresh=[seen],
)
def test_the_owner_of_capacities_is_looked_up_as_far_as_the_flag_says(seen: Any, level: str, lacking: set[str]) -> None:
    granted = rights((("storage.k8s.io", "*", "*"), ("", "*", "list watch create update patch delete")))
    flags = ("--enable-capacity", f"--capacity-ownerref-level={level}")
    found = judged(seen(deployment(sidecar("csi-provisioner", *flags)), *granted), "rights")
    assert lacking == {name for name in ("pods", "replicasets") if any(f"to get {name}" in one.wrong for one in found)}


def test_a_provisioner_without_an_attacher_beside_it_needs_no_attachments(seen: Any) -> None:
    granted = without(healthy()[1:5], "volumeattachments", "list")
    assert [] == judged(seen(deployment(sidecar("csi-provisioner")), *granted), "rights")
    beside = judged(seen(deployment(sidecar("csi-provisioner"), sidecar("csi-attacher")), *granted), "rights")
    assert [Severity.ERROR] == [one.severity for one in beside if "csi-provisioner" in one.about]


@each_row(
    ("program", "old", "new", "resource", "verb"),
    [
        ("csi-provisioner", "v4.0.1", "v5.0.0", "persistentvolumes", "patch"),
        ("csi-provisioner", "v4.0.1", "v5.0.0", "nodes", "watch"),
        ("csi-provisioner", "v5.3.0", "v6.0.0", "volumeattributesclasses", "get"),
        ("csi-provisioner", "v6.1.0", "v6.2.0", "volumesnapshots", "update"),
        ("csi-resizer", "v1.14.0", "v2.0.0", "volumeattributesclasses", "watch"),
    ],
    fresh=[seen],
)
def test_an_old_release_is_asked_for_no_more_than_it_uses(
    seen: Any, program: str, old: str, new: str, resource: str, verb: str
) -> None:
    granted = without(healthy()[1:5], resource, verb)

    def lacking(version: str, *flags: str) -> list[Finding]:
        pods = deployment(sidecar(program, *flags, image=f"x/{program}:{version}"), sidecar("csi-snapshotter"))
        return [one for one in judged(seen(pods, *granted), "rights") if program in one.about]

    assert [] == lacking(old)
    assert 1 == len(lacking(new))
    if resource == "volumeattributesclasses":
        assert 1 == len(lacking(old, "--feature-gates=VolumeAttributesClass=true")), "the gate is on"


def test_an_old_snapshotter_makes_snapshots_without_the_right_to_patch_their_status(seen: Any) -> None:
    """The release of a driver for local volumes has such roles."""
    granted = without(healthy()[1:5], "volumesnapshotcontents/status", "patch")
    pods = [deployment(sidecar("csi-snapshotter", image=f"x/csi-snapshotter:{tag}")) for tag in ("v6.2.2", "v8.4.0")]
    found = [judged(seen(one, *granted), "rights") for one in pods]
    assert [[Severity.WARNING], [Severity.ERROR]] == [[one.severity for one in each] for each in found]
