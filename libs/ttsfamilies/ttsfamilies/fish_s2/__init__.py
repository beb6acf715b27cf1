"""Fish Audio S2: a slow transformer for frames, a fast one for the codes within each."""
