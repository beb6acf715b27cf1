"""The codec of Qwen3-TTS (12 Hz): 16 codes a frame to 1920 samples at 24 kHz, strictly causal.

All published Qwen3-TTS checkpoints share it, so one vocoder serves them all. Written from the
architecture and proved against the official package (tests/parity).
"""
