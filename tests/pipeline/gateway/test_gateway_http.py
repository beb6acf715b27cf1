"""The HTTP routes, over a real broker."""

from __future__ import annotations

import asyncio
import io
import wave
from typing import Any

import httpx
import numpy as np
import pytest

TEXT = "The tide is coming in."


async def test_a_wav_is_whole_and_exact(stand: Any, talk: Any) -> None:
    body = {"input": TEXT, "voice": "slt", "seed": 3}
    response = await stand.http.post("/v1/audio/speech", json=body)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "audio/wav"
    with wave.open(io.BytesIO(response.content)) as audio:
        assert audio.getparams()[:4] == (1, 2, 16_000, len(talk.sound(TEXT)))
        pcm = np.frombuffer(audio.readframes(audio.getnframes()), "<i2")
    assert np.array_equal(pcm, talk.sound(TEXT, seed=3))
    assert response.headers["x-request-id"] == stand.stage.jobs[0].request_id
    assert {"bus", "talker", "vocoder"} <= {
        part.split(";")[0] for part in response.headers["server-timing"].split(", ")
    }


async def test_pcm_comes_as_it_is_made(stand: Any, talk: Any) -> None:
    heard = asyncio.Event()

    async def script(performance: Any) -> None:
        await performance.say("first")
        await heard.wait()
        await performance.say("second")
        await performance.end()

    stand.stage.script = script
    body = {"input": TEXT, "response_format": "pcm", "seed": 0}
    async with stand.http.stream("POST", "/v1/audio/speech", json=body) as response:
        parts = response.aiter_bytes()
        first = await anext(parts)
        assert np.array_equal(np.frombuffer(first, "<i2"), talk.sound("first"))
        heard.set()
        rest = b"".join([part async for part in parts])
    assert np.array_equal(np.frombuffer(rest, "<i2"), talk.sound("second"))
    assert stand.stage.performances[0].playback[0] == pytest.approx(0.0, abs=1e-3)


async def test_a_streamed_wav_leaves_its_length_open(stand: Any, talk: Any) -> None:
    body = {"input": TEXT, "stream": True, "seed": 0}
    response = await stand.http.post("/v1/audio/speech", json=body)
    assert response.content[4:8] == response.content[40:44] == b"\xff\xff\xff\xff"
    assert np.array_equal(np.frombuffer(response.content[44:], "<i2"), talk.sound(TEXT))


async def test_another_sample_rate_keeps_the_duration(stand: Any) -> None:
    pytest.importorskip("soxr")
    body = {"input": TEXT * 5, "sample_rate": 24_000}
    response = await stand.http.post("/v1/audio/speech", json=body)
    with wave.open(io.BytesIO(response.content)) as audio:
        assert audio.getframerate() == 24_000
        assert abs(audio.getnframes() / 24_000 - len(TEXT) * 5 * 160 / 16_000) < 0.001


@pytest.mark.parametrize(
    ("change", "status", "code", "param"),
    [
        ({"input": ""}, 400, "nothing_to_say", "input"),
        ({"input": "\x00\x07 \n"}, 400, "nothing_to_say", "input"),
        ({"input": "😀🎉"}, 400, "nothing_to_say", "input"),
        ({"input": "a" * 100_000}, 400, "text_too_long", "input"),
        ({"input": None}, 400, "bad_request", "input"),
        ({"voice": "hal"}, 400, "unknown_voice", "voice"),
        ({"model": "nobody"}, 404, "unknown_model", "model"),
        ({"response_format": "mp3"}, 400, "unsupported", "response_format"),
        ({"speed": 1.5}, 400, "unsupported", "speed"),
        ({"instructions": "whisper"}, 400, "unsupported", "instructions"),
        ({"stream_format": "sse"}, 400, "unsupported", "stream_format"),
        ({"sample_rate": 1}, 400, "bad_request", "sample_rate"),
        ({"flavour": "mint"}, 400, "bad_request", "flavour"),
    ],
)
async def test_bad_input_gets_a_typed_error(
    stand: Any, change: dict[str, Any], status: int, code: str, param: str
) -> None:
    body = {"input": TEXT, "voice": "slt", **change}
    response = await stand.http.post("/v1/audio/speech", json=body)
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["param"]) == (status, code, param)
    assert error["message"]
    assert response.headers["x-request-id"]
    assert (await stand.http.post("/v1/audio/speech", json={"input": TEXT})).status_code == 200


@pytest.mark.parametrize("data", [b"{", b"[1]", b"\xff\xfe", b'"text"', b""])
async def test_malformed_json_is_refused(stand: Any, data: bytes) -> None:
    response = await stand.http.post("/v1/audio/speech", content=data)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "invalid_json"


async def test_a_huge_body_is_refused(stand: Any) -> None:
    response = await stand.http.post("/v1/audio/speech", content=b" " * (2 << 20))
    assert response.status_code == 413
    assert response.json()["error"]["code"] == "message_too_big"


async def test_an_unknown_path_has_the_same_error_shape(stand: Any) -> None:
    response = await stand.http.get("/v1/nothing")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "not_found"
    response = await stand.http.get("/v1/audio/speech")
    assert response.status_code == 405
    assert response.json()["error"]["type"] == "invalid_request_error"


async def test_models_and_voices_come_from_live_replicas(stand: Any) -> None:
    models = (await stand.http.get("/v1/models")).json()
    assert [model["id"] for model in models["data"]] == ["cantor"]
    voices = (await stand.http.get("/v1/audio/voices")).json()
    assert voices == {
        "voices": [
            {"id": "slt", "name": "Slt", "language": "en-US"},
            {"id": "awb", "name": "Awb", "language": "en-GB"},
        ]
    }


async def test_an_error_of_a_stage_before_audio_is_a_plain_error(stand: Any) -> None:
    async def script(performance: Any) -> None:
        await performance.end("error", "nothing_to_say", "there is nothing to say")

    stand.stage.script = script
    response = await stand.http.post("/v1/audio/speech", json={"input": TEXT, "stream": True})
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "nothing_to_say"


async def test_an_error_of_a_stage_in_mid_stream_cuts_the_body(stand: Any) -> None:
    async def script(performance: Any) -> None:
        await performance.say("first")
        await performance.end("error", "internal", "out of notes")

    stand.stage.script = script
    body = {"input": TEXT, "response_format": "pcm"}
    with pytest.raises(httpx.RemoteProtocolError):
        await stand.http.post("/v1/audio/speech", json=body)
    assert stand.metric("tts_streams_total", outcome="error", viable="true") == 1


async def test_a_disconnect_cancels_at_once(stand: Any) -> None:
    async def script(performance: Any) -> None:
        await performance.say("first")
        await asyncio.Event().wait()

    stand.stage.script = script
    body = {"input": TEXT, "response_format": "pcm"}
    async with stand.http.stream("POST", "/v1/audio/speech", json=body) as response:
        request_id = response.headers["x-request-id"]
        await anext(response.aiter_bytes())
    async with asyncio.timeout(3):
        await stand.stage.cancelled_event(request_id).wait()
    assert stand.metric("tts_active_streams", stage="gateway") == 0


async def test_a_disconnect_before_any_audio_cancels_too(stand: Any) -> None:
    begun = asyncio.Event()

    async def script(performance: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    stand.stage.script = script
    posting = asyncio.create_task(stand.http.post("/v1/audio/speech", json={"input": TEXT}))
    await begun.wait()
    posting.cancel()
    request_id = stand.stage.jobs[0].request_id
    async with asyncio.timeout(3):
        await stand.stage.cancelled_event(request_id).wait()


@pytest.mark.parametrize("settings", [{"first_audio_timeout_s": 0.2}], indirect=True)
async def test_no_audio_in_time_is_a_timeout_and_a_cancel(stand: Any) -> None:
    async def script(performance: Any) -> None:
        await asyncio.Event().wait()

    stand.stage.script = script
    response = await stand.http.post("/v1/audio/speech", json={"input": TEXT})
    assert response.status_code == 504
    assert response.json()["error"]["code"] == "timeout"
    async with asyncio.timeout(3):
        await stand.stage.cancelled_event(response.headers["x-request-id"]).wait()


@pytest.mark.parametrize("settings", [{"max_streams": 1}], indirect=True)
async def test_a_full_gateway_refuses_with_a_hint(stand: Any) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def script(performance: Any) -> None:
        begun.set()
        await go.wait()
        await performance.say("first")
        await performance.end()

    stand.stage.script = script
    posting = asyncio.create_task(stand.http.post("/v1/audio/speech", json={"input": TEXT}))
    await begun.wait()
    refused = await stand.http.post("/v1/audio/speech", json={"input": TEXT})
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.json()["error"]["type"] == "rate_limit_error"
    go.set()
    assert (await posting).status_code == 200
    assert stand.metric("tts_refused_total", reason="overloaded") == 1


async def test_without_a_vocoder_the_model_is_unavailable(stand: Any) -> None:
    context = stand.gateway.context
    await stand.stage.bus.kv.delete("replicas", stand.stage.report("vocoder").worker_id)
    await context.catalogue.refresh()
    response = await stand.http.post("/v1/audio/speech", json={"input": TEXT})
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "unavailable"


async def test_metrics_count_what_listeners_heard(stand: Any) -> None:
    await stand.http.post("/v1/audio/speech", json={"input": TEXT})
    assert stand.metric("tts_ttfp_seconds_count", stage="gateway") == 1
    assert stand.metric("tts_stream_chunks_total", viable="true") == 1
    assert stand.metric("tts_streams_total", outcome="ok", viable="true") == 1
    assert stand.metric("tts_rtf_ratio_count") == 1


async def test_many_at_once_each_hear_their_own(stand: Any, talk: Any) -> None:
    async def one(index: int) -> None:
        body = {"input": f"number {index}", "response_format": "pcm", "seed": index}
        response = await stand.http.post("/v1/audio/speech", json=body)
        expected = talk.sound(f"number {index}", seed=index)
        assert np.array_equal(np.frombuffer(response.content, "<i2"), expected)

    await asyncio.gather(*(one(index) for index in range(32)))


@pytest.mark.parametrize("settings", [{"slow_client_timeout_s": 0.5}], indirect=True)
async def test_a_client_that_does_not_read_is_cut_off(stand: Any) -> None:
    begun = asyncio.Event()

    async def flood(performance: Any) -> None:
        begun.set()
        for _ in range(2000):
            await performance.say("a" * 90)
        await performance.end()

    stand.stage.script = flood
    body = b'{"input": "a flood", "response_format": "pcm"}'
    head = f"POST /v1/audio/speech HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", int(stand.url.rpartition(":")[2]))
    reader._transport.pause_reading()  # type: ignore[attr-defined]
    writer.write(head.encode() + body)
    await begun.wait()
    async with asyncio.timeout(5):
        await stand.stage.cancelled_event(stand.stage.jobs[0].request_id).wait()
    await stand.gateway.context.services.admission.idle.wait()
    assert stand.metric("tts_streams_total", outcome="cancelled", viable="true") == 1
    writer.transport.abort()
