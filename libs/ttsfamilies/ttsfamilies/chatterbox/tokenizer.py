"""Texts to ids, by tokenizer.json or by the files of a GPT-2. No torch.

Of the tokens that were added to a tokenizer, a text may hold those that stand for sounds or for
letters; those that control the model are text like any other.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from ttscommon.engine.checkpoint import CheckpointError, missing, read_json
from ttsfamilies.base.lm.tokenizer import read_tokenizer
from ttsfamilies.base.text.segment import CLOSERS, TERMINATORS

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Of the multilingual file. Chinese, Hebrew and Japanese are missing: their texts need readers, for
# codes of characters, vowel points and kana, which are models or tables of their own.
LANGUAGES: Final = (
    *("ar", "da", "de", "el", "en", "es", "fi", "fr", "hi", "it", "ko", "ms", "nl", "no", "pl"),
    *("pt", "ru", "sv", "sw", "tr"),
)
_MARKS: Final = (
    *(("...", ", "), ("\u2026", ", "), (":", ","), (" - ", ", "), (";", ", ")),
    *(("\u2014", "-"), ("\u2013", "-"), (" ,", ",")),
    *(("\u201c", '"'), ("\u201d", '"'), ("\u2018", "'"), ("\u2019", "'")),
)
# A GPT-2 was trained with these as they are written.
_KEPT: Final = ("...", " - ", ";")
_ENDS: Final = (".", "!", "?", "-", ",")
_WIDE_ENDS: Final = ("\u3001", "\uff0c", "\u3002", "\uff1f", "\uff01")


def evened(text: str, *, gpt: bool, multilingual: bool = False) -> str:
    """A sentence with plain punctuation, a capital first letter and an end, as the package has it.

    gpt: as Turbo's package has it. multilingual: marks of East Asian texts end a sentence too.
    """
    if text[:1].islower():
        text = text[0].upper() + text[1:]
    text = " ".join(text.split())
    for mark, plain in _MARKS:
        if not (gpt and mark in _KEPT):
            text = text.replace(mark, plain)
    text = text.rstrip(" ")
    ends = _ENDS + (_WIDE_ENDS if multilingual else ())
    return text if text.endswith(ends) else f"{text}."


def in_letters(text: str, language: str) -> str:
    """A text in the letters that the multilingual tokenizer knows: small ones, marks apart."""
    found = unicodedata.normalize("NFKD", text.lower())
    return found.strip() if language == "ko" else found


def ends_sentence(text: str) -> bool:
    """Whether a sentence is over, quotes and brackets around its end aside."""
    return text.rstrip(f"{CLOSERS}\u300d ").endswith(TERMINATORS)


SPACE: Final = "[SPACE]"
START: Final = "[START]"
STOP: Final = "[STOP]"
_WHOLE: Final = "tokenizer.json"
_MULTILINGUAL: Final = "grapheme_mtl_merged_expanded_v1.json"
_MERGES: Final = ("vocab.json", "merges.txt")
_ADDED: Final = "added_tokens.json"
_CONTROLS: Final = frozenset(
    (START, STOP, "[UNK]", "[PAD]", "[SEP]", "[CLS]", "[MASK]", "<|endoftext|>")
)


class Graphemes:
    """marks: ids of added tokens that a text may hold, by how they are written. languages: ids of
    what says a text's language, by its code; none where the tokenizer knows one.
    """

    def __init__(self, tokenizer: Tokenizer, marks: Mapping[str, int], *, spaced: bool) -> None:
        """spaced: a space is a token of its own."""
        self._tokenizer, self._marks, self._spaced = tokenizer, marks, spaced
        self._split = re.compile("|".join(map(re.escape, marks)) or r"(?!)")

    def ids(self, text: str, language: str = "") -> list[int]:
        """Of a whole text, without what begins and ends one."""
        text = text.replace(" ", SPACE) if self._spaced else text
        found, at = [], 0
        if language:
            found.append(self._marks[f"[{language}]"])
        for mark in self._split.finditer(text):
            found += [*self._plain(text[at : mark.start()]), self._marks[mark[0]]]
            at = mark.end()
        return [*found, *self._plain(text[at:])]

    def _plain(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False).ids if text else []

    def knows(self, language: str) -> bool:
        """Whether a text may be of a language."""
        return f"[{language}]" in self._marks

    @classmethod
    def load(cls, folder: Path, ids: int, *, gpt: bool, multilingual: bool) -> Self:
        """Of a checkpoint's folder, whose network knows so many ids; raises CheckpointError."""
        path = folder / (_MULTILINGUAL if multilingual else _WHOLE)
        try:
            found = cls._read(path, spaced=not gpt) if path.exists() else cls._of_merges(folder)
        except ImportError as error:
            raise missing(error) from error
        if (most := max((*found._marks.values(), found._tokenizer.get_vocab_size() - 1))) >= ids:
            raise CheckpointError(f"{path} has an id {most}, its network knows {ids}")
        return found

    @classmethod
    def _read(cls, path: Path, *, spaced: bool) -> Self:
        tokenizer, added = read_tokenizer(path)
        vocabulary = tokenizer.get_vocab()
        told = {token.content: token.id for token in added}
        known = vocabulary | told
        if spaced and not known.keys() >= {SPACE, START, STOP}:
            raise CheckpointError(f"{path} has no {SPACE}, {START} and {STOP}")
        return cls(tokenizer, _marks(told | _named(vocabulary)), spaced=spaced)

    @classmethod
    def _of_merges(cls, folder: Path) -> Self:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers

        vocabulary, merges = (folder / name for name in _MERGES)
        added = folder / _ADDED
        try:
            tokenizer = Tokenizer(models.BPE.from_file(str(vocabulary), str(merges)))
        except Exception as error:
            raise CheckpointError(f"{vocabulary} cannot be read: {error}") from error
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        marks = read_json(added, dict[str, int]) if added.exists() else {}
        return cls(tokenizer, _marks(marks), spaced=False)


def _named(vocabulary: Mapping[str, int]) -> dict[str, int]:
    """Entries in brackets, which are tokens of their own as well."""
    return {name: id for name, id in vocabulary.items() if re.fullmatch(r"\[[^\[\]]+\]", name)}


def _marks(added: Mapping[str, int]) -> dict[str, int]:
    return {name: id for name, id in added.items() if name not in _CONTROLS}
