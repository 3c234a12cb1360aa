"""Drivers register with the node: for each socket in the folder the agent asks the plugin, enters the driver, and
reports the result.
"""
