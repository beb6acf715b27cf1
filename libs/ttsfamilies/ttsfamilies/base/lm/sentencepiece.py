"""sentencepiece's models of text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ttscommon.engine.checkpoint import CheckpointError, missing

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor


def load_processor(path: Path) -> SentencePieceProcessor:
    """Read a model's file; raises CheckpointError."""
    try:
        from sentencepiece import SentencePieceProcessor

        return SentencePieceProcessor(model_proto=path.read_bytes())
    except ImportError as error:
        raise missing(error) from error
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    except RuntimeError as error:
        raise CheckpointError(f"{path} is not as expected: {error}") from error
