"""Sampling, attention and cache on a device: a plain torch twin and a Triton version each."""
