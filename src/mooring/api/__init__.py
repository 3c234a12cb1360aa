"""Kubernetes objects as typed structs that decode only the fields used.

Each API group has one file of frozen structs: a struct takes 2 KB where a dict takes 12. Since the code decodes only
parts of an object, it can never write the object back whole: changes are patches. Here are also quantities, selectors,
names, and in-tree volumes as their CSI drivers see them. Another decoder could replace msgspec as long as the classes
stay plain.
"""
