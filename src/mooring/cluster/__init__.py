"""The controllers that a cluster has once, in place of kube-controller-manager, kube-scheduler and snapshot-controller."""
