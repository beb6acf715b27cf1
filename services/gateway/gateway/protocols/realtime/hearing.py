"""The user's sound: taken from messages, a bounded buffer, and where turns of speech are. Pure."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gateway.audio import AudioFormat, Pcm
from gateway.audio.encoders.chosen import ALAW, MULAW
from gateway.errors import MessageTooBig
from gateway.protocols.shared.bounded_json import Json
from gateway.requests.options import decoded
from ttscommon.wire.errors import BadRequest

# Of sound that waits for its commit; the oldest goes first.
MOST_S: Final = 60.0
_SLACK_S: Final = 5.0
_FRAME_S: Final = 0.02
# So much speech begins a turn: a click is shorter.
_ONSET_S: Final = 0.08
# The level of the noise rises slowly and falls fast, in decibels a second.
_RISE_DB: Final = 3.0
_FALL_DB: Final = 60.0
# Speech is that far above noise, by a threshold of 0 to 1, and never below the floor.
_LEAST_DB, _MOST_DB = 6.0, 18.0
_FLOOR_DB: Final = -50.0
# That a session may begin with.
_LOUDEST_DB: Final = -45.0
_SILENCE_DB: Final = -90.0
_EAGERNESS_S: Final[Mapping[str, float]] = {"low": 1.2, "medium": 0.8, "auto": 0.8, "high": 0.4}
_PADDING_S: Final = 0.3


def samples_of(data: bytes, audio: AudioFormat) -> Pcm:
    """Samples of what a client sent; half a sample at the end is left out."""
    if audio.codec == "pcm_s16le":
        return np.frombuffer(data[: len(data) & ~1], "<i2").astype(np.int16)
    table = _EXPANDED[audio.codec]
    return table[np.frombuffer(data, np.uint8)]


def _expanded(compressed: Any) -> Pcm:
    """The middle of the samples that a code stands for."""
    samples = np.arange(-32768, 32768, dtype=np.float64)
    count = np.bincount(compressed, minlength=256)
    total = np.bincount(compressed, weights=samples, minlength=256)
    return np.rint(total / np.maximum(count, 1)).astype(np.int16)


_EXPANDED: Final = {"mulaw": _expanded(MULAW), "alaw": _expanded(ALAW)}


@dataclass(frozen=True)
class SpeechEdge:
    """Where a turn of speech begins or ends, in seconds of all sound that was sent."""

    begins: bool
    at_s: float


class SpeechDetector:
    """Finds turns of speech, as an `audio.input.turn_detection` wants them."""

    def __init__(self, rate_hz: int, turns: Mapping[str, Any]) -> None:
        self.speaking = False
        self._rate = rate_hz
        self._frame = int(_FRAME_S * rate_hz)
        self._above_db = _LEAST_DB + (_MOST_DB - _LEAST_DB) * float(turns.get("threshold", 0.5))
        self._padding_s = turns.get("prefix_padding_ms", 1000 * _PADDING_S) / 1000
        silence_ms = turns.get("silence_duration_ms")
        eager = _EAGERNESS_S.get(str(turns.get("eagerness")), _EAGERNESS_S["auto"])
        self._silence_s = eager if silence_ms is None else silence_ms / 1000
        self._noise_db: float | None = None
        self._rest = np.zeros(0, np.int16)
        self._at_s = 0.0
        self._loud_s = self._quiet_s = 0.0

    def feed(self, pcm: Pcm) -> Iterator[SpeechEdge]:
        """Take the sound that follows; yields what begins and ends in it."""
        pcm = np.concatenate([self._rest, pcm])
        whole = len(pcm) // self._frame * self._frame
        self._rest = pcm[whole:]
        for level_db in _levels(pcm[:whole].reshape(-1, self._frame)):
            self._at_s += _FRAME_S
            edge = self._take(float(level_db))
            if edge is not None:
                yield edge

    def reset(self) -> None:
        """What was said so far is no turn any more."""
        self.speaking = False
        self._loud_s = self._quiet_s = 0.0

    def _take(self, level_db: float) -> SpeechEdge | None:
        noise_db = min(level_db, _LOUDEST_DB) if self._noise_db is None else self._noise_db
        loud = level_db > max(_FLOOR_DB, noise_db + self._above_db)
        # Noise is what stays: between words its level is found again.
        change = min(max(level_db - noise_db, -_FALL_DB * _FRAME_S), _RISE_DB * _FRAME_S)
        self._noise_db = noise_db + change
        self._loud_s = self._loud_s + _FRAME_S if loud else 0.0
        self._quiet_s = 0.0 if loud else self._quiet_s + _FRAME_S
        if not self.speaking and self._loud_s >= _ONSET_S - 1e-9:
            self.speaking = True
            return SpeechEdge(True, max(0.0, self._at_s - self._loud_s - self._padding_s))
        if self.speaking and self._quiet_s >= self._silence_s - 1e-9:
            self.speaking = False
            return SpeechEdge(False, self._at_s)
        return None


def _levels(frames: Any) -> Any:
    """Loudness of frames [frames, samples], in decibels of full scale."""
    power = np.square(frames.astype(np.float32) / 32768).mean(axis=1)
    return 10 * np.log10(np.maximum(power, 10 ** (_SILENCE_DB / 10)))


class HeardSound:
    """The input buffer: sound since the last commit, and the clock of all that was sent.

    kept: whether the sound itself is wanted; else only its length is. from_s: where it begins.
    """

    def __init__(self, rate_hz: int, *, kept: bool) -> None:
        self.total_s = self.from_s = 0.0
        self._rate, self._kept = rate_hz, kept
        self._parts: list[Pcm] = []

    @property
    def seconds(self) -> float:
        return self.total_s - self.from_s

    def add(self, pcm: Pcm) -> None:
        """What follows; the oldest goes where there is too much."""
        self.total_s += len(pcm) / self._rate
        if self._kept:
            self._parts.append(pcm)
        if self.seconds > MOST_S + _SLACK_S:
            self.begin_at(self.total_s - MOST_S)

    def begin_at(self, at_s: float) -> None:
        """Forget what was before."""
        at_s = min(max(at_s, self.from_s), self.total_s)
        if self._kept:
            pcm = np.concatenate(self._parts) if self._parts else np.zeros(0, np.int16)
            left = math.ceil((self.total_s - at_s) * self._rate)
            self._parts = [pcm[len(pcm) - min(left, len(pcm)) :]]
        self.from_s = at_s

    def take(self, until_s: float | None = None) -> Pcm:
        """What waits, which is forgotten: all of it, or what was before `until_s`."""
        pcm = np.concatenate(self._parts) if self._parts else np.zeros(0, np.int16)
        end_s = self.total_s if until_s is None else min(max(until_s, self.from_s), self.total_s)
        cut = max(0, len(pcm) - round((self.total_s - end_s) * self._rate))
        self._parts, self.from_s = [pcm[cut:]], end_s
        return pcm[:cut]


MOST_BYTES: Final = 15 << 20
"""Of sound in one message."""
# With what is above it, so that a message somewhat too big gets a typed answer.
MOST_MESSAGE_BYTES: Final = MOST_BYTES * 4 // 3 + (4 << 20)


async def sound_of(audio: Any, form: AudioFormat) -> AsyncIterator[Pcm]:
    """Samples of base64; other sessions go on between slices. Raises BadRequest, MessageTooBig."""
    if not isinstance(audio, str):
        raise BadRequest("'audio': base64 is expected", param="audio")
    if len(audio) * 3 // 4 > MOST_BYTES + 2:
        raise MessageTooBig(f"a message brings at most {MOST_BYTES >> 20} MiB of audio")
    try:
        async for data in decoded(audio):
            yield samples_of(data, form)
    except ValueError as error:
        raise BadRequest("'audio': base64 is expected", param="audio") from error


async def joined(every: Sequence[str], form: AudioFormat) -> Pcm:
    """Samples of several, one behind the other; raises as `sound_of`."""
    found = [pcm for audio in every async for pcm in sound_of(audio, form)]
    return np.concatenate(found) if found else np.zeros(0, np.int16)


def restored(message: dict[str, Any], given: Json) -> dict[str, Any]:
    """A message with its recordings in place: its own, those of its item and of its response."""
    if isinstance(audio := message.get("audio"), str):
        message["audio"] = given.restore(audio)
    for part in _parts(message):
        if isinstance(audio := part.get("audio"), str):
            part["audio"] = given.restore(audio)
    return message


def _parts(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    response = message.get("response")
    asked = response.get("input") if isinstance(response, dict) else None
    for item in (message.get("item"), *(asked if isinstance(asked, list) else ())):
        content = item.get("content") if isinstance(item, dict) else None
        parts = content if isinstance(content, list) else ()
        yield from (part for part in parts if isinstance(part, dict))
