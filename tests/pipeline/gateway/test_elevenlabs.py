"""ElevenLabs' protocol, as its clients speak it."""

import asyncio
import base64
import io
import json
import wave
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK

from gateway.requests import ReplicaSnapshot
from ttscommon.wire.replicas import Replica

TEXT = "The tide is in."
QUERY = "model_id=eleven_turbo_v2_5&output_format=pcm_16000&inactivity_timeout=180"


def url(stand: Any, kind: str, query: str = QUERY) -> str:
    base: str = stand.url.replace("http", "ws")
    return f"{base}/v1/text-to-speech/anyone/{kind}?{query}"


async def say(socket: ClientConnection, **message: Any) -> None:
    await socket.send(json.dumps(message))


async def until(socket: ClientConnection, key: str) -> list[dict[str, Any]]:
    """Messages up to the first in which `key` is true or not empty."""
    messages: list[dict[str, Any]] = []
    async with asyncio.timeout(10):
        while not (messages and messages[-1].get(key)):
            messages.append(json.loads(await socket.recv()))
    return messages


def aligned(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [m["alignment"] for m in messages if m.get("alignment")]


def spelled(messages: list[dict[str, Any]]) -> str:
    return "".join(char for found in aligned(messages) for char in found["chars"])


async def test_audio_over_http_in_the_format_that_was_asked_for(stand: Any) -> None:
    body = {"text": TEXT, "model_id": "eleven_flash_v2_5", "voice_settings": None, "seed": 3}
    path = "/v1/text-to-speech/21m00Tcm4TlvDq8ikWAM/stream"
    response = await stand.http.post(path, json={**body, "language_code": "en-GB"})
    assert response.headers["content-type"] == "audio/mpeg"
    assert response.headers["x-sample-rate"] == "44100"
    assert stand.stage.jobs[-1].request.language == "en-GB"
    response = await stand.http.post(f"{path}?output_format=ulaw_8000", json=body)
    assert len(response.content) == pytest.approx(len(TEXT) * 80, abs=2)
    response = await stand.http.post(path, json={**body, "language_code": "ja"})
    assert response.headers["x-ignored"] == "language"


@pytest.mark.parametrize("settings", [{"coalesce_s": 0}], indirect=True)
async def test_alignment_counts_from_where_the_client_expects(stand: Any) -> None:
    for sync in (True, False):
        query = f"{QUERY}&auto_mode=true" + ("&sync_alignment=true" if sync else "")
        async with connect(url(stand, "multi-stream-input", query)) as socket:
            await say(socket, text="One.", context_id="c")
            messages = await until(socket, "alignment")
            await say(socket, text="Two.", context_id="c")
            messages += await until(socket, "alignment")
            await say(socket, context_id="c", flush=True)
            await say(socket, context_id="c", close_context=True)
            messages += await until(socket, "isFinal")
        assert spelled(messages).split() == ["One.", "Two."]
        # Or Pipecat would wait for the end of the last word.
        assert spelled(messages).endswith(" ")
        at_ms = 0
        for found in aligned(messages):
            # Relative times add up: each message begins where the one before ended.
            origin = 0 if sync else at_ms
            assert origin + found["charStartTimesMs"][0] == at_ms
            at_ms = origin + found["charStartTimesMs"][-1] + found["charDurationsMs"][-1]
        heard = sum(len(base64.b64decode(m["audio"])) for m in messages if m.get("audio"))
        assert at_ms == pytest.approx(1000 * heard / 2 / 16_000, abs=1)


async def test_an_interrupted_context_ends_at_once(stand: Any, talk: Any) -> None:
    """Pipecat closes what it interrupts: without a flush, or for the second time."""

    async def script(performance: Any) -> None:
        await performance.say("The tide ", word=True)
        await asyncio.Event().wait()

    for flushed in (False, True):
        stand.stage.script = script
        async with connect(url(stand, "multi-stream-input")) as socket:
            await say(socket, text=TEXT, context_id="c", flush=flushed)
            await until(socket, "audio")
            if flushed:
                await say(socket, context_id="c", close_context=True)
            await say(socket, context_id="c", close_context=True)
            messages = await until(socket, "isFinal")
            stand.stage.script = talk.recite
            await say(socket, text="Next.", context_id="d", flush=True)
            await say(socket, context_id="d", close_context=True)
            after = await until(socket, "isFinal")
        assert {m["contextId"] for m in messages} == {"c"}
        assert {m["contextId"] for m in after} == {"d"}
        assert spelled(after).strip() == "Next."


async def test_wav_has_its_length_where_it_is_sent_whole(stand: Any) -> None:
    path = "/v1/text-to-speech/x?output_format=wav_16000"
    response = await stand.http.post(path, json={"text": TEXT})
    assert response.headers["content-type"] == "audio/wav"
    with wave.open(io.BytesIO(response.content)) as sound:
        assert (sound.getframerate(), sound.getnframes()) == (16_000, 160 * len(TEXT))
    streamed = await stand.http.post(path.replace("x?", "x/stream?"), json={"text": TEXT})
    assert streamed.content[:4] == b"RIFF"


async def test_lists_have_pages_as_clients_turn_them(stand: Any) -> None:
    for version in ("v1", "v2"):
        voices = (await stand.http.get(f"/{version}/voices")).json()["voices"]
        assert [v["voice_id"] for v in voices] == ["slt", "awb", "vesper", "vesper-low"]
        assert all(v["name"] and v["category"] for v in voices)
    models = (await stand.http.get("/v1/models", headers={"xi-api-key": "k"})).json()
    assert models[0]["model_id"] == "vesper"
    first = (await stand.http.get("/v2/voices?page_size=3")).json()
    assert [v["voice_id"] for v in first["voices"]] == ["slt", "awb", "vesper"]
    assert (first["has_more"], first["total_count"]) == (True, 4)
    after = {"page_size": 3, "next_page_token": first["next_page_token"]}
    last = (await stand.http.get("/v2/voices", params=after)).json()
    assert [v["voice_id"] for v in last["voices"]] == ["vesper-low"]
    assert (last["has_more"], last["next_page_token"]) == (False, None)
    males = (await stand.http.get("/v2/voices?gender=male&language=en")).json()
    assert [v["labels"] for v in males["voices"]] == [{"language": "en-GB", "gender": "male"}]
    refused = await stand.http.get("/v2/voices?next_page_token=hal")
    assert (refused.status_code, refused.json()["detail"]["status"]) == (400, "bad_request")


async def test_a_voice_and_the_account_can_be_read_and_none_made_where_no_model_clones(
    stand: Any,
) -> None:
    voice = (await stand.http.get("/v1/voices/awb")).json()
    assert (voice["voice_id"], voice["labels"]["gender"]) == ("awb", "male")
    assert (await stand.http.get("/v1/voices/awb/settings")).json()["speed"] == 1.0
    account = (await stand.http.get("/v1/user/subscription")).json()
    assert (account["status"], account["voice_slots_used"]) == ("active", 0)
    for path in ("/v1/voices/hal", "/v1/text-to-nothing"):
        missing = await stand.http.get(path)
        assert (missing.status_code, missing.json()["detail"]["status"]) == (404, "not_found")
    form = {"name": "Anna Smith"}
    made = await stand.http.post("/v1/voices/add", data=form, files={"files": b"RIFF"})
    assert (made.status_code, made.json()["detail"]["status"]) == (400, "unsupported")


async def test_a_voice_is_refused_for_now_while_it_is_not_known_whether_a_model_clones(
    stand: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue = stand.gateway.context.catalogue

    async def as_it_is() -> None:
        """No worker reports anything new."""

    async def refused(*replicas: Replica) -> str:
        catalogue.snapshot = ReplicaSnapshot(replicas)
        files = {"files": b"RIFF"}
        made = await stand.http.post("/v1/voices/add", data={"name": "Anna"}, files=files)
        assert made.status_code == 503
        message: str = made.json()["detail"]["message"]
        return message

    monkeypatch.setattr(catalogue, "refresh", as_it_is)
    talker = stand.stage.report("talker")
    loading = msgspec.structs.replace(talker, worker_id="talker-2", models=(), loading="big")
    assert "a talker is loading 'big'" in await refused(talker, loading)
    assert "no talker is running" in await refused()


async def test_a_dialogue_is_spoken_by_its_voices_in_turn(stand: Any, talk: Any) -> None:
    inputs = [
        {"text": "Are you there?", "voice_id": "slt"},
        {"text": "I am here.", "voice_id": "awb"},
        {"text": "Good.", "voice_id": "awb"},
    ]
    body = {"inputs": inputs, "model_id": "eleven_v3", "seed": 3}
    path = "/v1/text-to-dialogue/stream?output_format=pcm_16000"
    response = await stand.http.post(path, json=body)
    parts = ["Are you there?", "I am here. Good."]
    gap = 0.3 * 16_000
    assert len(response.content) == 2 * (160 * sum(map(len, parts)) + gap)
    assert not any(response.content[2 * 160 * len(parts[0]) :][: int(2 * gap)])
    assert response.headers["request-id"] == response.headers["x-trace-id"]
    requests = [job.request for job in stand.stage.jobs]
    assert [(r.voice, r.text) for r in requests] == [("slt", parts[0]), ("awb", parts[1])]
    # A model of turns hears what was said.
    assert [turn.text for turn in requests[1].turns] == ["Are you there?"]
    assert [r.speaker for r in requests] == [0, 1]
    empty = await stand.http.post(path, json={"inputs": []})
    assert empty.json()["detail"]["status"] == "bad_request"


async def test_a_dialogue_tells_times_and_who_speaks(stand: Any) -> None:
    said = [("Are you there?", "slt"), ("I am here.", "awb"), ("Good.", "slt")]
    inputs = [{"text": text, "voice_id": voice} for text, voice in said]
    for path in ("with-timestamps", "stream/with-timestamps"):
        route = f"/v1/text-to-dialogue/{path}?output_format=pcm_16000"
        response = await stand.http.post(route, json={"inputs": inputs})
        parts = [json.loads(line) for line in response.text.splitlines()]
        assert (len(parts) == 1) is (path == "with-timestamps")
        told = [part for part in parts if part["alignment"] is not None]
        chars = [c for part in told for c in part["alignment"]["characters"]]
        ends = [t for part in told for t in part["alignment"]["character_end_times_seconds"]]
        seconds = sum(len(base64.b64decode(part["audio_base64"])) for part in parts) / 32_000
        assert "".join(chars) == " ".join(text for text, _ in said)
        assert ends[-1] == pytest.approx(seconds) == pytest.approx(0.29 + 0.6)
        segments = [one for part in told for one in part["voice_segments"]]
        by_input = {one["dialogue_input_index"]: one["voice_id"] for one in segments}
        assert by_input == {0: "slt", 1: "awb", 2: "slt"}
        starts = {one["dialogue_input_index"]: one["start_time_seconds"] for one in segments[::-1]}
        assert starts == pytest.approx({0: 0.0, 1: 0.44, 2: 0.84})


async def test_a_dialogue_over_a_socket_has_names_of_its_own(stand: Any) -> None:
    address = stand.url.replace("http", "ws") + "/v1/text-to-dialogue/multi-stream-input"
    async with connect(f"{address}?output_format=pcm_16000&model_id=eleven_v3") as socket:
        await say(socket, context_id="c", voices=["awb"])
        said = [{"text": TEXT, "voice_id": "awb"}]
        await say(socket, context_id="c", inputs=said, flush=True)
        await say(socket, context_id="c", keep_alive=True)
        await say(socket, context_id="c", close_context=True)
        messages = await until(socket, "is_final")
    assert {m["context_id"] for m in messages} == {"c"}
    times = [m["alignment"] for m in messages if m.get("alignment")]
    assert "".join(c for t in times for c in t["chars"]).strip() == TEXT
    assert all({"char_start_times_ms", "char_durations_ms"} < t.keys() for t in times)
    assert [job.request.voice for job in stand.stage.jobs] == ["awb"]


async def test_a_dialogue_of_one_connection_is_spoken_turn_by_turn(stand: Any) -> None:
    address = stand.url.replace("http", "ws") + "/v1/text-to-dialogue/stream-input"
    query = "output_format=pcm_16000&model_id=eleven_v3&sync_alignment=true"
    async with connect(f"{address}?{query}") as socket:
        await say(socket, voices=["slt", "awb"], voice_settings={"speed": 1.0})
        await say(socket, keep_alive=True)
        lines = [{"text": "Are you there? ", "voice_id": "slt"}]
        lines += [{"text": "I am", "voice_id": "awb"}, {"text": " here.", "voice_id": "awb"}]
        await say(socket, inputs=lines)
        again = {"text": "Good.", "voice_id": "awb", "new_turn": True}
        await say(socket, inputs=[again], flush=True)
        await say(socket, close_socket=True)
        messages = await until(socket, "is_final")
        with pytest.raises(ConnectionClosedOK):
            await socket.recv()
    assert [(job.request.voice, job.request.text.strip()) for job in stand.stage.jobs] == [
        ("slt", "Are you there?"), ("awb", "I am here."), ("awb", "Good."),
    ]  # fmt: skip
    ends = [at for at, one in enumerate(messages) if one.get("is_final_audio_for_turn")]
    assert len(ends) == 3
    heard = [
        sum(len(base64.b64decode(one.get("audio") or "")) for one in messages[first:last])
        for first, last in pairwise((0, *ends))
    ]
    assert heard == [2 * 160 * len(job.request.text) for job in stand.stage.jobs]
    assert messages[-1] == {"is_final": True}


async def test_a_dialogue_that_makes_no_sense_ends_with_its_reason_and_an_empty_one_is_final(
    stand: Any,
) -> None:
    address = stand.url.replace("http", "ws") + "/v1/text-to-dialogue/stream-input"
    wrong = ({"voices": "slt"}, {"inputs": [{"text": 7}]}, {"inputs": [{"voice_id": 7}]})
    for message in wrong:
        async with connect(address) as socket:
            await say(socket, **message)
            told = json.loads(await socket.recv())
            assert (told["error"], told["code"]) == ("bad_request", 1008)
            with pytest.raises(ConnectionClosedError):
                await socket.recv()
    async with connect(address) as socket:
        await say(socket, voices=["slt"], close_socket=True)
        assert json.loads(await socket.recv()) == {"is_final": True}
