"""The registrar: tells the kubelet that a CSI driver is there. One for each driver on each node, so its memory counts most of all."""
