"""A request's logs: written at once and committed behind, read as one gapless sequence.

A reader is an inbox, a repair loop and a source of what is missing; a writer is a window of
commits and a live half. Codes and text differ from audio in the source and the live half alone.
"""
