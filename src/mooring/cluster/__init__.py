"""The controllers that a cluster has once, in place of kube-controller-manager, kube-scheduler and snapshot-controller.

They are built as the rooms of `sidecars` are, know no driver, and meet through API objects alone. Two rooms may read
the same words in `api`.
"""
