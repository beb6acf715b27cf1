"""DAC (Kumar et al., 2023): residual codes of one rate, and a decoder that is not causal."""
