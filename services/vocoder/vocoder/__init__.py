"""Antiphon vocoder: codec frames to sound, exact carried state per stream."""
