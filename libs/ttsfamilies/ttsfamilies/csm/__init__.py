"""CSM: turns of text and sound to frames, the codes of each by a depth transformer."""
