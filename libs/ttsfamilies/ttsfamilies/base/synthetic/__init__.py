"""Synthetic checkpoints, for tests and for trying a deployment without published weights.

`antiphon bench checkpoint FAMILY FOLDER`; each family's own is its module `synthetic`.
"""
