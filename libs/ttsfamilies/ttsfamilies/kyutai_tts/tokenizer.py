"""The checkpoint's pieces of words, by sentencepiece."""

from __future__ import annotations

from pathlib import Path

from ttscommon.engine.checkpoint import CheckpointError
from ttsfamilies.base.lm.sentencepiece import load_processor
from ttsfamilies.kyutai_tts.config import KyutaiConfig


class WordTokenizer:
    """Used by any number of threads."""

    def __init__(self, folder: Path, c: KyutaiConfig) -> None:
        """Raises CheckpointError, also where it has more ids than the model."""
        path = folder / c.tokenizer_name
        if Path(c.tokenizer_name).name != c.tokenizer_name:
            raise CheckpointError(f"{folder}: tokenizer_name {c.tokenizer_name!r} is no file here")
        self._processor = load_processor(path)
        if (found := self._processor.vocab_size()) > c.text_card:
            raise CheckpointError(f"{path} has {found} ids, but config.json says {c.text_card}")

    def ids(self, word: str) -> list[int]:
        """Pieces of a word that stands by itself."""
        found: list[int] = self._processor.encode(word)
        return found
