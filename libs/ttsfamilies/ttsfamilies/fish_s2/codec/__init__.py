"""Fish Audio S2's codec: a transformer with a window, and a causal DAC behind it."""
