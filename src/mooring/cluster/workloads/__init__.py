"""Makes and replaces the pods of Deployments, ReplicaSets, StatefulSets and Jobs."""
