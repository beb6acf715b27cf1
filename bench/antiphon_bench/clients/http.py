"""Any OpenAI-compatible `POST /v1/audio/speech` that streams its response body, and WAV."""

from __future__ import annotations

import json
import re
import struct
import wave
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from antiphon_bench.arrivals import ScheduledRequest
from antiphon_bench.clients.base import (
    Failure,
    Observation,
    SpeechClient,
    failure_of_status,
    seconds,
)

_PCM = 1
_EXTENSIBLE = 0xFFFE


class BadWav(ValueError):
    """The stream is not 16-bit PCM in a RIFF/WAVE file."""


@dataclass(frozen=True)
class Layout:
    """What the header says."""

    sample_rate: int
    channels: int


class WavStream:
    """Strips the header off a WAV stream; sizes in it are ignored, streams cannot know them."""

    def __init__(self) -> None:
        self.layout: Layout | None = None
        self._head = b""
        self._in_data = False

    def feed(self, data: bytes) -> bytes:
        """Returns the PCM bytes that `data` completes; raises BadWav."""
        if self._in_data:
            return data
        self._head += data
        if self._head[:4] != b"RIFF"[: len(self._head)]:
            raise BadWav("the response does not start as a RIFF file")
        return self._scan()

    def _scan(self) -> bytes:
        head, at = self._head, 12
        while len(head) >= at + 8:
            name, size = struct.unpack_from("<4sI", head, at)
            body = at + 8
            if name == b"data":
                if self.layout is None:
                    raise BadWav("data before its format")
                self._in_data, self._head = True, b""
                return head[body:]
            if len(head) < body + size:
                break
            if name == b"fmt ":
                self.layout = _layout(head[body : body + size])
            at = body + size + size % 2
        return b""


def _layout(fields: bytes) -> Layout:
    if len(fields) < 16:
        raise BadWav("the format chunk is too short")
    kind, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", fields)
    if kind not in (_PCM, _EXTENSIBLE) or bits != 16 or not channels or not rate:
        raise BadWav(f"only 16-bit PCM is understood, not format {kind} with {bits} bits")
    return Layout(sample_rate=rate, channels=channels)


def write_wav(path: Path, pcm: bytes, sample_rate: int) -> None:
    """Writes mono int16 `pcm`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes(pcm)


_HEAD: Final = 4
_TAG: Final = 10
# By the header's bits for version and bit rate: kbit/s of layer III.
_KBIT_S: Final = {
    "1": (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    "2": (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES_HZ: Final = {
    3: (44_100, 48_000, 32_000),
    2: (22_050, 24_000, 16_000),
    0: (11_025, 12_000, 8000),
}
_MP3_AHEAD_S = 0.096
_RATE_HEADERS = ("x-sample-rate", "x-audio-sample-rate", "sample-rate")


class HttpClient(SpeechClient):
    """One POST a request; every read that brings samples counts as a chunk."""

    async def _speak(self, job: ScheduledRequest, seen: Observation) -> None:
        body = {
            "model": self.target.model,
            "input": job.text,
            "voice": job.voice,
            "response_format": self.target.response_format,
            "stream": True,
        }
        url = self.target.url.rstrip("/") + "/v1/audio/speech"
        async with self.session.post(
            url, json=self.merged(body), trace_request_ctx=seen
        ) as response:
            seen.started()
            seen.request_id = response.headers.get("x-request-id")
            if response.status != 200:
                raise await _failure(response)
            accept = self._acceptor(response.headers, seen)
            async for data in response.content.iter_any():
                accept(data)
            seen.ended()
            for name, duration_s in server_timing(response.headers).items():
                seen.server[name] = duration_s

    def _acceptor(self, headers: Mapping[str, str], seen: Observation) -> Callable[[bytes], None]:
        if self.target.response_format == "pcm":
            seen.format(pcm_rate(headers) or self.target.sample_rate)
            return seen.audio
        return _of_mp3(seen) if self.target.response_format == "mp3" else _of_wav(seen)


def _of_mp3(seen: Observation) -> Callable[[bytes], None]:
    """A player that has a few frames before it plays: encoders hold up to three back."""
    mp3 = Mp3Stream()
    ahead = 0

    def accept(data: bytes) -> None:
        nonlocal ahead
        try:
            samples = mp3.feed(data)
        except BadMp3 as error:
            raise Failure("protocol", str(error)) from error
        if mp3.sample_rate is None:
            return
        ahead += samples
        if ahead >= _MP3_AHEAD_S * mp3.sample_rate:
            fresh = seen.account is None
            seen.format(mp3.sample_rate)
            seen.arrived(ahead if fresh else samples)

    return accept


def _of_wav(seen: Observation) -> Callable[[bytes], None]:
    wav = WavStream()

    def accept(data: bytes) -> None:
        try:
            pcm = wav.feed(data)
        except BadWav as error:
            raise Failure("protocol", str(error)) from error
        if wav.layout is not None:
            seen.format(wav.layout.sample_rate, wav.layout.channels)
            if pcm:
                seen.audio(pcm)

    return accept


def pcm_rate(headers: Mapping[str, str]) -> int | None:
    """Sample rate (hz) of headerless PCM, if the response names one."""
    for name in _RATE_HEADERS:
        if headers.get(name, "").isdigit():
            return int(headers[name])
    found = re.search(r"rate=(\d+)", headers.get("content-type", ""))
    return int(found[1]) if found else None


def server_timing(headers: Mapping[str, str]) -> dict[str, float]:
    """Durations (s) of a W3C Server-Timing header: `queue;dur=1.5, talker;dur=20`."""
    found = re.finditer(r"([\w.-]+)[^,]*?;\s*dur=\"?([\d.]+)\"?", headers.get("server-timing", ""))
    return {f"{match[1]}_s": float(match[2]) / 1000.0 for match in found}


async def _failure(response: aiohttp.ClientResponse) -> Failure:
    raw = (await response.content.read(65_536)).decode("utf-8", "replace")
    code, message = None, raw[:300]
    try:
        error: Any = json.loads(raw)["error"]
        message = str(error["message"])
        code = str(error["code"]) if error.get("code") is not None else None
    except (ValueError, KeyError, TypeError, AttributeError):
        pass  # not OpenAI's schema: the raw text says more than nothing
    wait_s = seconds(response.headers.get("retry-after"))
    return failure_of_status(response.status, message, code, wait_s)


class BadMp3(ValueError):
    """The stream is not a row of MPEG layer III frames."""


class Mp3Stream:
    """Counts the samples of whole frames, behind a tag or not. `sample_rate` (Hz) is known after
    the first."""

    def __init__(self) -> None:
        self.sample_rate: int | None = None
        self._held = b""
        self._begun = False

    def feed(self, data: bytes) -> int:
        """Samples of the frames that `data` completes; raises BadMp3."""
        self._held += data
        if not self._begun:
            self._skip_tag()
        return self._count() if self._begun else 0

    def _skip_tag(self) -> None:
        """Drop an ID3v2 tag from the front once it is whole (ID3v2.4.0 structure, 3.1)."""
        head = self._held[:_TAG]
        tagged = head[:3] == b"ID3"[: len(head)]
        if tagged and len(head) < _TAG:
            return
        end = _TAG + sum(byte << 7 * n for n, byte in enumerate(head[:5:-1])) if tagged else 0
        if len(self._held) >= end:
            self._held, self._begun = self._held[end:], True

    def _count(self) -> int:
        data = self._held
        at = samples = 0
        while len(data) >= at + _HEAD:
            length, count = self._frame(data[at : at + _HEAD])
            if len(data) < at + length:
                break
            at += length
            samples += count
        self._held = data[at:]
        return samples

    def _frame(self, head: bytes) -> tuple[int, int]:
        """Bytes and samples of the frame that begins with `head` (ISO/IEC 11172-3, 2.4.2.3)."""
        version, layer = head[1] >> 3 & 3, head[1] >> 1 & 3
        rate, speed = head[2] >> 4, head[2] >> 2 & 3
        synchronised = head[0] == 0xFF and head[1] >> 5 == 7
        if not synchronised or version == 1 or layer != 1 or rate in (0, 15) or speed == 3:
            raise BadMp3(f"no frame of layer III begins with {head.hex()}")
        kbit_s = _KBIT_S["1" if version == 3 else "2"][rate - 1]
        self.sample_rate = _RATES_HZ[version][speed]
        count = 1152 if version == 3 else 576
        return count // 8 * kbit_s * 1000 // self.sample_rate + (head[2] >> 1 & 1), count
