"""Qwen3-TTS (12 Hz): CustomVoice, VoiceDesign and Base checkpoints as Qwen publishes them.

Written from the architecture and proved against the official package, token for token
(tests/parity).
"""
