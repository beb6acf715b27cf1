"""Tacotron 2: letters to mel frames, by LSTMs that carry their state and have no cache."""
