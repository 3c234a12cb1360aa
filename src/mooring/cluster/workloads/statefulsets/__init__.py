"""Keeps the numbered pods of a StatefulSet, with their claims."""
