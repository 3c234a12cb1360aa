"""Servers that others wrote, each on another implementation of gRPC, and what the client is asked to do with every one
of them.
"""
