"""The node's side: drivers register, volumes are staged, published, and taken away again."""
