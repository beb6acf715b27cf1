"""Kokoro (StyleTTS 2 with an iSTFTNet): the half that makes sound."""
