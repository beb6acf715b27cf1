"""Turns before a request's text: recordings are checked and stored, words are counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.requests.options import SPEECH, TurnWish, recording
from gateway.requests.text import clean
from gateway.requests.voices import VoiceStore
from ttscommon.sound.recordings import LEAST_SAID_S
from ttscommon.wire.errors import BadRequest, TextTooLong
from ttscommon.wire.messages import MAX_TEXT_CHARS, MAX_TURNS, Reference, Turn

# As a turn calls them, by what a request of its own does.
_NAMES: Final = {"ref_audio": "audio", "ref_text": "text", "input": "text"}


class DialogueTurns:
    """The turns of one tenant's requests."""

    def __init__(self, voices: VoiceStore, tenant: str) -> None:
        self._voices, self._tenant = voices, tenant

    async def of(self, wishes: Sequence[TurnWish]) -> tuple[Turn, ...]:
        """As a request carries them.

        Raises TextTooLong, UnknownVoice, BusUnavailable, and BadRequest with the turn's place.
        """
        _require_room(wishes)
        turns = []
        for index, wish in enumerate(wishes):
            try:
                turns.append(await self._turn(wish))
            except BadRequest as error:
                name = _NAMES.get(error.param or "", error.param)
                error.param = f"turns.{index}.{name}" if name else f"turns.{index}"
                raise
        return tuple(turns)

    async def _turn(self, wish: TurnWish) -> Turn:
        text = clean(wish.text, MAX_TEXT_CHARS) if wish.text.strip() else ""
        if wish.voice:
            voice = await self._voices.get(self._tenant, wish.voice)
            sound = Reference(voice.recording, kept=True)
            return Turn(wish.speaker, text or voice.text, sound)
        if not wish.audio:
            return Turn(wish.speaker, text)
        data = await recording(wish.audio)
        kept = await self._voices.passing(self._tenant, data, text, alone=True)
        return Turn(wish.speaker, text, Reference(kept.audio))

    async def spoken(self, speech: str, before: Sequence[Turn]) -> tuple[Turn, ...]:
        """Turns, and behind them what is said to the model; raises what `of` does."""
        if len(before) >= MAX_TURNS:
            raise BadRequest(
                f"with {SPEECH} at most {MAX_TURNS - 1} turns are taken: leave out the oldest",
                param="turns",
            )
        try:
            data = await recording(speech)
            kept = await self._voices.passing(
                self._tenant, data, "", alone=True, least_s=LEAST_SAID_S
            )
        except BadRequest as error:
            error.param = SPEECH
            raise
        return (*before, Turn(sound=Reference(kept.audio)))


def _require_room(wishes: Sequence[TurnWish]) -> None:
    said = sum(len(wish.text) for wish in wishes)
    if said > MAX_TEXT_CHARS:
        raise TextTooLong(
            f"the turns have {said} characters, at most {MAX_TEXT_CHARS} are taken: leave out the"
            " oldest",
            param="turns",
        )
