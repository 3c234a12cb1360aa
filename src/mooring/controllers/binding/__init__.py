"""The parts that binder and scheduler share: how a claim and a volume fit together."""
