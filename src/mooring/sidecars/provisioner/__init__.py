"""Turns claims into volumes: CreateVolume, DeleteVolume, and the PersistentVolumes that stand for them.

It never binds. The rooms below, from top to bottom; a controller knows the lower ones and no other controller:

    local_node                                      one instance on each node: decides about a claim as `claims` would
    claims, deletion, source_protection, capacity   the controllers
    intents                                         the intent of each volume, stored before the driver is asked
    model                                           the words: objects as they are read, orders, outcomes, topics

A controller tells the others of news on a bus: an intent is closed, a source is free, there is room again. If a
judgement needs an object that no cache holds (snapshots, secrets, a clone's volume), it says so; the shell reads the
object for this one attempt, and judges again. Three things are not done by the kit's verbs. A source is known by its
name and may be in no cache, so no `ObjectWriter` writes its finalizer. Users are told of a deletion's obstacle by its
kind, whatever its text, and of an attempt at a claim once, however often it is judged: so these two controllers have
ways of their own.
"""
