"""Codecs: frames to samples, exact state a stream. `base` is the interface."""
