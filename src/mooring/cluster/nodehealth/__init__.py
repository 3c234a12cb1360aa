"""Nodes that fall silent, and their pods: conditions and taints of nodes, evictions, and pods that nobody else would remove."""
