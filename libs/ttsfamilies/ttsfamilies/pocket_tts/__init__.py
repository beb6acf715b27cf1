"""Pocket TTS: text to latents of floats, each made of noise by a flow head within its step."""
