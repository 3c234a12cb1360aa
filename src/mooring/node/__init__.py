"""The node's side: drivers register, volumes are staged, published, and taken away again.

`plugins` watches the registry and registers drivers, `csinode` writes their data about the node to the CSINode, and
`volumes` mounts volumes for pods. A volume's next step is a pure decision; its steps run in tasks, and what pods want,
what is here, what the Node reports and what is on the disk is the state.
"""
