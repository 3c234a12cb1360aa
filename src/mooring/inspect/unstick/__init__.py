"""Takes a finalizer off an object that is being deleted: proves that it may go, or names what speaks against it.

`table.py` says of each finalizer who sets it, what it protects, and which judgement proves that it may go. Judgements
are pure.
"""
