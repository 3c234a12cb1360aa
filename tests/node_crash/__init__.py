"""Agents and drivers are killed with -9 while pods come and go: in the end nothing of any volume is left."""
