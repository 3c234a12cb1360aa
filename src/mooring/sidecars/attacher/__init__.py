"""Turns VolumeAttachments into ControllerPublishVolume and ControllerUnpublishVolume."""
