"""Manifests as people write them, for tests that type kubectl's lines; and a custom kind with everything that kubectl
asks of one.
"""

from __future__ import annotations

from typing import Any

BERTHS = "/apis/kubectl.test/v1/berths"

_STATUS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "count": {"type": "integer"},
        "selector": {"type": "string"},
        "conditions": {
            "type": "array",
            "items": {"type": "object", "properties": {"type": {"type": "string"}, "status": {"type": "string"}}},
        },
    },
}
_SPEC: dict[str, Any] = {
    "type": "object",
    "description": "What is wished for.",
    "properties": {
        "count": {"type": "integer", "minimum": 0, "description": "How many."},
        "size": {"type": "string", "enum": ["small", "large"]},
        "ships": {"type": "array", "items": {"type": "string"}},
    },
}
BERTH_DEFINITION: dict[str, Any] = {
    "metadata": {"name": "berths.kubectl.test"},
    "spec": {
        "group": "kubectl.test",
        "scope": "Namespaced",
        "names": {
            "plural": "berths",
            "singular": "berth",
            "kind": "Berth",
            "listKind": "BerthList",
            "shortNames": ["be"],
            "categories": ["harbour"],
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _SPEC, "status": _STATUS}}},
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.count",
                        "statusReplicasPath": ".status.count",
                        "labelSelectorPath": ".status.selector",
                    },
                },
                "additionalPrinterColumns": [
                    {"name": "Count", "type": "integer", "jsonPath": ".spec.count"},
                    {"name": "Size", "type": "string", "jsonPath": ".spec.size", "priority": 1},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
            }
        ],
    },
}

MANIFESTS = {
    "volume": """
apiVersion: v1
kind: PersistentVolume
metadata: {name: "{name}", labels: {test: "{name}"}}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce, ReadOnlyMany]
  persistentVolumeReclaimPolicy: Delete
  storageClassName: "{name}"
  claimRef: {namespace: "{name}", name: claim}
  csi:
    driver: d.example.com
    volumeHandle: handle
    fsType: ext4
    volumeAttributes: {a: b}
    nodePublishSecretRef: {name: s, namespace: default}
""",
    "class": """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: "{name}", labels: {test: "{name}"}}
provisioner: d.example.com
parameters: {a: b}
mountOptions: [ro]
volumeBindingMode: WaitForFirstConsumer
allowedTopologies: [{matchLabelExpressions: [{key: zone, values: [a, b]}]}]
""",
    "claim": """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: claim, labels: {test: "{name}"}}
spec: {accessModes: [ReadWriteOnce], storageClassName: "{name}", resources: {requests: {storage: 1Gi}}}
""",
    "other claim": """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: a-claim, labels: {test: "{name}", other: "yes"}}
spec: {accessModes: [ReadWriteMany], storageClassName: "{name}", volumeMode: Block, \
resources: {requests: {storage: 500M}}}
""",
    "pod": """
apiVersion: v1
kind: Pod
metadata: {name: pod, labels: {test: "{name}"}}
spec:
  nodeName: "{name}"
  containers:
  - name: c
    image: i
    env: [{name: A, value: b}]
    volumeMounts: [{name: v, mountPath: /v}, {name: e, mountPath: /e, readOnly: true}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: claim}}, {name: e, emptyDir: {sizeLimit: 1Gi}}]
""",
    "node": """
apiVersion: v1
kind: Node
metadata: {name: "{name}", labels: {test: "{name}", node-role.kubernetes.io/test: ""}}
spec: {podCIDR: 10.0.0.0/24}
status:
  capacity: {cpu: "4", memory: 8Gi, pods: "10"}
  allocatable: {cpu: "4", memory: 8Gi, pods: "10"}
  addresses: [{type: InternalIP, address: 192.0.2.1}]
  conditions: [{type: Ready, status: "True", reason: KubeletReady, message: fine}]
""",
    "attachment": """
apiVersion: storage.k8s.io/v1
kind: VolumeAttachment
metadata: {name: "{name}", labels: {test: "{name}"}}
spec: {attacher: d.example.com, nodeName: "{name}", source: {persistentVolumeName: "{name}"}}
""",
    "csi node": """
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: "{name}", labels: {test: "{name}"}}
spec: {drivers: [{name: d.example.com, nodeID: x, topologyKeys: [zone], allocatable: {count: 3}}]}
""",
    "driver": """
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: "{name}", labels: {test: "{name}"}}
spec: {attachRequired: false, volumeLifecycleModes: [Persistent, Ephemeral]}
""",
    "attributes": """
apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: "{name}", labels: {test: "{name}"}}
driverName: d.example.com
parameters: {iops: "100"}
""",
    "capacity": """
apiVersion: storage.k8s.io/v1
kind: CSIStorageCapacity
metadata: {name: capacity, labels: {test: "{name}"}}
storageClassName: fast
capacity: 1Gi
nodeTopology: {matchLabels: {zone: a}}
""",
    "lease": """
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: lease, labels: {test: "{name}"}}
spec: {holderIdentity: me, leaseDurationSeconds: 15}
""",
    "secret": """
apiVersion: v1
kind: Secret
metadata: {name: secret, labels: {test: "{name}"}}
stringData: {a: b, empty: ""}
""",
    "config": """
apiVersion: v1
kind: ConfigMap
metadata: {name: config, labels: {test: "{name}"}}
data: {a: b}
""",
    "other config": """
apiVersion: v1
kind: ConfigMap
metadata: {name: other-config, labels: {test: "{name}"}}
binaryData: {a: YQ==}
""",
    "berth": """
apiVersion: kubectl.test/v1
kind: Berth
metadata: {name: berth, labels: {test: "{name}"}}
spec: {count: 1, size: small, ships: [a, b]}
""",
    "larger berth": """
apiVersion: kubectl.test/v1
kind: Berth
metadata: {name: berth, labels: {test: "{name}"}}
spec: {count: 2, size: large, ships: [a]}
""",
    "huge berth": """
apiVersion: kubectl.test/v1
kind: Berth
metadata: {name: berth, labels: {test: "{name}"}}
spec: {count: 1, size: huge}
""",
    "event": """
apiVersion: v1
kind: Event
metadata: {name: first}
involvedObject: {apiVersion: v1, kind: PersistentVolumeClaim, namespace: "{name}", name: claim, uid: "{uid}"}
reason: ProvisioningFailed
message: no space left
type: Warning
count: 3
firstTimestamp: "2024-01-02T03:04:05Z"
lastTimestamp: "2024-01-02T04:04:05Z"
source: {component: d.example.com}
""",
    "earlier event": """
apiVersion: v1
kind: Event
metadata: {name: earlier}
involvedObject: {apiVersion: v1, kind: PersistentVolumeClaim, namespace: "{name}", name: claim, uid: "{uid}"}
reason: Provisioning
message: begun
type: Normal
count: 1
firstTimestamp: "2023-01-02T03:04:05Z"
lastTimestamp: "2023-01-02T03:04:05Z"
source: {component: d.example.com}
""",
    "list": """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: listed}}
- {apiVersion: v1, kind: Secret, metadata: {name: listed}}
""",
    "typed list": """
apiVersion: v1
kind: ConfigMapList
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: listed-too}}
""",
    "nobody's": """
apiVersion: nobody.test/v1
kind: Nothing
metadata: {name: x}
""",
    "no name": """
apiVersion: v1
kind: Secret
metadata: {}
""",
    "no kind": """
apiVersion: v1
metadata: {name: x}
""",
    "nothing": "",
    "no yaml": "a: b: c",
    "no base64": """
apiVersion: v1
kind: Secret
metadata: {name: x}
data: {a: "?"}
""",
}
