"""Runs pods until a Job is complete."""
