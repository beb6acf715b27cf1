"""Higgs Audio's codec: eight codebooks at 25 Hz, and DAC's decoder, which is not causal."""
