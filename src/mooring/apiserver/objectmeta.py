"""meta/v1 in messages: metadata, and what else all kinds share. Apart from `rules/`, whose kinds all stand on it."""

from typing import Final

from mooring.apiserver.codecs.schema import Messages

MESSAGES: Final = Messages("""
ObjectMeta: 1 name s, 2 generateName s, 3 namespace s, 4 selfLink s, 5 uid s, 6 resourceVersion s, 7 generation i64, 8 creationTimestamp time, 9 deletionTimestamp time, 10 deletionGracePeriodSeconds i64?, 11 labels {s}, 12 annotations {s}, 13 ownerReferences *OwnerReference@uid, 14 finalizers *s@, 17 managedFields *ManagedFieldsEntry
ManagedFieldsEntry: 1 manager s, 2 operation s, 3 apiVersion s, 4 time time, 6 fieldsType s, 7 fieldsV1 any?, 8 subresource s
OwnerReference: 5 apiVersion s!, 1 kind s!, 3 name s!, 4 uid s!, 6 controller b?, 7 blockOwnerDeletion b?
LabelSelector: 1 matchLabels {s}, 2 matchExpressions *LabelSelectorRequirement
DeleteOptions: 1 gracePeriodSeconds i64?, 2 preconditions Preconditions?, 3 orphanDependents b?, 4 propagationPolicy s?, 5 dryRun *s, 6 ignoreStoreReadErrorWithClusterBreakingPotential b?
Preconditions: 1 uid s?, 2 resourceVersion s?
LabelSelectorRequirement: 1 key s!, 2 operator s!, 3 values *s
""")  # noqa: E501
