"""tokenizer.json, without the tokens that were added to it: what a client sends is text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ttscommon.engine.checkpoint import CheckpointError, missing, read_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class TextTokenizer:
    """Text to ids. Used by any number of threads. added: ids of the tokens that were added."""

    def __init__(
        self, tokenizer: Tokenizer, added: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        self._tokenizer, self.added = tokenizer, added

    @classmethod
    def load(cls, checkpoint: Path) -> TextTokenizer:
        """Read tokenizer.json; raises CheckpointError."""
        path = checkpoint / "tokenizer.json"
        content = read_json(path, dict[str, Any])
        plain = content | {"added_tokens": [], "post_processor": None}
        added = {token["content"]: int(token["id"]) for token in content.get("added_tokens", [])}
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise missing(error) from error
        try:
            return cls(Tokenizer.from_str(json.dumps(plain)), added)
        except Exception as error:
            raise CheckpointError(f"{path} is not as expected: {error}") from error

    def ids(self, text: str) -> list[int]:
        """Tokens of a whole text; none of them is a control token."""
        found: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return found
