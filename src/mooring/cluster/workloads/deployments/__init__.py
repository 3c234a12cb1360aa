"""Rolls a Deployment from one ReplicaSet to the next."""
