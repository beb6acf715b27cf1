"""Text to ids and back: tokenizer.json, or the sentencepiece model that small checkpoints have.

A chunk is whole sentences of 50 tokens at the most, and parts between commas of a sentence that is
longer. Where chunks end follows from the text alone, not from how it arrived.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from ttscommon.engine.checkpoint import CheckpointError
from ttsfamilies.base.lm.tokenizer import load_processor, read_tokenizer
from ttsfamilies.base.text.segment import CLOSERS
from ttsfamilies.pocket_tts.sizes import PocketConfig, Table


class PlacedTokens(NamedTuple):
    """Ids, and the character of the text at which each begins."""

    ids: list[int]
    begins: list[int]


class Tokenizer(Protocol):
    """Used by any number of threads."""

    def tokens(self, text: str) -> PlacedTokens: ...

    def text(self, ids: list[int]) -> str: ...


class JsonTokenizer:
    """tokenizer.json, without the tokens that were added to it: what a client sends is text."""

    def __init__(self, path: Path, ids: int) -> None:
        """Raises CheckpointError, also where it has more than `ids`."""
        self._tokenizer, added = read_tokenizer(path)
        self._unread = {token.id for token in added if token.special}
        _check_size(path, self._tokenizer.get_vocab_size(), ids)

    def tokens(self, text: str) -> PlacedTokens:
        found = self._tokenizer.encode(text, add_special_tokens=False)
        return PlacedTokens(found.ids, [begin for begin, _ in found.offsets])

    def text(self, ids: list[int]) -> str:
        read = [token for token in ids if token not in self._unread]
        return self._tokenizer.decode(read)


class SentencePiece:
    """tokenizer.model."""

    def __init__(self, path: Path, ids: int) -> None:
        """Raises CheckpointError, also where it has more than `ids`."""
        self._processor = load_processor(path)
        _check_size(path, self._processor.vocab_size(), ids)

    def tokens(self, text: str) -> PlacedTokens:
        found = self._processor.encode(text, return_type="offset_mapping")
        return PlacedTokens(found["ids"], [begin for begin, _ in found["offsets"]])

    def text(self, ids: list[int]) -> str:
        return self._processor.decode(ids)


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


MOST_TOKENS: Final = 50
_FEW_WORDS, _PADDED_WORDS, _SPACES = 4, 5, 8
_AFTER_FEW, _AFTER_MANY = 5, 3
_ENDS, _WEAK = ".!?\u2026", ",;:-\u2013\u2014"
_WEAK_AFTER_END: Final = re.compile(r"(?<=[.!?\u2026])\s*[,;:]")
# Tokens around a full stop that tell whether it stands within a number.
_AROUND: Final = 8
# Looked at together, so that long texts take time in proportion to their length.
_SLICE_CHARS: Final = 1000


class Chunk(NamedTuple):
    """What the model is told at once. after: frames that follow its end of speech."""

    text: str
    after: int


def prompt(config: PocketConfig, text: str) -> Chunk:
    """A chunk as the model is told it; nothing may be left to tell."""
    text = text.strip()
    if config.replace_characters:
        text = " ".join(text.translate(config.replaced).split())
        text = _WEAK_AFTER_END.sub("", text)
    text = text.replace("\n", " ").replace("\r", " ").replace("  ", " ")
    if config.remove_semicolons:
        text = text.replace(";", ",")
    after = _AFTER_FEW if len(text.split()) <= _FEW_WORDS else _AFTER_MANY
    if text and config.append_terminal_punctuation:
        text = _ended(_begun(config, text))
    elif text:
        text = _begun(config, text)
    if config.pad_with_spaces_for_short_inputs and len(text.split()) < _PADDED_WORDS:
        text = " " * _SPACES + text
    recommended = config.model_recommended_frames_after_eos
    return Chunk(text, after if recommended is None else recommended)


def _begun(config: PocketConfig, text: str) -> str:
    if not config.capitalize_first_letter or text[0].isupper():
        return text
    return text[0].upper() + text[1:]


def _ended(text: str) -> str:
    """With a mark of a sentence's end, in place of a weaker one or behind it all."""
    core = text.rstrip(CLOSERS + " ")
    if not core or core[-1] in _ENDS:
        return text
    if core[-1] in _WEAK:
        return core.rstrip(_WEAK + " ") + "." + text[len(core) :].strip()
    return text + "."


class _Part(NamedTuple):
    """Of a sentence, or all of it. sentence: the character at which that begins."""

    tokens: int
    text: str
    sentence: int
    number: int


class Chunks:
    """The chunks of one request's text, in order."""

    def __init__(self, config: PocketConfig, tokenizer: Tokenizer) -> None:
        self._config, self._tokenizer = config, tokenizer
        self._replace = config.replaced
        self._ends = set(tokenizer.tokens(".!...?").ids[1:])
        self._commas = set(tokenizer.tokens(",;:").ids[1:])
        self._text = ""
        self._spoken = 0  # parts of the first sentence in it
        self._begins = True

    def feed(self, text: str, *, final: bool) -> Iterator[str]:
        """Add text: chunks that are certain now, all of them with `final`."""
        for at in range(0, len(text), _SLICE_CHARS):
            self._text += text[at : at + _SLICE_CHARS].translate(self._replace)
            yield from self._drain(final=False)
        if final:
            yield from self._drain(final=True)
            self._text, self._spoken = "", 0

    def _drain(self, *, final: bool) -> Iterator[str]:
        while (found := self._first(final=final)) is not None:
            chunk, behind = found
            self._begins = False
            if behind is None:
                self._text, self._spoken = "", 0
            else:
                self._text, self._spoken = self._text[behind.sentence :], behind.number
            yield chunk

    def _first(self, *, final: bool) -> tuple[str, _Part | None] | None:
        """The chunk that comes first, and the part behind it; None while it is not certain."""
        chunk, tokens = "", 0
        for part in self._parts(final=final):
            if chunk and tokens + part.tokens > MOST_TOKENS:
                return chunk.strip(), part
            chunk = f"{chunk} {part.text}" if chunk else part.text
            tokens += part.tokens
        return (chunk.strip(), None) if final and chunk.strip() else None

    def _parts(self, *, final: bool) -> Iterator[_Part]:
        """Of the sentences that are complete, without those that were spoken."""
        whole = self._text if final else self._text[: _last_space(self._text)]
        text, places = self._normal(whole)
        if final and text and self._config.append_terminal_punctuation:
            text = _ended(text)
        found = self._tokenizer.tokens(text)
        bounds = self._bounds(found.ids, self._ends, numbers=True)
        sentences = list(pairwise(bounds))
        for number, (start, stop) in enumerate(sentences if final else sentences[:-1]):
            place = places[min(found.begins[start], len(places) - 1)] if start else 0
            parts = self._split(found.ids[start:stop])
            for i, (tokens, said) in enumerate(parts):
                if number or i >= self._spoken:
                    yield _Part(tokens, said, place, i)

    def _normal(self, whole: str) -> tuple[str, list[int]]:
        """The text as it is divided, and where each of its characters was."""
        kept = [(c, at) for at, c in enumerate(whole) if not c.isspace() or _ends_word(whole, at)]
        text = "".join(" " if c.isspace() else c for c, _ in kept).rstrip()
        gone = {
            at
            for found in _WEAK_AFTER_END.finditer(text)
            if self._config.replace_characters
            for at in range(*found.span())
        }
        places = [at for i, (_, at) in enumerate(kept[: len(text)]) if i not in gone]
        text = "".join(c for i, c in enumerate(text) if i not in gone)
        if self._config.remove_semicolons:
            text = text.replace(";", ",")
        begun = _begun(self._config, text) if text and self._begins else text
        return begun, places[:1] * (len(begun) - len(text)) + places

    def _split(self, ids: list[int]) -> list[tuple[int, str]]:
        """A sentence, or what is between its commas where it is too long."""
        text = self._tokenizer.text(ids)
        if len(ids) <= MOST_TOKENS:
            return [(len(ids), text)]
        again = self._tokenizer.tokens(text.strip()).ids
        bounds = self._bounds(again, self._commas)
        if len(bounds) <= 2:
            return [(len(ids), text)]
        parts = [again[start:stop] for start, stop in pairwise(bounds)]
        return [(len(part), self._tokenizer.text(part)) for part in parts]

    def _bounds(self, ids: list[int], marks: set[int], *, numbers: bool = False) -> list[int]:
        """Where the tokens behind a mark begin; `numbers`: not within one."""
        found = [0]
        for at in range(1, len(ids)):
            behind = ids[at - 1] in marks and ids[at] not in marks
            if behind and not (numbers and self._in_number(ids, at)):
                found.append(at)
        return [*found, len(ids)]

    def _in_number(self, ids: list[int], at: int) -> bool:
        before = self._tokenizer.text(ids[max(0, at - _AROUND) : at])
        behind = self._tokenizer.text(ids[at : at + _AROUND])
        return before[-1:] == "." and before[-2:-1].isdigit() and behind[:1].isdigit()


def _ends_word(text: str, at: int) -> bool:
    """Whether the space at `at` is the first behind a word."""
    return at > 0 and not text[at - 1].isspace()


def _last_space(text: str) -> int:
    """Behind it a word may go on."""
    return max((at for at, c in enumerate(text) if c.isspace()), default=0)
