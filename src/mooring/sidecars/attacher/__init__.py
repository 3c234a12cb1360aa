"""Turns VolumeAttachments into ControllerPublishVolume and ControllerUnpublishVolume.

A first attach takes up to three decisions: the volume gets our finalizer; the Secret is read; the attachment gets our
finalizer, and the driver is called. One call at a time is made for a volume.

`controller.py` has the changes that wake a key, `decide.py` the decisions, `reconcile.py` and `writes.py` carry them
out. `memory.py` has what no object shows, such as that a publish may have happened. `drift.py` compares what the
backend reports (ListVolumes) with the attachments, and wakes those that differ.
"""
