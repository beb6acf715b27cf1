"""Kills, stops, cuts and restarts every part of a running stack while clients listen.

`python -m tests.chaos` runs the matrix; see `--help`.
"""
