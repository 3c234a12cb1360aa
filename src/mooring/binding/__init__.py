"""Binds claims to volumes and pods to nodes, and protects what is in use: storage's part of kube-controller-manager and kube-scheduler."""
