"""Qwen3-Omni's code2wav: 16 codes a frame to 1920 samples at 24 kHz, with a short lag."""
