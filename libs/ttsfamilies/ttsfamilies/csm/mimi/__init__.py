"""Mimi: split residual codes at 12.5 frames a second to 24 kHz, strictly causal."""
