"""Makes and replaces the pods of Deployments, ReplicaSets, StatefulSets and Jobs.

It is for control planes without kube-controller-manager. The rooms below share the pods that count and who owns them.
"""
