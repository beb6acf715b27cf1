"""Encoders of recordings for CosyVoice and Chatterbox: S3 tokens, mel frames, a speaker."""

from typing import Final

TOKENS: Final = 3**8
"""Ids of S3 tokens: eight digits of three levels. Each model's own ids begin behind them."""
