"""Text that arrives piece by piece: cleaned as it comes, and spoken while it is being written."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Self

from msgspec.structs import replace

from gateway.requests.lexicon import LexiconMatcher, slices
from gateway.requests.markup import MarkupReader
from gateway.requests.text import SourcedCleaner, normalized, speakable, too_long, unread_scripts
from ttscommon.wire.errors import AntiphonError, NothingToSay
from ttscommon.wire.pieces import Boundary, Marked, Pause, Phones, Piece, Text, marked


class IncrementalText:
    """One request's text on its way in.

    The client's side calls `add` and its like, and `finish`. The request takes the `head` once, as
    soon as there is anything to say, and then each `next` piece. Markup in the text is followed or
    dropped; see MarkupReader. `live`: it was not known as a whole when it began.
    """

    def __init__(self, max_chars: int) -> None:
        self.live = True
        self.complete = False
        self.began_s = self.touched_s = time.monotonic()
        self.failure: AntiphonError | None = None
        self._max_chars = max_chars
        self._chars = 0
        self._markup = MarkupReader()
        self._cleaner = SourcedCleaner()
        self._matcher: LexiconMatcher | None = None
        self._scripts: dict[str, None] = {}
        self._pieces: list[Piece] = []
        self._begun = False
        self._changed = asyncio.Event()

    @classmethod
    def whole(cls, text: str, max_chars: int, *, optional: bool = False) -> Self:
        """A text that is complete; raises TextTooLong, and NothingToSay unless it is optional."""
        made = cls(max_chars)
        made.live = False
        made.add(text)
        made.finish()
        if not (made.speakable or optional):
            raise NothingToSay("there is nothing to say in the text", param="input")
        return made

    @property
    def speakable(self) -> bool:
        """Whether anything that waits could have a sound."""
        return any(
            isinstance(p, Phones) or (isinstance(p, Text) and speakable(p.text))
            for p in self._pieces
        )

    @property
    def characters(self) -> int:
        """How many have come so far."""
        return self._chars

    def dropped(self, *, phones: bool, pace: bool, scripts: bool) -> list[str]:
        """What of the text so far is not spoken, or not as it asks for: `text:SCRIPT` where the
        model knows English alone (`scripts`), `markup:NAME` (see MarkupReader).
        """
        unread = [f"text:{script}" for script in self._scripts] if scripts else []
        return [*unread, *self._markup.dropped(phones=phones, pace=pace)]

    def use_lexicons(self, matcher: LexiconMatcher) -> None:
        """Read words as lexicons say; call before any text is taken."""
        self._matcher = matcher

    def add(self, text: str) -> None:
        """Take some text; raises TextTooLong, which also ends the request."""
        self._count(len(text))
        self._scripts.update(dict.fromkeys(unread_scripts(text)))
        self._take(self._markup.feed(text))
        self._touch()

    def boundary(self) -> None:
        """A sentence ends here: what came so far is to be spoken."""
        self._count(1)
        self._take(self._markup.feed("", final=True))
        self._take([Boundary()])
        self._touch()

    def phones(self, word: Phones) -> None:
        """A word and how it is pronounced."""
        self._count(len(word.text) + 2)
        self._take(self._markup.feed("", final=True))
        self._take([replace(word, source=self._markup.position)])
        self._markup.position += len(word.text)
        self._touch()

    def pause(self, seconds: float) -> None:
        """Silence of (0, 10] seconds."""
        self._count(1)
        self._take([*self._markup.feed("", final=True), Pause(seconds)])
        self._touch()

    def finish(self) -> None:
        """No more text will come; safe to call twice."""
        if self.complete:
            return
        self._take(self._markup.feed("", final=True))
        self._settle()
        self.complete = True
        self._touch()

    async def head(self, coalesce_s: float, *, optional: bool = False) -> tuple[Marked, bool]:
        """The first text, as soon as there is anything to say, and whether it is all.

        Waits `coalesce_s` more for the end, because a text that came in one go needs no text log.
        Raises NothingToSay for a text that ended without a speakable character, unless there need
        be none, and TextTooLong.
        """
        while not (self.complete or self.failure or self.speakable):
            await self._change()
        if not self.complete:
            await self._linger(coalesce_s)
        if self.failure is not None:
            raise self.failure
        if self.complete and not (self.speakable or optional):
            raise NothingToSay("there is nothing to say in the text", param="text")
        complete = self.complete
        return marked(await self._certain(final=complete)), complete

    async def next(self) -> Marked | None:
        """What has come since the last call, as one piece; None at the end."""
        while True:
            complete = self.complete
            if (self._pieces or complete) and (pieces := await self._certain(final=complete)):
                return marked(pieces)
            if complete:
                return None
            if not (self._pieces or self.complete):
                await self._change()

    async def _certain(self, *, final: bool) -> list[Piece]:
        """What waits, but for words that may be the beginning of a lexicon's entry.

        Other clients are served between two slices: texts in which everything nearly matches take
        a fifth of a second.
        """
        pieces, self._pieces = self._pieces, []
        if self._matcher is None:
            return pieces
        found: list[Piece] = []
        for some in slices(pieces):
            found += self._matcher.feed([some])
            await asyncio.sleep(0)
        return found + self._matcher.feed([], final=final)

    async def _linger(self, coalesce_s: float) -> None:
        try:
            async with asyncio.timeout(coalesce_s):
                while not (self.complete or self.failure):
                    await self._change()
        except TimeoutError:
            return

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _count(self, chars: int) -> None:
        if not self._chars:
            self.began_s = time.monotonic()
        self._chars += chars
        if self._chars > self._max_chars:
            self.failure = too_long(self._chars, self._max_chars)
            self._touch()
            raise self.failure

    def _take(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            if isinstance(piece, Text):
                self._accept(self._cleaner.feed(piece))
                continue
            self._settle()
            self._begun = self._begun or isinstance(piece, Phones)
            self._pieces.append(_clean(piece) if isinstance(piece, Phones) else piece)

    def _settle(self) -> None:
        """What was held back is certain now."""
        self._accept(self._cleaner.feed(final=True))

    def _accept(self, cleaned: list[Text]) -> None:
        """Take clean text; white space in front of everything is no text."""
        for one in cleaned:
            text = one.text if self._begun else one.text.lstrip()
            if not text:
                continue
            self._begun = True
            source = one.source + len(one.text) - len(text) if one.source >= 0 else -1
            self._pieces.append(Text(text, source, one.rate))

    def _touch(self) -> None:
        self.touched_s = time.monotonic()
        self._changed.set()


def _clean(word: Phones) -> Phones:
    text, phones, alias = map(normalized, (word.text, word.phones, word.alias))
    return replace(word, text=text.strip(), phones=phones, alias=alias)
