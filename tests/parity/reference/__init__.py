"""Goldens from the official packages. Runs in an environment of its own; see `make goldens`."""
