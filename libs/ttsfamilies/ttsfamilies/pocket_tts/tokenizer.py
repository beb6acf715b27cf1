"""Text to ids and back: tokenizer.json, or the sentencepiece model that small checkpoints have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ttscommon.engine.checkpoint import CheckpointError, missing, read_json
from ttsfamilies.base.lm.sentencepiece import load_processor
from ttsfamilies.pocket_tts.sizes import Table


class Tokens(NamedTuple):
    """Ids, and the character of the text at which each begins."""

    ids: list[int]
    begins: list[int]


class Tokenizer(Protocol):
    """Used by any number of threads."""

    def tokens(self, text: str) -> Tokens: ...

    def text(self, ids: list[int]) -> str: ...


class JsonTokenizer:
    """tokenizer.json, without the tokens that were added to it: what a client sends is text."""

    def __init__(self, path: Path, ids: int) -> None:
        """Raises CheckpointError, also where it has more than `ids`."""
        content = read_json(path, dict[str, Any])
        added = content.get("added_tokens") or []
        try:
            import tokenizers

            plain = content | {"added_tokens": [], "post_processor": None}
            self._tokenizer = tokenizers.Tokenizer.from_str(json.dumps(plain))
            self._unread = {int(token["id"]) for token in added if token.get("special")}
        except ImportError as error:
            raise missing(error) from error
        except Exception as error:
            raise CheckpointError(f"{path} is not as expected: {error}") from error
        _check_size(path, self._tokenizer.get_vocab_size(), ids)

    def tokens(self, text: str) -> Tokens:
        found = self._tokenizer.encode(text, add_special_tokens=False)
        return Tokens(found.ids, [begin for begin, _ in found.offsets])

    def text(self, ids: list[int]) -> str:
        read = [token for token in ids if token not in self._unread]
        found: str = self._tokenizer.decode(read)
        return found


class SentencePiece:
    """tokenizer.model."""

    def __init__(self, path: Path, ids: int) -> None:
        """Raises CheckpointError, also where it has more than `ids`."""
        self._processor = load_processor(path)
        _check_size(path, self._processor.vocab_size(), ids)

    def tokens(self, text: str) -> Tokens:
        found = self._processor.encode(text, return_type="offset_mapping")
        return Tokens(found["ids"], [begin for begin, _ in found["offsets"]])

    def text(self, ids: list[int]) -> str:
        found: str = self._processor.decode(ids)
        return found


def load_tokenizer(folder: Path, table: Table) -> Tokenizer:
    """The kind that the configuration names, or else the one that is there.

    Raises CheckpointError.
    """
    path = folder / "tokenizer.json"
    if path.exists() or table.tokenizer != "sentencepiece":
        return JsonTokenizer(path, table.n_bins)
    return SentencePiece(folder / "tokenizer.model", table.n_bins)


def _check_size(path: Path, found: int, wanted: int) -> None:
    if found != wanted:
        raise CheckpointError(f"{path} has {found} ids, but the configuration says {wanted}")
