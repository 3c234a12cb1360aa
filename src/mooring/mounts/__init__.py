"""The mounts of this machine, and the tools to change them.

It reads the mount table as text, runs the system's own tools, and brings a folder or device to a path, or nothing; loop
devices and file systems included. The node's agent uses it, and so do drivers.
"""
