"""Kernels of causal codecs on a device, whose streams' states stay where they are.

Their twins are the networks' own steps from a carried state, which tests hold them to.
"""
