"""The life of nodes: a silent node becomes Unknown and tainted."""
