"""Kyutai TTS: text is fed word by word as it comes, and speech follows it at a fixed distance."""
