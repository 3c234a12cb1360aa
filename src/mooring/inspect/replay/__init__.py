"""Runs a record of the flight recorder again: the very controllers, in virtual time, on what came in."""
