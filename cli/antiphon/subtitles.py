"""Subtitles of what was spoken: SubRip and WebVTT, out of the times of its words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from antiphon.client import Word

# Two lines of 42 characters are what broadcasters allow; a cue stands for at most seven seconds.
_MOST_CHARS: Final = 84
_MOST_S: Final = 7.0
_PAUSE_S: Final = 0.6
_SENTENCE_ENDS: Final = (".", "!", "?", "…")
_CLOSING: Final = "\"'”’)]"


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
        yield f"{times}\n{_escaped(_text(cue))}\n"


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


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _time(seconds: float, point: str) -> str:
    milliseconds = max(0, round(seconds * 1000))
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02}{point}{rest % 1000:03}"
