"""Drivers register with the node: sockets appear in a folder, their plugins are asked, entered, and told."""
