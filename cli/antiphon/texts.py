"""A text as requests that a gateway takes, and as subtitles of what was spoken."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final

from antiphon.client import Word

# Half of what gateways take by default; the next request begins at a sentence from here on.
REQUEST_CHARS: Final = 4000
# A text without any sentence is cut at a word from here on.
LONGEST_CHARS: Final = 6000

# Quotation marks, brackets and Markdown's marks behind the mark that ends a sentence.
_CLOSING: Final = "\"'”’»)]}*_`"
_BREAK: Final = re.compile(rf"[.!?…][{re.escape(_CLOSING)}]*\s+|\n\s*\n")


class Requests:
    """Iterates over requests, each of them an iterator over its pieces as they come."""

    def __init__(self, text: AsyncIterator[str]) -> None:
        self._text = text
        self._rest = ""
        self._ended = False
        self._sent = False

    async def __aiter__(self) -> AsyncIterator[AsyncIterator[str]]:
        yield self._request()
        while await self._more():
            yield self._request()

    async def _more(self) -> bool:
        """Whether anything but space follows a request that was told to its end."""
        if not self._sent:
            return False
        while not self._rest.strip() and not self._ended:
            await self._read()
        return bool(self._rest.strip())

    async def _read(self) -> None:
        try:
            self._rest += await anext(self._text)
        except StopAsyncIteration:
            self._ended = True

    async def _request(self) -> AsyncIterator[str]:
        self._sent, told = False, 0
        while True:
            if not self._rest and not self._ended:
                await self._read()
            cut = _cut(self._rest, told)
            piece, self._rest = self._rest[:cut], self._rest[cut:]
            told += len(piece)
            self._sent = bool(self._rest) or self._ended
            if piece:
                yield piece
            if self._sent:
                return


def _cut(piece: str, told: int) -> int:
    """How much of a piece belongs to a request that holds `told` characters."""
    if told + len(piece) <= REQUEST_CHARS:
        return len(piece)
    sentence = _BREAK.search(piece, max(0, REQUEST_CHARS - told))
    if sentence and told + sentence.end() <= LONGEST_CHARS:
        return sentence.end()
    if told + len(piece) <= LONGEST_CHARS:
        return len(piece)
    space = piece.rfind(" ", 0, max(1, LONGEST_CHARS - told))
    return space + 1 if space > 0 else max(1, LONGEST_CHARS - told)


# Two lines of 42 characters are what broadcasters allow; a cue stands for at most seven seconds.
_MOST_CHARS: Final = 84
_MOST_S: Final = 7.0
_PAUSE_S: Final = 0.6
_SENTENCE_ENDS: Final = (".", "!", "?", "…")


def cues(words: Iterable[Word]) -> Iterator[list[Word]]:
    """Words that are shown together: up to a sentence, a pause, or as much as can be read."""
    cue: list[Word] = []
    for word in words:
        if cue and _begins_another(cue, word):
            yield cue
            cue = []
        cue.append(word)
    if cue:
        yield cue


def _begins_another(cue: Sequence[Word], word: Word) -> bool:
    chars = sum(len(one.text) + 1 for one in cue) + len(word.text)
    return (
        cue[-1].text.rstrip(_CLOSING).endswith(_SENTENCE_ENDS)
        or word.start_s - cue[-1].end_s > _PAUSE_S
        or word.end_s - cue[0].start_s > _MOST_S
        or chars > _MOST_CHARS
    )


def srt_blocks(shown: Iterable[Sequence[Word]]) -> Iterator[str]:
    """SubRip's numbered blocks, which empty lines stand between; a comma before milliseconds."""
    for number, cue in enumerate(shown, start=1):
        times = f"{_time(cue[0].start_s, ',')} --> {_time(cue[-1].end_s, ',')}"
        yield f"{number}\n{times}\n{_text(cue)}\n"


def vtt_blocks(shown: Iterable[Sequence[Word]]) -> Iterator[str]:
    """WebVTT's head and blocks, which empty lines stand between; characters that it would read as
    markup are written as entities.
    """
    yield "WEBVTT\n"
    for cue in shown:
        times = f"{_time(cue[0].start_s, '.')} --> {_time(cue[-1].end_s, '.')}"
        yield f"{times}\n{escape(_text(cue), quote=False)}\n"


def write(
    parts: Iterable[Iterable[Word]],
    path: Path | None,
    blocks: Callable[[Iterable[Sequence[Word]]], Iterator[str]],
) -> None:
    """Write a text in parts, no cue of which goes over a part's end, block by block, into the file
    if one was asked for; raises OSError.
    """
    if path is None:
        return
    shown = (cue for words in parts for cue in cues(words))
    with path.open("w", encoding="utf-8") as file:
        for number, block in enumerate(blocks(shown)):
            file.write(f"\n{block}" if number else block)


def _text(cue: Sequence[Word]) -> str:
    return " ".join(word.text for word in cue)


def _time(seconds: float, point: str) -> str:
    milliseconds = max(0, round(seconds * 1000))
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02}{point}{rest % 1000:03}"
