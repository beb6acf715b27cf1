"""Higgs Audio v2 and v3: rows of eight delayed codebooks, all drawn from one hidden state."""
