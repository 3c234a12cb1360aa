"""Distributed provisioning: one instance on each node, for the volumes that only that node can make."""
