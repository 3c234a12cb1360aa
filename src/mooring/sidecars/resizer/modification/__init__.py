"""Volumes change to the VolumeAttributesClass that their claims ask for."""
