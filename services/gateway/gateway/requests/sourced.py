"""Cleaned text that still knows where in the client's text each of its words stands."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from gateway.requests.text import TextCleaner, normalized
from ttscommon.wire.pieces import Text

_RUN: Final = re.compile(r"[^\t\n\v\f\r \x85\u2028\u2029]+|.", re.DOTALL)


class _Begin(NamedTuple):
    """A position, and what holds from there on; see ttscommon's Span."""

    at: int
    source: int
    rate: float

    def source_at(self, position: int) -> int:
        return self.source + position - self.at if self.source >= 0 else -1


class SourcedCleaner:
    """A TextCleaner of texts with sources. Cleaning moves characters; words keep their place."""

    def __init__(self) -> None:
        self._cleaner = TextCleaner()
        self._begins: list[_Begin] = []

    def feed(self, text: Text | None = None, *, final: bool = False) -> list[Text]:
        """Take a text; returns the cleaned text that is certain now."""
        raw = self._cleaner.held
        if text is not None:
            self._begins.append(_Begin(len(raw), text.source, text.rate))
            raw += text.text
        cleaned = self._cleaner.feed(raw[len(self._cleaner.held) :], final=final)
        cut = len(raw) - len(self._cleaner.held)
        found = list(self._placed(raw[:cut], cleaned)) if cleaned else []
        self._forget(cut)
        return found

    def _forget(self, cut: int) -> None:
        """What was cut off needs no place any more."""
        index = max(0, bisect_right(self._begins, cut, key=lambda begin: begin.at) - 1)
        rest = [
            _Begin(max(0, b.at - cut), b.source_at(max(b.at, cut)), b.rate)
            for b in self._begins[index:]
        ]
        self._begins = rest if self._cleaner.held else []

    def _placed(self, raw: str, cleaned: str) -> Iterator[Text]:
        """`cleaned`, cut where its characters' places jump."""
        begins = self._begins
        if len(cleaned) != len(raw):
            begins = list(_shifted(raw, begins))
        stops = [*(begin.at for begin in begins[1:]), len(cleaned)]
        for begin, stop in zip(begins, stops, strict=True):
            stop = min(stop, len(cleaned))
            if begin.at < stop:
                yield Text(cleaned[begin.at : stop], begin.source, begin.rate)


def _shifted(raw: str, begins: list[_Begin]) -> Iterator[_Begin]:
    """The places of a raw text in its cleaned one, run by run."""
    at, shift, index = 0, 0, 0
    for found in _RUN.finditer(raw):
        start, end = found.span()
        length = len(normalized(found[0]))
        if index and at - start != shift:
            held = begins[index - 1]
            yield _Begin(at, held.source_at(start), held.rate)
            shift = at - start
        while index < len(begins) and begins[index].at < end:
            begin = begins[index]
            moved = at + min(length, len(normalized(raw[start : begin.at])))
            yield _Begin(moved, begin.source, begin.rate)
            index, shift = index + 1, moved - begin.at
        at += length
