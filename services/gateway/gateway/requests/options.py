"""Options of a request, held against what its model obeys, its earlier turns, and all as a spec."""

from __future__ import annotations

import asyncio
import binascii
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import msgspec

from gateway.errors import Unsupported
from gateway.requests.incremental import IncrementalText
from gateway.requests.kept import VoiceStore
from gateway.requests.lexicon import ClientLexicon
from gateway.requests.text import clean
from ttscommon.sound.recordings import LEAST_SAID_S, MOST_BYTES, BadRecording
from ttscommon.wire import parameters
from ttscommon.wire.errors import BadRequest, TextTooLong
from ttscommon.wire.messages import MAX_TEXT_CHARS, MAX_TURNS, Reference, Sampling, Turn
from ttscommon.wire.parameters import FIELD, AdapterRef, Value
from ttscommon.wire.replicas import Model, Voice

# Without them a text is spoken in another way; without any of the others, in another voice.
_DROPPABLE: Final = ("instructions", "language", "non_streaming_mode")
# The fields of `sampling` are asked for one by one, lexicons are read here, and every model does
# without a guard.
_NOT_ASKED: Final = ("sampling", "lexicons", "runaway_guard", FIELD)
# What was said to a model that answers it.
SPEECH: Final = "speech"
_SLICE_CHARS: Final = 1 << 16  # whole groups of four
# Families that read English by themselves, phones and kinds included, in Europe's scripts only.
# The networks of other families read the text as it is.
_READS_ENGLISH: Final = frozenset({"vesper"})
# What to change, where leaving the field out is not all that can be said.
_INSTEAD: Final = {
    "turns": "send one recording as ref_audio, with ref_text",
    "speaker": "name a voice",
    SPEECH: "send what is to be spoken as text, or use a model whose `accepts` names speech",
}


@dataclass(frozen=True)
class TurnOptions:
    """Something that was said before. Its sound is `audio` (see `recording`), or that of the stored
    `voice`, which has its words too, or is unknown.
    """

    speaker: int = 0
    text: str = ""
    audio: str | None = None
    voice: str | None = None


@dataclass(frozen=True)
class RequestOptions:
    """By their names in the API; None is what the client did not say. ref_audio: see recording.
    adapter: empty for none, whatever the voice is spoken with otherwise. runaway_guard: False has
    the model go on where it loses its text. speech: what was said to the model, a recording.
    """

    language: str | None = None
    instructions: str | None = None
    task_type: str | None = None
    non_streaming_mode: bool | None = None
    ref_audio: str | None = None
    ref_text: str | None = None
    x_vector_only_mode: bool | None = None
    turns: tuple[TurnOptions, ...] = ()
    speaker: int = 0
    extra_params: Mapping[str, Value] = field(default_factory=dict)
    sampling: Sampling = field(default_factory=Sampling)
    lexicons: tuple[str, ...] = ()
    adapter: str | None = None
    runaway_guard: bool | None = None
    speech: str | None = None

    def named(self) -> Iterator[str]:
        """The fields that the client set to anything, of those that a model has to obey."""
        for name in (one.name for one in fields(self) if one.name not in _NOT_ASKED):
            if getattr(self, name):
                yield name
        yield from msgspec.to_builtins(self.sampling)

    def obeyed(
        self, model: Model, voice: Voice, *, lenient: bool
    ) -> tuple[RequestOptions, list[str]]:
        """The options that `model` obeys, and the names of those that are dropped.

        lenient: what can be dropped is; otherwise, as everything else, it raises Unsupported.
        Raises BadRequest for a parameter that the model does not have, or of another range.
        """
        parameters.checked(model.parameters, self.extra_params)
        refused = [name for name in self.named() if name not in model.accepts]
        if self.language is not None and voice.speaks(self.language):
            refused = [name for name in refused if name != "language"]
        dropped = [name for name in refused if lenient and name in _DROPPABLE]
        for name in refused:
            if name not in dropped:
                raise Unsupported(_refusal(name, model), param=name)
        without: dict[str, Any] = dict.fromkeys(dropped)
        return replace(self, **without), dropped


def _refusal(name: str, model: Model) -> str:
    refusal = f"the model '{model.name}' takes no {name}"
    if name in _INSTEAD and (name != "turns" or "ref_audio" in model.accepts):
        return f"{refusal}: {_INSTEAD[name]}"
    if name in _INSTEAD:
        return f"{refusal}: leave it out, or use a model whose `accepts` in /v1/models names it"
    return refusal


@dataclass(frozen=True)
class SpeechSpec:
    """How a request is to be spoken: resolved names, and the caller's options.

    `sample_rate` (Hz) is what the client hears, `model.sample_rate` what the model makes. The
    model speaks at `speed` as far as it can by itself; the rest is `stretch`. `options` are those
    that the model obeys, `ignored` the names of those that were dropped. `warning`:
    what the client is to be told about the voice. `lexicons`: how its words are read. `max_wait_s`:
    how long it may wait for room. `gain`: how many times as loud it is heard as it is made.
    `answers`: the last turn was said to the model, which answers it; there may be no text.
    `offline`: no listener hears it as it is made; see OfflineStreams.
    """

    model: Model
    voice: Voice
    sample_rate: int
    seed: int | None = None
    language: str | None = None
    resumable: bool = False
    tenant: str = ""
    speed: float = 1.0
    options: RequestOptions = field(default_factory=RequestOptions)
    ignored: tuple[str, ...] = ()
    reference: Reference | None = None
    turns: tuple[Turn, ...] = ()
    warning: str = ""
    lexicons: tuple[ClientLexicon, ...] = ()
    max_wait_s: float = 0.0
    adapter: AdapterRef | None = None
    gain: float = 1.0
    answers: bool = False
    offline: bool = False

    @property
    def model_speed(self) -> float:
        """What the model is asked for."""
        slowest, fastest = self.model.speeds
        return min(max(self.speed, slowest), fastest)

    @property
    def stretch(self) -> float:
        """How many times as fast its audio is then to be played."""
        return self.speed / self.model_speed

    def dropped(self, text: IncrementalText) -> list[str]:
        """What of a request is not obeyed or spoken: names of fields, `text:SCRIPT`, `markup:NAME`
        and `lexicons:phoneme`.
        """
        reads = self.model.family in _READS_ENGLISH
        slowest, fastest = self.model.speeds
        phonetic = any(lexicon.phonetic for lexicon in self.lexicons)
        unread = ["lexicons:phoneme"] if phonetic and not reads else []
        told = text.dropped(phones=reads, pace=slowest < fastest, scripts=reads)
        return [*self.ignored, *unread, *told]


async def recording(given: str) -> bytes:
    """The bytes of a `ref_audio`: base64, or a data URL of it; raises BadRecording."""
    if given.startswith(("http://", "https://", "file:")):
        raise BadRecording("ref_audio must hold the recording itself: addresses are not fetched")
    if given.startswith("data:"):
        head, comma, given = given.partition(",")
        if not comma or not head.endswith(";base64"):
            raise BadRecording("a data URL in ref_audio must be base64")
    if len(given) * 3 // 4 > MOST_BYTES:
        raise BadRecording(f"the recording is over {MOST_BYTES >> 20} MB")
    try:
        return b"".join([part async for part in decoded(given)])
    except ValueError as error:
        raise BadRecording("ref_audio is not base64") from error


async def decoded(given: str) -> AsyncIterator[bytes]:
    """The bytes of base64; other requests go on between its slices. Raises ValueError."""
    for start in range(0, len(given), _SLICE_CHARS):
        end = start + _SLICE_CHARS
        if end < len(given) and given[end - 1] == "=":
            raise ValueError("it ends within")
        yield binascii.a2b_base64(given[start:end], strict_mode=True)
        await asyncio.sleep(0)


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
