"""The mounts of this machine, and the tools to change them."""
