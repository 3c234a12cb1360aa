"""The life of nodes: who is silent becomes unknown and tainted."""
