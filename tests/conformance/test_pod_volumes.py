"""What is valid in the volumes of a pod: the same verdict from both servers."""

from __future__ import annotations

from tests.support.pod_specs import (
    DUPLICATE,
    FORBIDDEN,
    INVALID,
    REQUIRED,
    UNSUPPORTED,
    Row,
    check,
    claim,
    mount,
    pod,
    volume,
)
from tests.support.rest import Rest
from tests.support.rows import each_row

JUDGED: dict[str, Row] = {
    "noname": (pod(volumes=[{"emptyDir": {}}]), [(REQUIRED, ".name")]),
    "badname": (pod(volumes=[{"name": "A_b"}]), [(INVALID, ".name")]),
    "dup": (pod(volumes=[{"name": "v"}, {"name": "v"}]), [(DUPLICATE, "spec.volumes[1].name")]),
    "two_ceph": (volume(cephfs={"monitors": ["m"]}, cinder={"volumeID": "v"}), [(FORBIDDEN, ".cephFS")]),
    "two_paths": (
        volume(gcePersistentDisk={"pdName": "p"}, hostPath={"path": "/x"}),
        [(FORBIDDEN, ".gcePersistentDisk")],
    ),
    "two_maps": (
        volume(configMap={"name": "c"}, csi={"driver": "d"}, downwardAPI={}),
        [(FORBIDDEN, ".configMap"), (FORBIDDEN, ".csi")],
    ),
    "two": (volume(emptyDir={}, persistentVolumeClaim={"claimName": "c"}), [(FORBIDDEN, ".persistentVolumeClaim")]),
    "hp": (volume(hostPath={"path": ""}), [(REQUIRED, ".hostPath.path")]),
    "hp2": (volume(hostPath={"path": "/a/../b"}), [(INVALID, ".hostPath.path")]),
    "hp3": (volume(hostPath={"path": "/a", "type": "x"}), [(UNSUPPORTED, ".hostPath.type")]),
    "ed": (volume(emptyDir={"sizeLimit": "-1"}), [(FORBIDDEN, ".emptyDir.sizeLimit")]),
    "gce": (
        volume(gcePersistentDisk={"pdName": "", "partition": 256}),
        [(REQUIRED, ".persistentDisk.pdName"), (INVALID, ".persistentDisk.partition")],
    ),
    "aws": (
        volume(awsElasticBlockStore={"volumeID": "", "partition": -1}),
        [(REQUIRED, ".awsElasticBlockStore.volumeID"), (INVALID, ".awsElasticBlockStore.partition")],
    ),
    "git": (volume(gitRepo={"repository": ""}), [(REQUIRED, ".gitRepo.repository")]),
    "sec": (volume(secret={}), [(REQUIRED, ".secret.secretName")]),
    "secm": (
        volume(
            secret={
                "secretName": "A_",
                "defaultMode": 512,
                "items": [
                    {"key": "", "path": ""},
                    {"key": "a", "path": "/x"},
                    {"key": "a", "path": "a/../b", "mode": -1},
                ],
            }
        ),
        [
            (INVALID, ".secret.defaultMode"),
            (REQUIRED, ".secret.items[0].key"),
            (REQUIRED, ".secret.items[0].path"),
            (INVALID, ".secret.items[1].path"),
            (INVALID, ".secret.items[2].path"),
            (INVALID, ".secret.items[2].mode"),
        ],
    ),
    "nfs": (volume(nfs={"server": "", "path": "x"}), [(REQUIRED, ".nfs.server"), (INVALID, ".nfs.path")]),
    "nfs2": (volume(nfs={"server": "s", "path": ""}), [(REQUIRED, ".nfs.path"), (INVALID, ".nfs.path")]),
    "gl": (
        volume(glusterfs={"endpoints": "", "path": ""}),
        [(REQUIRED, ".glusterfs.endpoints"), (REQUIRED, ".glusterfs.path")],
    ),
    "pvc": (volume(persistentVolumeClaim={"claimName": ""}), [(REQUIRED, ".persistentVolumeClaim.claimName")]),
    "rbd": (volume(rbd={"monitors": [], "image": ""}), [(REQUIRED, ".rbd.monitors"), (REQUIRED, ".rbd.image")]),
    "flex": (volume(flexVolume={"driver": ""}), [(REQUIRED, ".flexVolume.driver")]),
    "cinder": (
        volume(cinder={"volumeID": "", "secretRef": {}}),
        [(REQUIRED, ".cinder.volumeID"), (REQUIRED, ".cinder.secretRef.name")],
    ),
    "ceph": (volume(cephfs={"monitors": []}), [(REQUIRED, ".cephfs.monitors")]),
    "dw": (
        volume(downwardAPI={"items": [{"path": ""}]}),
        [(REQUIRED, ".downwardAPI.path"), (REQUIRED, ".downwardAPI")],
    ),
    "dw2": (
        volume(downwardAPI={"items": [{"path": "a", "fieldRef": {"fieldPath": "status.podIP"}}]}),
        [(UNSUPPORTED, ".downwardAPI.fieldRef.fieldPath")],
    ),
    "dw3": (
        volume(downwardAPI={"items": [{"path": "a", "resourceFieldRef": {"resource": "limits.cpu"}}]}),
        [(REQUIRED, ".downwardAPI.resourceFieldRef.containerName")],
    ),
    "dw4": (
        volume(
            downwardAPI={
                "items": [
                    {
                        "path": "a",
                        "fieldRef": {"fieldPath": "metadata.name"},
                        "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"},
                    }
                ]
            }
        ),
        [(INVALID, ".downwardAPI")],
    ),
    "af": (
        volume(azureFile={"secretName": "", "shareName": ""}),
        [(REQUIRED, ".azureFile.secretName"), (REQUIRED, ".azureFile.shareName")],
    ),
    "cm": (
        volume(configMap={"name": "", "items": [{"key": "a", "path": "..x"}]}),
        [(REQUIRED, ".configMap.name"), (INVALID, ".configMap.items[0].path")],
    ),
    "vs": (volume(vsphereVolume={"volumePath": ""}), [(REQUIRED, ".vsphereVolume.volumePath")]),
    "qb": (
        volume(quobyte={"registry": "", "volume": ""}),
        [(REQUIRED, ".quobyte.registry"), (REQUIRED, ".quobyte.volume")],
    ),
    "ph": (volume(photonPersistentDisk={"pdID": ""}), [(REQUIRED, ".photonPersistentDisk.pdID")]),
    "px": (volume(portworxVolume={"volumeID": ""}), [(REQUIRED, ".portworxVolume.volumeID")]),
    "pr2": (
        volume(projected={"sources": [{"secret": {"name": "a"}, "configMap": {"name": "b"}}]}),
        [(FORBIDDEN, ".projected.sources[0]")],
    ),
    "pr3": (
        volume(projected={"sources": [{"serviceAccountToken": {"path": "t"}}]}),
        [(FORBIDDEN, ".projected.sources[0].serviceAccountToken")],
    ),
    "pr4": (
        {
            **volume(projected={"sources": [{"serviceAccountToken": {"path": "", "expirationSeconds": 5}}]}),
            "serviceAccountName": "a",
        },
        [(INVALID, ".projected.sources[0].serviceAccountToken.expirationSeconds"), (REQUIRED, ".projected.path")],
    ),
    "pr5": (
        volume(projected={"sources": [{"secret": {"name": ""}}, {"configMap": {"name": ""}}]}),
        [(REQUIRED, ".projected.sources[0].secret.name"), (REQUIRED, ".projected.sources[1].configMap.name")],
    ),
    "pr6": (
        volume(
            projected={
                "sources": [
                    {"secret": {"name": "a", "items": [{"key": "a", "path": "p"}]}},
                    {"configMap": {"name": "a", "items": [{"key": "a", "path": "p"}]}},
                ]
            }
        ),
        [(INVALID, ".projected")],
    ),
    "csi": (volume(csi={"driver": ""}), [(REQUIRED, ".csi.driver")]),
    "csi2": (volume(csi={"driver": "a", "nodePublishSecretRef": {}}), [(REQUIRED, ".csi.nodePublishSecretRef.name")]),
    "csi3": (volume(csi={"driver": "A_"}), [(INVALID, ".csi.driver")]),
    "eph": (volume(ephemeral={}), [(REQUIRED, ".ephemeral.volumeClaimTemplate")]),
    "eph2": (claim({"name": "x"}), [(FORBIDDEN, ".ephemeral.volumeClaimTemplate.metadata.name")]),
    "eph3": (claim({"labels": {"a b": "c"}}), [(INVALID, ".ephemeral.volumeClaimTemplate.metadata.labels")]),
    "eph4": (claim(accessModes=[]), [(REQUIRED, ".ephemeral.volumeClaimTemplate.spec.accessModes")]),
    "eph5": (claim(storageClassName="A_"), [(INVALID, ".ephemeral.volumeClaimTemplate.spec.storageClassName")]),
    "eph6": (claim(volumeMode="x"), [(UNSUPPORTED, ".ephemeral.volumeClaimTemplate.spec.volumeMode")]),
    "eph7": (
        claim({"finalizers": ["a/b"], "ownerReferences": [{"apiVersion": "v1", "kind": "a", "name": "b", "uid": "c"}]}),
        [
            (FORBIDDEN, ".ephemeral.volumeClaimTemplate.metadata.ownerReferences"),
            (FORBIDDEN, ".ephemeral.volumeClaimTemplate.metadata.finalizers"),
        ],
    ),
    "img": (volume(image={"reference": ""}), [(REQUIRED, ".image.reference")]),
    "img2": (volume(image={"reference": "x", "pullPolicy": "y"}), [(UNSUPPORTED, ".image.pullPolicy")]),
    # allowed
    "edm": (volume(emptyDir={"medium": "HugePages"}), []),
    "pvc2": (volume(persistentVolumeClaim={"claimName": "A_b"}), []),
    "pr": (volume(projected={"sources": []}), []),
    "pr0": (volume(projected={"sources": [{}]}), []),
    "prctb": (volume(projected={"sources": [{"clusterTrustBundle": {"path": "x"}}]}), []),
    "prcert": (
        volume(
            projected={
                "sources": [
                    {"podCertificate": {"signerName": "a.b/c", "keyType": "ED25519", "credentialBundlePath": "x"}}
                ]
            }
        ),
        [],
    ),
    "imgmnt": ({**mount(subPath="x"), "volumes": [{"name": "v", "image": {"reference": "x"}}]}, []),
}


@each_row("row", JUDGED)
def test_both_judge_alike(api: Rest, row: str) -> None:
    check(api, JUDGED[row], at="spec.volumes[0]")
