"""Kokoro (StyleTTS 2 without diffusion): the half that decides how long and how high."""
