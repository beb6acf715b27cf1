"""A request as CosyVoice takes it: its voice, how it is to be spoken, and its text. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ttscommon.wire.errors import BadRequest
from ttscommon.wire.fields import Array, Arrays
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Pause, Piece
from ttsfamilies.base.lm.qwen2_tokenizer import GrowingIds, Qwen2Tokenizer
from ttsfamilies.base.lm.request import (
    Drawing,
    IdsPrompt,
    limited,
    nothing_to_say,
    plain_text,
    speakable,
)
from ttsfamilies.base.talker.base import Prepared, recorded
from ttsfamilies.base.talker.lmstream import ENDLESS
from ttsfamilies.base.text.segment import Passages
from ttsfamilies.cosyvoice.config import END_OF_PROMPT, TOKENS, Opening

# The reference divides texts so that about 80 tokens are spoken at once.
PASSAGE_TOKENS: Final = 80
# Tokens of speech for each of text, at the least and at the most.
LEAST_RATIO, MOST_RATIO = 2, 20
_PROMPT_SHARE: Final = 2


# The reference's settings where a request says nothing.
_USUAL: Final = Drawing(temperature=1.0, top_k=25, top_p=0.8)


class MoreText(NamedTuple):
    """Tokens of a streamed text that are final now."""

    ids: tuple[int, ...]


@dataclass(frozen=True)
class Vocabulary:
    """Ids of positions. speech: of the first token of speech. start, task: see CosyNet."""

    tokenizer: Qwen2Tokenizer
    speech: int
    start: int
    task: int
    system: str


def opening(request: SpeechRequest, reference: Arrays | None, v: Vocabulary) -> Opening:
    """What stands before the text.

    With a transcript the recording is gone on from; without, or under an instruction, the language
    model is not told of it, and the voice is the codec's. Raises BadRequest without a recording.
    """
    reference = recorded(reference)
    start, tokens = (v.start,), v.tokenizer.ids
    if request.instructions:
        said = f"{v.system} {request.instructions}" if v.system else request.instructions
        return Opening(*_led(start, (*tokens(said), END_OF_PROMPT), v), (), v.task)
    system = (*tokens(v.system), END_OF_PROMPT) if v.system else ()
    heard = request.reference
    text = "" if heard is None or heard.x_vector_only else heard.text
    if not text:
        return Opening((*start, *system), (), (), v.task)
    speech = tuple(v.speech + int(token) for token in _checked(reference["token"]))
    return Opening((*start, *system), tuple(tokens(text)), speech, v.task)


def _led(
    start: tuple[int, ...], said: tuple[int, ...], v: Vocabulary
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Header and text: version 2 reads an instruction as the beginning of the text."""
    return ((*start, *said), ()) if v.system else (start, said)


def _checked(token: Array) -> Array:
    if not len(token) or token.min() < 0 or token.max() >= TOKENS:
        raise BadRequest("the recording has no tokens of speech", param="ref_audio")
    return token


class CosyPrepared(Prepared):
    """A request whose voice is known, and its text so far.

    streamed: text and speech take turns; otherwise a passage is known before its speech.
    """

    def __init__(
        self,
        request: SpeechRequest,
        opening: Opening,
        vocabulary: Vocabulary,
        *,
        streamed: bool,
        positions: int,
        most: int | None = None,
    ) -> None:
        """positions: of a sequence. most: tokens of speech, unless the request says fewer."""
        self.request, self.opening, self.streamed = request, opening, streamed
        self.drawing = _USUAL.with_asked(request.sampling)
        self._tokenizer, self._positions = vocabulary.tokenizer, positions
        asked = request.sampling.max_new_tokens
        self.most_frames = min(asked or ENDLESS, most or ENDLESS)
        self._passages = Passages(lambda text: len(self._tokenizer.ids(text)), PASSAGE_TOKENS)
        self._growing, self._given = GrowingIds(self._tokenizer), 0
        self._spoken = self._begun = False
        # Version 3 counts its system prompt as text where no transcript follows it.
        alone = bool(vocabulary.system) and not (opening.text or request.instructions)
        self._counted = len(opening.header) - 1 if alone else 0

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[IdsPrompt | MoreText]:
        """Raises TextTooLong, NothingToSay."""
        text = "".join(map(plain_text, pieces))
        self._spoken = self._spoken or speakable(text)
        if self.streamed:
            yield from self._tokens(text, pieces, final=final)
        else:
            yield from map(self._passage, filter(speakable, self._passages.feed(text, final=final)))
        if final and not self._spoken:
            raise nothing_to_say()

    def _tokens(self, text: str, pieces: Sequence[Piece], *, final: bool) -> Iterator[MoreText]:
        paused = final and bool(pieces) and isinstance(pieces[-1], Pause)
        # Space around a text is none of it.
        text = text if self._begun else text.lstrip()
        self._begun = self._begun or bool(text)
        self._growing.feed(text, final=final, trimmed=paused)
        ids = tuple(self._growing.known[self._given :])
        if ids and self._spoken:
            self._given += len(ids)
            yield MoreText(ids)

    def _passage(self, text: str) -> IdsPrompt:
        said, before = self._tokenizer.ids(text), self.opening
        ids = (*before.whole, *said, before.task, *before.speech)
        limited(len(ids), self._positions // _PROMPT_SHARE, "a sentence and the recording take")
        count = len(said) + self._counted
        most = min(MOST_RATIO * count, self._positions - len(ids))
        return IdsPrompt(ids, most, len(before.whole), least=min(LEAST_RATIO * count, most))
