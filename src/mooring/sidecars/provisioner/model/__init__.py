"""The words of the room: claims and volumes as they are read, an order and its intent, outcomes, topics. Knows no other
part of it.
"""
