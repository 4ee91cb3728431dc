"""Modules of the two confined processes: `start` in both, then `candidate` in one and `judge` in the other.

They use the standard library only, since the processes see neither wina_core nor its environment.
"""
