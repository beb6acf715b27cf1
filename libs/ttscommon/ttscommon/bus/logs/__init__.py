"""A request's logs: written at once and committed behind, read as one gapless sequence.

A reader is an inbox and a repair loop, a writer a window of commits. Codes and text differ from
audio in what goes live, and in who has what is missing.
"""
