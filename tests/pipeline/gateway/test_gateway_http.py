"""The HTTP routes, over a real broker."""

import asyncio
import io
import json
import wave
from typing import Any, Final

import httpx
import numpy as np
import pytest
import soundfile

from gateway.audio import Provenance
from gateway.audio.provenance import claims
from tests.unit.ttscommon.sound.test_recordings import wav

JSON = {"content-type": "application/json"}
TEXT = "The tide is coming in."


async def test_a_wav_is_whole_and_exact(stand: Any, talk: Any) -> None:
    body = {"input": TEXT, "voice": "slt", "seed": 3, "sample_rate": 16_000}
    body |= {"response_format": "wav", "stream": False}
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
    body = {"input": TEXT, "response_format": "pcm", "seed": 0, "sample_rate": 16_000}
    async with stand.http.stream("POST", "/v1/audio/speech", json=body) as response:
        parts = response.aiter_bytes()
        first = await anext(parts)
        assert np.array_equal(np.frombuffer(first, "<i2"), talk.sound("first"))
        heard.set()
        rest = b"".join([part async for part in parts])
    assert np.array_equal(np.frombuffer(rest, "<i2"), talk.sound("second"))
    assert stand.stage.performances[0].playback[0] == pytest.approx(0.0, abs=1e-3)


BAD_INPUT: Final[tuple[tuple[str, Any, int, str], ...]] = (
    ("input", "", 400, "nothing_to_say"),
    ("input", "\x00\x07 \n", 400, "nothing_to_say"),
    ("input", "a" * 100_000, 400, "text_too_long"),
    ("input", None, 400, "bad_request"),
    ("voice", "hal", 400, "unknown_voice"),
    ("model", "nobody", 404, "unknown_model"),
    ("response_format", "midi", 400, "unsupported"),
    ("speed", 5, 400, "bad_request"),
    ("stream_format", "rss", 400, "bad_request"),
    ("sample_rate", 1, 400, "bad_request"),
)


async def test_bad_input_gets_a_typed_error(stand: Any, subtests: pytest.Subtests) -> None:
    for param, value, status, code in BAD_INPUT:
        with subtests.test(f"{param}: {code}"):
            body = {"input": TEXT, "voice": "slt", param: value}
            response = await stand.http.post("/v1/audio/speech", json=body)
            error = response.json()["error"]
            assert (response.status_code, error["code"], error["param"]) == (status, code, param)
            assert error["message"]
            assert response.headers["x-request-id"]
            spoken = await stand.http.post("/v1/audio/speech", json={"input": TEXT})
            assert spoken.status_code == 200


async def test_a_voice_of_a_recording_is_told_from_one_that_is_unknown(
    stand: Any, request: pytest.FixtureRequest
) -> None:
    body = {"input": TEXT, "voice": "anna"}
    unknown = (await stand.http.post("/v1/audio/speech", json=body)).json()["error"]
    form = {"data": {"name": "anna", "consent": "I agree."}, "files": {"audio_sample": wav()}}
    refused = await stand.http.post("/v1/audio/voices", **form)  # where no model clones
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "unsupported")
    assert await stand.gateway.context.voices.of("") == []
    request.getfixturevalue("cloning")
    assert (await stand.http.post("/v1/audio/voices", **form)).status_code == 200
    made = (await stand.http.post("/v1/audio/speech", json=body)).json()["error"]
    assert unknown["code"] == made["code"] == "unknown_voice"
    assert "there is no voice 'anna'" in unknown["message"]
    assert "made of a recording" in made["message"]
    assert "ref_audio" in made["message"]


async def test_what_is_no_json_or_too_much_of_it_is_refused(stand: Any) -> None:
    malformed = (b"{", b"[1]", b"\xff\xfe", b'"text"', b"")
    cases = [(data, 400, "invalid_json") for data in malformed]
    for data, status, code in [*cases, (b" " * (5 << 20), 413, "message_too_big")]:
        response = await stand.http.post("/v1/audio/speech", content=data, headers=JSON)
        assert (response.status_code, response.json()["error"]["code"]) == (status, code)


async def test_a_wrong_path_method_or_query_has_the_same_error_shape(stand: Any) -> None:
    for path, status in (
        ("/v1/nothing", 404),
        ("/v1/audio/speech", 405),
        ("/v1/audio/speech/abcdefgh1?from_sample=-1", 400),
        ("/v1/audio/speech/no", 404),
    ):
        response = await stand.http.get(path)
        error = response.json()["error"]
        assert (response.status_code, error["type"]) == (status, "invalid_request_error")
        assert status != 404 or error["code"] == "not_found"
        assert error["message"]
    for path, allowed in (
        ("/v1/audio/jobs", "GET, POST"),
        ("/v1/audio/jobs/one", "GET, DELETE"),
        ("/v1/audio/jobs/one/audio", "GET, HEAD"),
        ("/v1/audio/speech", "POST"),
    ):
        response = await stand.http.put(path)
        assert (response.status_code, response.headers["allow"]) == (405, allowed)


async def test_models_and_voices_come_from_live_replicas(stand: Any) -> None:
    models = (await stand.http.get("/v1/models")).json()
    assert [model["id"] for model in models["data"]] == ["vesper"]
    voices = (await stand.http.get("/v1/audio/voices")).json()
    languages = {"language": "en-GB", "languages": ["en-GB"]}
    assert voices["voices"][1] == {"id": "awb", "name": "Awb", **languages, "gender": "male"}
    assert voices["voices"][2]["gender"] is None
    assert [voice["id"] for voice in voices["voices"]] == ["slt", "awb", "vesper", "vesper-low"]
    query = "/v1/audio/voices?limit=2&after=slt&language=en"
    page = (await stand.http.get(query)).json()
    assert [voice["id"] for voice in page["voices"]] == ["awb", "vesper"]
    assert (page["has_more"], page["last_id"]) == (True, "vesper")
    found = (await stand.http.get("/v1/audio/voices?gender=female")).json()["voices"]
    assert [voice["id"] for voice in found] == ["slt"]
    assert voices["uploaded_voices"] == []


FORMATS: Final[tuple[tuple[str, str, bytes], ...]] = (
    ("mp3", "audio/mpeg", b"ID3\x04"),
    ("opus", "audio/ogg", b"OggS"),
    ("aac", "audio/aac", b"ID3\x04"),
    ("flac", "audio/flac", b"fLaC"),
    ("wav", "audio/wav", b"RIFF"),
    ("pcm", "audio/pcm;rate=24000;channels=1", b""),
)


async def test_every_format_of_openai_is_made(stand: Any, subtests: pytest.Subtests) -> None:
    for wanted, media_type, magic in FORMATS:
        with subtests.test(wanted):
            body = {"model": "tts-1", "voice": "alloy", "input": TEXT, "response_format": wanted}
            response = await stand.http.post("/v1/audio/speech", json=body)
            assert response.headers["content-type"] == media_type
            assert response.content.startswith(magic)
            named = response.headers["x-model"], response.headers["x-voice"]
            assert named == ("vesper", "slt")
            assert response.headers["x-provenance"] == Provenance("vesper").header
            tagged = [claim["AISystemUsed"] for claim in claims(response.content)]
            assert tagged == ([] if wanted == "pcm" else ["Antiphon vesper"])
            if wanted == "pcm":
                assert abs(len(response.content) / 48_000 - len(TEXT) * 0.01) < 0.001


@pytest.mark.parametrize("settings", [{"provenance": False}], indirect=True)
async def test_the_origin_is_not_told_where_that_is_turned_off(stand: Any) -> None:
    for wanted, stream in (("mp3", True), ("wav", False)):
        body = {"input": TEXT, "response_format": wanted, "stream": stream}
        response = await stand.http.post("/v1/audio/speech", json=body)
        assert list(claims(response.content)) == []
        assert "x-provenance" not in response.headers


async def test_lists_answer_in_the_shapes_that_menus_read(stand: Any) -> None:
    model = (await stand.http.get("/v1/models/tts-1")).json()
    assert (model["id"], [voice["name"] for voice in model["voices"]]) == (
        "tts-1",
        ["Slt", "Awb", "Vesper", "Vesper Low"],
    )
    assert (await stand.http.get("/v1/audio/models")).json() == {"models": [{"id": "vesper"}]}
    assert (await stand.http.get("/health")).text == "OK"
    missing = await stand.http.get("/v1/models/nobody")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "unknown_model")
    assert (await stand.http.get("/v1/audio/speech/voices")).json()["voices"]


async def test_flac_that_is_sent_whole_tells_its_length(stand: Any) -> None:
    async def script(performance: Any) -> None:
        for _ in range(10):
            await performance.say(TEXT)
        await performance.end()

    stand.stage.script = script
    body = {"input": TEXT, "response_format": "flac", "stream": False}
    response = await stand.http.post("/v1/audio/speech", json=body)
    told = int.from_bytes(response.content[21:26], "big") & (1 << 36) - 1
    assert told == soundfile.info(io.BytesIO(response.content)).frames == 10 * len(TEXT) * 240


@pytest.mark.parametrize("settings", [{"cors_origins": "https://a.example"}], indirect=True)
async def test_web_pages_of_named_origins_may_call(stand: Any) -> None:
    asked = {"origin": "https://a.example"}
    for method, path in (("DELETE", "/v1/audio/voices/mine"), ("POST", "/v1/audio/speech")):
        asked["access-control-request-method"] = method
        response = await stand.http.options(path, headers=asked)
        assert response.status_code == 200
        assert response.headers["access-control-allow-origin"] == "https://a.example"
    asked["origin"] = "https://b.example"
    response = await stand.http.options("/v1/audio/speech", headers=asked)
    assert "access-control-allow-origin" not in response.headers


async def test_a_disconnect_cancels_at_once(stand: Any, talk: Any) -> None:
    stand.stage.script = talk.hold
    body = {"input": TEXT, "response_format": "pcm"}
    async with stand.http.stream("POST", "/v1/audio/speech", json=body) as response:
        request_id = response.headers["x-request-id"]
        await anext(response.aiter_bytes())
    await stand.stage.freed(request_id)
    assert stand.metric("tts_active_streams", stage="gateway") == 0


async def test_a_disconnect_before_any_audio_cancels_too(stand: Any, talk: Any) -> None:
    gate = stand.stage.script = talk.gate()
    posting = asyncio.create_task(stand.http.post("/v1/audio/speech", json={"input": TEXT}))
    await gate.begun.wait()
    posting.cancel()
    await stand.stage.freed(stand.stage.jobs[0].request_id)


@pytest.mark.parametrize("settings", [{"first_audio_timeout_s": 0.2}], indirect=True)
async def test_no_audio_in_time_is_a_timeout_and_a_cancel(stand: Any, talk: Any) -> None:
    stand.stage.script = talk.gate()
    response = await stand.http.post("/v1/audio/speech", json={"input": TEXT})
    assert response.status_code == 504
    assert response.json()["error"]["code"] == "timeout"
    await stand.stage.freed(response.headers["x-request-id"])


@pytest.mark.parametrize("settings", [{"max_streams": 1}], indirect=True)
async def test_a_full_gateway_refuses_with_a_hint_before_it_parses_and_keeps_the_connection(
    stand: Any, talk: Any
) -> None:
    gate = stand.stage.script = talk.gate()
    posting = asyncio.create_task(stand.http.post("/v1/audio/speech", json={"input": TEXT}))
    await gate.begun.wait()
    reader, writer = await stand.opened()
    head = "host: localhost\r\ncontent-type: application/json\r\ncontent-length: 9"
    for status in ("429", "429", "400"):
        if status == "400":
            gate.go.set()
            assert (await posting).status_code == 200
        writer.write(f'POST /v1/audio/speech HTTP/1.1\r\n{head}\r\n\r\n{{"input":'.encode())
        told = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        assert told.split()[1] == status
        assert status == "400" or int(head_of(told, "retry-after")) >= 1
        refusal = json.loads(await reader.readexactly(int(head_of(told, "content-length"))))
        kind = "rate_limit_error" if status == "429" else "invalid_request_error"
        assert refusal["error"]["type"] == kind
    writer.close()
    assert stand.metric("tts_refused_total", reason="overloaded") == 2


@pytest.mark.parametrize("by", ["gateway", "stage"])
async def test_a_stream_that_is_given_up_for_want_of_room_counts_as_refused(
    stand: Any, talk: Any, by: str
) -> None:
    async def full(performance: Any) -> None:
        await performance.end("error", "overloaded", "requests use as many adapters")

    gate = talk.gate()
    stand.stage.script = gate if by == "gateway" else full
    posting = asyncio.create_task(stand.http.post("/v1/audio/speech", json={"input": TEXT}))
    if by == "gateway":
        await gate.begun.wait()
        stand.gateway.context.services.admission.control.give_up("vesper")
    refused = await posting
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "overloaded")
    assert int(refused.headers["retry-after"]) >= 1
    assert stand.metric("tts_streams_total", outcome="refused") == 1
    assert stand.metric("tts_streams_total") == 1
    assert stand.metric("tts_refused_total", reason="overloaded") == 1


def head_of(told: str, name: str) -> str:
    """A header's value."""
    return told.partition(f"{name}: ")[2].partition("\r\n")[0]


@pytest.mark.parametrize("settings", [{"max_streams": 1, "max_wait_s": 30}], indirect=True)
async def test_a_request_waits_for_room_where_it_asks_to(stand: Any, talk: Any) -> None:
    gate = stand.stage.script = talk.gate()
    first = asyncio.create_task(stand.http.post("/v1/audio/speech", json={"input": TEXT}))
    await gate.begun.wait()
    asked = {"input": TEXT, "max_wait_s": 20}
    own = asyncio.create_task(stand.http.post("/v1/audio/speech", json=asked))
    header = {"x-max-wait-s": "20"}
    vendor = asyncio.create_task(
        stand.http.post("/v1/text-to-speech/x/stream", json={"text": TEXT}, headers=header)
    )
    briefly = await stand.http.post("/v1/audio/speech", json={**asked, "max_wait_s": 0.05})
    assert briefly.status_code == 429
    assert not own.done()
    gate.go.set()
    answers = await asyncio.gather(first, own, vendor)
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    wrong = await stand.http.post(
        "/v1/audio/speech", json={"input": TEXT}, headers={"x-max-wait-s": "soon"}
    )
    assert wrong.json()["error"]["param"] == "max_wait_s"


async def test_metrics_count_what_listeners_heard(stand: Any) -> None:
    body = {"input": TEXT, "response_format": "pcm", "sample_rate": 16_000}
    await stand.http.post("/v1/audio/speech", json=body)
    assert stand.metric("tts_ttfp_seconds_count", stage="gateway") == 1
    assert stand.metric("tts_stream_chunks_total", viable="true") == 1
    assert stand.metric("tts_streams_total", outcome="ok", viable="true") == 1
    assert stand.metric("tts_rtf_ratio_count") == 1

    async def fail(performance: Any) -> None:
        await performance.say("first")
        await performance.end("error", "internal", "out of notes")

    stand.stage.script = fail
    with pytest.raises(httpx.RemoteProtocolError):
        await stand.http.post("/v1/audio/speech", json=body)
    assert stand.metric("tts_streams_total", outcome="error", viable="true") == 1


# On a busy machine some would be refused.
@pytest.mark.parametrize("settings", [{"admission": "off"}], indirect=True)
async def test_many_at_once_each_hear_their_own(stand: Any, talk: Any) -> None:
    async def one(index: int) -> None:
        body = {"input": f"number {index}", "response_format": "pcm", "seed": index}
        body["sample_rate"] = 16_000
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
        await asyncio.Event().wait()  # said in no time, and not over before it is cancelled

    stand.stage.script = flood
    body = b'{"input": "a flood", "response_format": "pcm"}'
    head = (
        "POST /v1/audio/speech HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    reader, writer = await stand.opened()
    reader._transport.pause_reading()
    try:
        writer.write(head.encode() + body)
        await begun.wait()
        await stand.stage.freed(stand.stage.jobs[0].request_id)
        await stand.gateway.context.services.admission.idle.wait()
        assert stand.metric("tts_streams_total", outcome="cancelled", viable="true") == 1
    finally:
        writer.transport.abort()


async def test_a_retired_voice_is_spoken_by_its_heir_with_a_warning(stand: Any, talk: Any) -> None:
    body = {"input": TEXT, "seed": 3}
    response = await stand.http.post("/v1/audio/speech", json={**body, "voice": "rms"})
    assert response.headers["warning"].startswith('299 - "the voice rms is gone: vesper-low')
    assert stand.stage.jobs[-1].request.voice == "vesper-low"
    response = await stand.http.post("/v1/audio/speech", json={**body, "voice": "awb"})
    assert "warning" not in response.headers


async def test_a_session_is_told_that_its_voice_is_retired(stand: Any, talk: Any) -> None:
    async with stand.session() as socket:
        await talk.send(socket, "session.config", voice="rms")
        told = await talk.receive(socket)
        assert (told["voice"], told["warning"][:3]) == ("vesper-low", "299")
        await talk.send(socket, "session.config", voice="slt")
        assert "warning" not in await talk.receive(socket)
