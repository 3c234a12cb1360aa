"""Nodes that fall silent, and their pods: conditions and taints of nodes, evictions, and pods that nobody else would
remove.

The process times a node's last sign of life by its own clock. The number of nodes of a zone that it may taint depends
on all nodes of the zone.
"""
