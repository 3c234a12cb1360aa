"""Keeps claims and volumes that are in use from deletion."""
