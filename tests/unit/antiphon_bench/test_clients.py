"""MP3 frames are counted as they come."""

import asyncio
import io
import struct
import wave
from typing import Any

import lameenc
import numpy as np
import pytest

from antiphon_bench.arrivals import ScheduledRequest
from antiphon_bench.clients import Failure, Observation, open_client
from antiphon_bench.clients.base import AudibleDetector
from antiphon_bench.clients.http import (
    BadMp3,
    BadWav,
    Layout,
    Mp3Stream,
    WavStream,
    pcm_rate,
    server_timing,
)
from antiphon_bench.config import Protocol, Target
from gateway.audio import Provenance
from gateway.audio.provenance import id3
from tests.unit.antiphon_bench.loopback import Loopback, Refusal, Step, stream_header

RATE = 16_000
JOB = ScheduledRequest(index=0, at_s=0.0, text="Turn left after the bridge.", voice="slt")
BOTH = pytest.mark.parametrize("protocol", ["http", "ws"])

# 100 ms at 0.10 s; 200 ms in time; then 100 ms that are due at 0.40 s but leave at 0.60 s.
STEPS = [Step(0.10, 1600), Step(0.15, 3200), Step(0.60, 1600)]


async def speak(server: Loopback, target: Target) -> Observation:
    async with server.serve() as url:
        target = target.model_copy(update={"url": url})
        async with open_client(target) as client:
            seen = Observation(keep_audio=True)
            await client.speak(JOB, seen)
            return seen


async def failure(server: Loopback, target: Target) -> Failure:
    with pytest.raises(Failure) as caught:
        await speak(server, target)
    return caught.value


@BOTH
async def test_a_stream_is_booked_as_it_was_sent(protocol: Protocol) -> None:
    server = Loopback(plan=lambda _text: STEPS, silence_s=0.05)
    seen = await speak(server, Target(protocol=protocol))
    account = seen.account
    assert account is not None
    assert account.first_at_s is not None
    assert seen.ttfa_s is not None
    assert seen.ended_s is not None
    assert seen.trace_samples == [1600, 3200, 1600]
    assert server.texts == [JOB.text]
    assert 0.10 <= account.first_at_s < 0.25
    # Between the first and the late chunk lie 500 ms of which 300 ms are audio.
    assert account.min_slack_s == pytest.approx(-0.2, abs=0.06)
    assert account.underruns == 1
    assert account.underrun_s == pytest.approx(0.2, abs=0.06)
    assert account.viable_chunks == 2
    assert not account.viable
    assert seen.ttfa_s == pytest.approx(account.first_at_s + 0.05, abs=1e-4)
    assert seen.ended_s >= 0.6
    assert seen.request_id == "loopback"
    assert seen.server["queue_s"] == pytest.approx(0.0015)
    assert seen.server["talker_s"] == pytest.approx(0.02)
    assert seen.pcm is not None
    assert len(seen.pcm) == 2 * 6400


async def test_headerless_pcm_takes_its_rate_from_the_response() -> None:
    server = Loopback(plan=lambda _text: [Step(0.0, 800)], sample_rate=8000)
    seen = await speak(server, Target(response_format="pcm"))
    assert seen.account is not None
    assert seen.account.duration_s == pytest.approx(0.1)


async def test_text_can_be_typed_word_by_word() -> None:
    server = Loopback(plan=lambda _text: [Step(0.0, 800)])
    seen = await speak(server, Target(protocol="ws", words_per_s=100.0))
    assert server.texts == [JOB.text]
    assert seen.account is not None
    assert seen.account.first_at_s is not None
    assert seen.account.first_at_s >= 0.04  # five words


@pytest.mark.parametrize(
    ("server", "refused", "http", "ws"),
    [
        (
            {"refuse": lambda _text: Refusal(429, "overloaded", close=1013)},
            *(True, "http_429_overloaded", "ws_overloaded"),
        ),
        (
            {"refuse": lambda _text: Refusal(400, "unknown_voice")},
            *(False, "http_400_unknown_voice", "ws_unknown_voice"),
        ),
        # Cut short: no short audio.
        ({"plan": lambda _text: STEPS, "cut": True}, False, "truncated", "ws_close_1011"),
        ({"plan": lambda _text: []}, False, "no_audio", "no_audio"),
    ],
)
async def test_a_failure_says_of_what_kind_it_is_and_a_refusal_is_no_error(
    server: dict[str, Any], refused: bool, http: str, ws: str
) -> None:
    kinds: dict[Protocol, str] = {"http": http, "ws": ws}
    for protocol, kind in kinds.items():
        failed = await failure(Loopback(**server), Target(protocol=protocol))
        assert (failed.kind, failed.refused) == (kind, refused)


@BOTH
@pytest.mark.parametrize(
    ("at_s", "kind"), [(0.0, "timeout_stalled"), (9.0, "timeout_no_first_audio")]
)
async def test_waiting_has_an_end(protocol: Protocol, at_s: float, kind: str) -> None:
    server = Loopback(plan=lambda _text: [Step(at_s, 160), Step(10.0, 160)])
    failed = await failure(server, Target(protocol=protocol, timeout_s=0.3))
    assert failed.kind == kind


@BOTH
async def test_nobody_there_is_a_connect_failure(protocol: Protocol) -> None:
    target = Target(url="http://127.0.0.1:9", protocol=protocol)
    async with open_client(target) as client:
        with pytest.raises(Failure) as caught:
            await client.speak(JOB, Observation())
    assert caught.value.kind == "connect"


@BOTH
async def test_a_server_that_hangs_up_unasked_is_a_failure(protocol: Protocol) -> None:
    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        async with open_client(Target(url=f"http://{host}:{port}", protocol=protocol)) as client:
            with pytest.raises(Failure) as caught:
                await client.speak(JOB, Observation())
    assert caught.value.kind == "disconnected"


async def test_a_sample_split_between_two_reads_is_put_together() -> None:
    seen = Observation(keep_audio=True)
    seen.format(RATE)
    for piece in (b"\x01", b"\x02\x03", b"\x04\x05\x06"):
        seen.audio(piece)
    seen.finish()
    assert seen.pcm == bytearray(b"\x01\x02\x03\x04\x05\x06")
    assert seen.trace_samples == [1, 2]


async def test_audio_that_ends_inside_a_sample_is_truncated() -> None:
    seen = Observation()
    seen.format(RATE)
    seen.audio(b"\x01\x02\x03")
    with pytest.raises(Failure, match="inside a sample"):
        seen.finish()


@pytest.mark.parametrize(
    ("headers", "rate"),
    [
        ({"x-sample-rate": "16000"}, 16_000),
        ({"content-type": "audio/L16; rate=22050; channels=1"}, 22_050),
        ({"content-type": "audio/pcm"}, None),
    ],
)
def test_the_rate_of_pcm_is_read_from_headers(headers: dict[str, str], rate: int | None) -> None:
    assert pcm_rate(headers) == rate


def test_server_timing_is_read_in_seconds() -> None:
    header = 'cache, queue;dur=1.5, talker;desc="first frame";dur="20.25"'
    assert server_timing({"server-timing": header}) == {"queue_s": 0.0015, "talker_s": 0.02025}


async def test_fields_of_the_target_are_merged_into_the_request() -> None:
    target = Target(seed=7, body={"stream": None, "speed": 1.0})
    merged = open_client(target).merged({"input": "A", "stream": True})
    assert merged == {"input": "A", "seed": 7, "speed": 1.0}


def test_the_first_sample_above_the_threshold_is_found_once() -> None:
    detector = AudibleDetector(threshold_dbfs=-50.0)  # 32768 * 10 ** -2.5 = 103.6
    assert detector.feed(np.array([0, 103, -103], dtype=np.int16)) is None
    assert detector.feed(np.array([50, -104, 3000], dtype=np.int16)) == 1
    assert detector.found
    assert detector.feed(np.array([3000], dtype=np.int16)) is None
    assert AudibleDetector().feed(np.array([0, -32768], dtype=np.int16)) == 1


def encoded(rate: int, kbit_s: int, seconds: int) -> bytes:
    encoder = lameenc.Encoder()
    encoder.set_bit_rate(kbit_s)
    encoder.set_in_sample_rate(rate)
    encoder.set_out_sample_rate(rate)
    encoder.set_channels(1)
    encoder.silence()
    noise = np.random.default_rng(0).integers(-9000, 9000, rate * seconds).astype("<i2")
    return bytes(encoder.encode(noise.tobytes()) + encoder.flush())


@pytest.mark.parametrize(
    ("rate", "kbit_s"), [(24_000, 64), (44_100, 128), (22_050, 32), (8000, 16)]
)
def test_samples_are_counted_however_the_stream_is_cut(rate: int, kbit_s: int) -> None:
    data, stream = encoded(rate, kbit_s, 2), Mp3Stream()
    samples = sum(stream.feed(data[at : at + 97]) for at in range(0, len(data), 97))
    assert stream.sample_rate == rate
    assert samples == pytest.approx(2 * rate, abs=4 * 1152)
    assert samples >= 2 * rate


@pytest.mark.parametrize("step", [1, 7, 5000])
def test_a_tag_in_front_counts_for_nothing(step: int) -> None:
    sound = encoded(24_000, 64, 1)
    plain, tagged = Mp3Stream(), Mp3Stream()
    data = id3(Provenance("vesper")) + sound
    samples = sum(tagged.feed(data[at : at + step]) for at in range(0, len(data), step))
    assert samples == plain.feed(sound)


@pytest.mark.parametrize("data", [b"RIFF....", b"\xff\xfb\x00\x00", b"\xff\xff\xff\xff"])
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(BadMp3):
        Mp3Stream().feed(data)


PCM = bytes(range(200))


def file_of(pcm: bytes, rate: int = 22_050, channels: int = 2) -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(pcm)
    return buffer.getvalue()


@pytest.mark.parametrize("size", [1, 3, 7, 44, 1000])
def test_the_header_may_arrive_in_any_pieces(size: int) -> None:
    data, stream = file_of(PCM), WavStream()
    pieces = [data[i : i + size] for i in range(0, len(data), size)]
    assert b"".join(stream.feed(piece) for piece in pieces) == PCM
    assert stream.layout == Layout(sample_rate=22_050, channels=2)


def test_other_chunks_are_skipped() -> None:
    data = file_of(PCM)
    extra = struct.pack("<4sI", b"LIST", 5) + b"hello\0"
    stream = WavStream()
    assert stream.feed(data[:12] + extra + data[12:]) == PCM


@pytest.mark.parametrize(
    "data",
    [
        b"ID3\x04mp3 instead of wav",
        b"R",
        stream_header(16_000)[:34] + struct.pack("<H", 8) + stream_header(16_000)[36:],
        b"RIFF\0\0\0\0WAVE" + struct.pack("<4sI", b"data", 4) + b"abcd",
    ],
)
def test_what_is_not_16_bit_pcm_is_refused(data: bytes) -> None:
    stream = WavStream()
    if data == b"R":
        assert stream.feed(data) == b""  # still too little to tell
        data = b"IFX"
    with pytest.raises(BadWav):
        stream.feed(data)
