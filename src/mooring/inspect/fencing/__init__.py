"""Stating that a node's machine is off, by the out-of-service taint, once that is proved; and taking the statement
back.
"""
