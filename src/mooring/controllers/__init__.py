"""The controllers of storage: each decides in a pure function, and carries out what was decided."""
