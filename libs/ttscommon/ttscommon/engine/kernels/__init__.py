"""Kernels that both stages use, each with a plain torch twin, and the choice between versions."""
