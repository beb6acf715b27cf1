"""What the protocols have in common: keys, error shapes, HTTP bodies of audio, contexts."""
