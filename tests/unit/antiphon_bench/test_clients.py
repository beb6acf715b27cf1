import asyncio

import pytest

from antiphon_bench.arrivals import ScheduledRequest
from antiphon_bench.clients import Failure, Observation, open_client
from antiphon_bench.clients.http import pcm_rate, server_timing
from antiphon_bench.config import Protocol, Target
from tests.unit.antiphon_bench.loopback import Loopback, Refusal, Step

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


@BOTH
async def test_a_refusal_is_not_an_error(protocol: Protocol) -> None:
    server = Loopback(refuse=lambda _text: Refusal(429, "overloaded", close=1013))
    failed = await failure(server, Target(protocol=protocol))
    assert failed.refused
    assert failed.kind == {"http": "http_429_overloaded", "ws": "ws_overloaded"}[protocol]


@BOTH
async def test_an_error_carries_the_servers_code(protocol: Protocol) -> None:
    server = Loopback(refuse=lambda _text: Refusal(400, "unknown_voice"))
    failed = await failure(server, Target(protocol=protocol))
    assert not failed.refused
    assert failed.kind == {"http": "http_400_unknown_voice", "ws": "ws_unknown_voice"}[protocol]


@BOTH
async def test_a_stream_cut_short_is_a_failure_not_short_audio(protocol: Protocol) -> None:
    server = Loopback(plan=lambda _text: STEPS, cut=True)
    failed = await failure(server, Target(protocol=protocol))
    assert failed.kind == {"http": "truncated", "ws": "ws_close_1011"}[protocol]


@BOTH
async def test_a_response_without_audio_is_a_failure(protocol: Protocol) -> None:
    failed = await failure(Loopback(plan=lambda _text: []), Target(protocol=protocol))
    assert failed.kind == "no_audio"


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
