"""tokenizer.json, without the tokens that were added to it: what a client sends is text.

Special tokens are never read out of a text: what a client sends is text.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ttscommon.engine.checkpoint import CheckpointError, missing, read_json

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor
    from tokenizers import Tokenizer


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


_RANKS: Final = "tokenizer.model"
_CONFIG: Final = "tokenizer_config.json"


def _letters() -> dict[str, int]:
    """Bytes by the letters that stand for them: their own where one can be printed, and those from
    U+0100 on for the others.
    """
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(0x100) if byte not in own)
    return {chr(b): b for b in own} | {chr(0x100 + n): b for n, b in enumerate(others)}


BYTES: Final = _letters()


@dataclass(frozen=True)
class _AddedToken:
    content: str


@dataclass(frozen=True)
class _TokenizerConfig:
    added_tokens_decoder: Mapping[str, _AddedToken]


def added_ids(checkpoint: Path) -> dict[str, int]:
    """Ids of added tokens, as tokenizer_config.json has them; raises CheckpointError."""
    config = read_json(checkpoint / _CONFIG, _TokenizerConfig)
    return {added.content: int(i) for i, added in config.added_tokens_decoder.items()}


def divided(tokenizer: Tokenizer, pre_token: str) -> Tokenizer:
    """Which divides texts by an expression before it merges bytes."""
    from tokenizers import Regex, pre_tokenizers

    split = pre_tokenizers.Split(Regex(pre_token), behavior="isolated")
    bytewise = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, bytewise])
    return tokenizer


class RankedTokenizer:
    """Text to ids and back. Used by any number of threads. specials: ids of added tokens."""

    def __init__(
        self, tokenizer: Tokenizer, bytes_of: Sequence[bytes], specials: Mapping[str, int]
    ) -> None:
        self._tokenizer, self._bytes, self.specials = tokenizer, bytes_of, specials

    @classmethod
    def load(cls, checkpoint: Path, pre_token: str) -> RankedTokenizer:
        """Read tokenizer.model and tokenizer_config.json; raises CheckpointError.

        pre_token: how a text is divided before pairs are merged.
        """
        path = checkpoint / _RANKS
        ranks = _ranks(path)
        specials = added_ids(checkpoint)
        return cls(_built(ranks, pre_token, path), list(ranks), specials)

    def ids(self, text: str) -> list[int]:
        """Tokens of a whole text."""
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def spelled(self, ids: Sequence[int]) -> bytes:
        """UTF-8 of ids, maybe broken off within a character; added tokens are no text."""
        return b"".join(self._bytes[one] for one in ids if 0 <= one < len(self._bytes))

    def special(self, name: str) -> int:
        """The id of an added token; raises CheckpointError."""
        if name not in self.specials:
            raise CheckpointError(f"{_CONFIG} has no token {name}: it is of another model")
        return self.specials[name]


def _ranks(path: Path) -> dict[bytes, int]:
    """In the order of ranks, which are ids."""
    try:
        lines = [line.split() for line in path.read_bytes().splitlines() if line]
        ranks = {base64.b64decode(token, validate=True): int(rank) for token, rank in lines}
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: it is part of the tokenizer") from error
    except (ValueError, binascii.Error) as error:
        raise CheckpointError(f"{path} is damaged: a line is no token and its rank") from error
    if not ranks or list(ranks.values()) != list(range(len(ranks))):
        raise CheckpointError(f"{path} is damaged: its ranks are not 0, 1, 2 and so on")
    return ranks


def _built(ranks: Mapping[bytes, int], pre_token: str, path: Path) -> Tokenizer:
    try:
        from tokenizers import Tokenizer, models
    except ImportError as error:
        raise missing(error) from error
    spelling = {byte: ord(letter) for letter, byte in BYTES.items()}
    vocab = {token.decode("latin-1").translate(spelling): rank for token, rank in ranks.items()}
    try:
        model = models.BPE(vocab=vocab, merges=_merges(ranks, spelling), ignore_merges=True)
    except Exception as error:
        raise CheckpointError(f"{path} is no list of byte pairs: {error}") from error
    return divided(Tokenizer(model), pre_token)


def _merges(ranks: Mapping[bytes, int], spelling: Mapping[int, int]) -> list[tuple[str, str]]:
    """Pairs in the order in which they are merged: by the rank of what they become."""
    found: list[tuple[str, str]] = []
    for token in ranks:
        cuts = ((token[:at], token[at:]) for at in range(1, len(token)))
        pairs = [pair for pair in cuts if pair[0] in ranks and pair[1] in ranks]
        for pair in sorted(pairs, key=lambda pair: (ranks[pair[0]], ranks[pair[1]])):
            left, right = (part.decode("latin-1").translate(spelling) for part in pair)
            found.append((left, right))
    return found


class AddedId(NamedTuple):
    content: str
    id: int
    special: bool


def read_tokenizer(path: Path) -> tuple[Tokenizer, list[AddedId]]:
    """tokenizer.json without the tokens that were added, and those; raises CheckpointError."""
    content = read_json(path, dict[str, Any])
    plain = content | {"added_tokens": [], "post_processor": None}
    try:
        from tokenizers import Tokenizer

        added = [
            AddedId(str(one["content"]), int(one["id"]), bool(one.get("special")))
            for one in content.get("added_tokens") or ()
        ]
        return Tokenizer.from_str(json.dumps(plain)), added
    except ImportError as error:
        raise missing(error) from error
    except Exception as error:
        raise CheckpointError(f"{path} is not as expected: {error}") from error


class TextTokenizer:
    """Text to ids. Used by any number of threads. added: ids of the tokens that were added."""

    def __init__(
        self, tokenizer: Tokenizer, added: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        self._tokenizer, self.added = tokenizer, added

    @classmethod
    def load(cls, checkpoint: Path) -> TextTokenizer:
        """Read tokenizer.json; raises CheckpointError."""
        tokenizer, added = read_tokenizer(checkpoint / "tokenizer.json")
        return cls(tokenizer, {token.content: token.id for token in added})

    def ids(self, text: str) -> list[int]:
        """Tokens of a whole text; none of them is a control token."""
        return self._tokenizer.encode(text, add_special_tokens=False).ids
