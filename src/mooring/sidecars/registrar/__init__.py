"""The registrar: tells the kubelet that a CSI driver is there. One for each driver on each node, so its memory counts
most of all.

It serves the socket that the kubelet finds, and explains the kubelet's refusals. It loads asyncio without TLS, and
speaks gRPC without a library and without protobuf. The liveness probe is built likewise, and writes its few metrics by
hand.
"""
