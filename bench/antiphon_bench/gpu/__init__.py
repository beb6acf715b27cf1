"""Measurements on a GPU: `python -m antiphon_bench.gpu --help`.

Every subcommand is offline, resumes where it was cut off, and stops by itself before its minutes
are over. With `--device cpu --size tiny` all of them run anywhere; such figures mean nothing.
"""
