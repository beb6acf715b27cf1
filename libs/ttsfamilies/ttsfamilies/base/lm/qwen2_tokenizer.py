"""Qwen2's text tokenizer, for whole texts and for texts that still grow.

Byte-level BPE splits a text into pre-tokens by one expression and merges within each. So tokens of
a growing text are final up to its last pre-token, and a little less at line ends and at combining
characters; what is not final yet is held back. Special tokens are never read out of a text: what
a client sends is text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from ttscommon.engine.checkpoint import CheckpointError, missing, read_json
from ttsfamilies.base.lm.tokenizer import BYTES, added_ids, divided

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# How Qwen2 divides a text, as its own tokenizer class has it.
_PRE_TOKEN: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True)
class _AddedAs:
    id: int
    content: str


@dataclass(frozen=True)
class _Model:
    """merges: pairs, or two tokens with a space between them."""

    type: str
    vocab: dict[str, int]
    merges: tuple[str | tuple[str, str], ...]


@dataclass(frozen=True)
class _Whole:
    """tokenizer.json, which holds it all."""

    model: _Model
    added_tokens: tuple[_AddedAs, ...]
    pre_tokenizer: Any


class Qwen2Tokenizer:
    """Text to ids. Used by any number of threads."""

    def __init__(self, tokenizer: Tokenizer, specials: Mapping[str, int]) -> None:
        self._tokenizer = tokenizer
        self._specials, self._special_ids = specials, frozenset(specials.values())

    @classmethod
    def load(cls, checkpoint: Path) -> Self:
        """Read vocab.json, merges.txt and tokenizer_config.json, or tokenizer.json, which is all
        that transformers 5 writes; raises CheckpointError.
        """
        if (whole := checkpoint / "tokenizer.json").exists() and not _older(checkpoint):
            return cls._of_whole(whole)
        vocab = read_json(checkpoint / "vocab.json", dict[str, int])
        specials, merges = added_ids(checkpoint), _merges(checkpoint / "merges.txt")
        if min(vocab.values(), default=-1) < 0:
            raise CheckpointError(f"{checkpoint / 'vocab.json'} has no ids, or negative ones")
        return cls(_build(vocab, merges, checkpoint), specials)

    @classmethod
    def _of_whole(cls, path: Path) -> Self:
        found = read_json(path, _Whole)
        if found.model.type != "BPE" or _PRE_TOKEN not in _patterns(found.pre_tokenizer):
            raise CheckpointError(f"{path} divides texts otherwise than Qwen2's tokenizer does")
        specials = {added.content: added.id for added in found.added_tokens}
        vocab = {token: i for token, i in found.model.vocab.items() if token not in specials}
        pairs = [
            tuple(rule.split(" ")) if isinstance(rule, str) else rule for rule in found.model.merges
        ]
        return cls(_build(vocab, [(left, right) for left, right in pairs], path.parent), specials)

    @property
    def size(self) -> int:
        """One more than the highest id that a text can have."""
        ids = self._tokenizer.get_vocab().values()
        return 1 + max(*ids, self.special("<|im_start|>"), self.special("<|im_end|>"))

    def special(self, name: str, usual: int | None = None) -> int:
        """The id of a special token, or the usual one where its name is not there; raises
        CheckpointError.
        """
        found = self._specials.get(name, usual)
        if found is None:
            raise CheckpointError(f"tokenizer_config.json has no token {name}")
        return found

    def ids(self, text: str) -> list[int]:
        """Tokens of a whole text."""
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def bytes_of(self, id: int) -> bytes:
        """What a token spells: part of a text in UTF-8; nothing for special tokens."""
        token = None if id in self._special_ids else self._tokenizer.id_to_token(id)
        return bytes(BYTES[c] for c in token or "" if c in BYTES)

    def final_length(self, text: str) -> int:
        """How many characters of `text`, normalised, no later text can change the tokens of."""
        splitter = self._tokenizer.pre_tokenizer
        assert splitter is not None
        limit = _uncertain_from(text)
        starts = [start for _, (start, _) in splitter.pre_tokenize_str(text)]
        return max((start for start in starts if start <= limit), default=0)

    def normalise(self, text: str) -> str:
        """Composed characters, as the tokenizer sees them."""
        return unicodedata.normalize("NFC", text)


class GrowingIds:
    """Tokens of a text that arrives in pieces: the same as those of the whole, however it is cut.

    before: what stands before the text and merges with it. known: tokens that are final.
    """

    def __init__(self, tokenizer: Qwen2Tokenizer, before: str = "") -> None:
        self._tokenizer, self._rest = tokenizer, before
        self.known: list[int] = []
        self.complete = False

    def feed(self, text: str, *, final: bool, trimmed: bool = False) -> None:
        """Take the next piece; after `final` there is no more. trimmed: white space at the end of
        the text is none of it.
        """
        if self.complete:
            raise ValueError("the text is complete")
        self._rest = self._tokenizer.normalise(self._rest + text)
        # White space at the end is never final before the text is.
        self._rest = self._rest.rstrip() if trimmed else self._rest
        self.complete = final
        end = len(self._rest) if final else self._tokenizer.final_length(self._rest)
        if end:
            self.known += self._tokenizer.ids(self._rest[:end])
            self._rest = self._rest[end:]


def _uncertain_from(text: str) -> int:
    """Where a pre-token may begin at the latest so that later text can change it.

    That is at the last character which others can join (a combining mark can compose with it), or
    in the white space at the end, which line ends gather up.
    """
    starter = max((i for i, c in enumerate(text) if not unicodedata.combining(c)), default=0)
    return min(starter, len(text.rstrip()))


def _older(checkpoint: Path) -> bool:
    """Whether any of the files is there that transformers 4 wrote."""
    return any((checkpoint / name).exists() for name in ("vocab.json", "merges.txt"))


def _patterns(pre_tokenizer: Any) -> list[str]:
    """Expressions that a pre-tokenizer of a tokenizer.json divides texts by."""
    if not isinstance(pre_tokenizer, dict):
        return []
    parts = pre_tokenizer.get("pretokenizers", [pre_tokenizer])
    patterns = [part.get("pattern") for part in parts if isinstance(part, dict)]
    return [str(found.get("Regex")) for found in patterns if isinstance(found, dict)]


def _merges(path: Path) -> list[tuple[str, str]]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} cannot be read: it is part of the tokenizer") from error
    rules = [line.split(" ") for line in lines if line and not line.startswith("#version")]
    if any(len(rule) != 2 for rule in rules):
        raise CheckpointError(f"{path} is damaged: a line is no pair of tokens")
    return [(left, right) for left, right in rules]


def _build(vocab: dict[str, int], merges: list[tuple[str, str]], checkpoint: Path) -> Tokenizer:
    try:
        from tokenizers import Tokenizer, models, normalizers
    except ImportError as error:
        raise missing(error) from error
    try:
        tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    except Exception as error:
        raise CheckpointError(f"{checkpoint}: merges.txt does not fit vocab.json") from error
    tokenizer.normalizer = normalizers.NFC()
    return divided(tokenizer, _PRE_TOKEN)
