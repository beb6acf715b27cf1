"""Synthetic checkpoints, for tests and for trying a deployment without published weights.

`antiphon bench checkpoint FAMILY FOLDER`, or `python -m antiphon_bench.synthetic FAMILY FOLDER`.
"""
