"""Grows the volumes of one driver as their claims ask for it, and changes their VolumeAttributesClass."""
