"""Kills, stops, cuts and restarts every part of a running stack while clients listen.

`python -m tests.chaos --help` lists the programs; without a name the matrix runs.
"""
