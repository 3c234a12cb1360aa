"""The CSI driver as a port, `Driver`, over gRPC and in process.

The room has the declarations and the code generated from them, the connection with its deadlines, and the classes of
errors: has the operation surely ended, or may it still be going on? Every field that the declarations mark as secret is
dropped before a message is shown. It knows messages of CSI, but no Kubernetes objects. What livenessprobe and the
registrar need of it does without protobuf, since they run for each driver on each node.
"""
