"""Turns before a request's text: recordings are checked and stored, words are counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.requests.options import SPEECH, TurnOptions, recording
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

    async def of(self, options: Sequence[TurnOptions]) -> tuple[Turn, ...]:
        """As a request carries them.

        Raises TextTooLong, UnknownVoice, BusUnavailable, and BadRequest with the turn's place.
        """
        _require_room(options)
        turns = []
        for index, turn in enumerate(options):
            try:
                turns.append(await self._turn(turn))
            except BadRequest as error:
                name = _NAMES.get(error.param or "", error.param)
                error.param = f"turns.{index}.{name}" if name else f"turns.{index}"
                raise
        return tuple(turns)

    async def _turn(self, options: TurnOptions) -> Turn:
        text = clean(options.text, MAX_TEXT_CHARS) if options.text.strip() else ""
        if options.voice:
            voice = await self._voices.get(self._tenant, options.voice)
            sound = Reference(voice.recording, kept=True)
            return Turn(options.speaker, text or voice.text, sound)
        if not options.audio:
            return Turn(options.speaker, text)
        data = await recording(options.audio)
        kept = await self._voices.passing(self._tenant, data, text, alone=True)
        return Turn(options.speaker, text, Reference(kept.audio))

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


def _require_room(options: Sequence[TurnOptions]) -> None:
    said = sum(len(options.text) for options in options)
    if said > MAX_TEXT_CHARS:
        raise TextTooLong(
            f"the turns have {said} characters, at most {MAX_TEXT_CHARS} are taken: leave out the"
            " oldest",
            param="turns",
        )
