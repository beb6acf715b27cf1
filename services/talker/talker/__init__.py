"""Antiphon talker: text to codec frames, many streams in one batch."""
