"""The deterministic simulation: the attacher on the in-process ports, in virtual time, with everything that can go wrong.

One seed is one life of a small world: volumes, nodes, a driver, users, faults and crashes. While it lives, laws are checked at every
step (`laws.py`); when the faults have ended and the world has come to rest, its state is judged (`checkers.py`). The same seed gives
the same life, step by step: `python -m tests.sim --seed 7`.
"""
