"""Turns of a conversation, written, recorded and spoken, and a family's own parameters: from a
client's JSON to the talkers' job, and what the model says in words back to the client.
"""

import base64
from typing import Any

import msgspec
import pytest

from gateway.errors import Unsupported
from tests.unit.ttscommon.sound.test_recordings import wav
from ttscommon.wire import subjects
from ttscommon.wire.messages import SaidText, SpeechRequest


def coded(recording: bytes) -> str:
    return base64.b64encode(recording).decode()


TEXT = "The tide is coming in."
# More than a message may have that is parsed at once: recordings are laid aside.
SOUND = wav(8.0, 8000)
ASKED: dict[str, Any] = {
    "turns": [
        {"speaker": 1, "text": "Is it high already?", "audio": coded(SOUND)},
        {"text": "Not yet."},
    ],
    "speaker": 1,
    "extra_params": {"min_p": 0.1},
}


async def require_turns(request: SpeechRequest, stand: Any) -> None:
    first, second = request.turns
    assert (first.speaker, first.text) == (1, "Is it high already?")
    assert (second.speaker, second.text, second.sound) == (0, "Not yet.", None)
    assert (request.speaker, request.extra_params) == (1, {"min_p": 0.1})
    stored = await stand.stage.bus.objects.get(subjects.PASSING_RECORDINGS, first.sound.audio)  # type: ignore[union-attr]
    assert stored == SOUND


async def test_a_session_tells_it_with_every_request_until_it_is_configured_again(
    stand: Any, talk: Any
) -> None:
    async with stand.session(**ASKED) as socket:
        for _ in range(2):
            await talk.say(socket, TEXT)
            await talk.until(socket, "audio.done")
        await talk.send(socket, "session.config", speaker=0)
        await talk.until(socket, "session.updated")
        await talk.say(socket, TEXT)
        await talk.until(socket, "audio.done")
    *conversation, alone = (job.request for job in stand.stage.jobs)
    for request in conversation:
        await require_turns(request, stand)
    assert (alone.turns, alone.speaker, alone.extra_params) == ((), 0, {})


async def test_what_does_not_fit_is_a_typed_error_with_its_place(stand: Any) -> None:
    wrong: dict[str, dict[str, Any]] = {
        "turns.0.audio": {"turns": [{"audio": "eA=="}]},
        "turns.0.speaker": {"turns": [{"text": "x", "speaker": 99}]},
        "extra_params.min_p": {"extra_params": {"min_p": 2}},
        "extra_params.guidance": {"extra_params": {"guidance": 2}},
    }
    for param, fields in wrong.items():
        response = await stand.http.post("/v1/audio/speech", json={"input": TEXT, **fields})
        error = response.json()["error"]
        assert (response.status_code, error["param"]) == (400, param), error
    assert stand.stage.jobs == []


async def test_models_list_their_parameters(stand: Any) -> None:
    (model,) = (await stand.http.get("/v1/models")).json()["data"]
    assert model["accepts"] == ["turns", "speaker", "speech"]
    (parameter,) = model["extra_params"]
    assert parameter["name"] == "min_p"
    assert (parameter["least"], parameter["most"]) == (0.0, 1.0)


ANSWER = (SaidText(0, "It is", 0.0), SaidText(5, " coming in.", 0.1))


async def answer(performance: Any) -> None:
    """Words before sound; the second chunk repeats a piece, as a successor's might."""
    await performance.say("It is", said=ANSWER[:1])
    await performance.say(" coming in.", said=ANSWER)
    await performance.end()


async def test_a_spoken_turn_opens_a_request_and_is_its_last_turn(stand: Any, talk: Any) -> None:
    stand.stage.script = answer
    said = wav(0.2)  # shorter than a voice may be
    async with stand.session(turns=[{"text": "Hello."}, {"speaker": 1, "text": "Hi."}]) as socket:
        await talk.send(socket, "input.speech", audio=coded(said))
        await talk.send(socket, "input.done")
        heard = await talk.until(socket, "audio.done")
    request = stand.stage.jobs[0].request
    assert (request.text, request.text_final) == ("", True)
    assert [(turn.speaker, turn.text) for turn in request.turns[:2]] == [(0, "Hello."), (1, "Hi.")]
    key = request.turns[2].sound.audio
    assert await stand.stage.bus.objects.get(subjects.PASSING_RECORDINGS, key) == said
    told = [m for m in heard if m["type"] == "audio.transcript"]
    assert set(told[0]) == {"type", "request_id", "start", "text", "at_s"}, "see docs/protocol.md"
    assert [(m["start"], m["text"], m["at_s"]) for m in told] == [
        msgspec.structs.astuple(piece) for piece in ANSWER
    ]
    assert heard[-1]["outcome"] == "ok"


async def test_text_may_follow_and_a_context_is_spoken_to_alike(stand: Any, talk: Any) -> None:
    stand.stage.script = answer
    async with stand.session() as socket:
        await talk.send(socket, "input.speech", audio=coded(wav(0.2)), context_id="a")
        await talk.send(socket, "input.text", text="Briefly, please.", context_id="a")
        await talk.send(socket, "input.done", context_id="a")
        heard = await talk.until(socket, "audio.done")
    assert stand.stage.jobs[0].request.text == "Briefly, please."
    assert [m["context_id"] for m in heard if m["type"] == "audio.transcript"] == ["a", "a"]


async def test_a_post_may_say_it_and_have_no_text(stand: Any) -> None:
    body = {"input": "", "response_format": "pcm", "speech": coded(wav(8.0))}
    response = await stand.http.post("/v1/audio/speech", json=body)
    assert response.status_code == 400, "the stage recites a text, and there is none"
    stand.stage.script = answer
    response = await stand.http.post("/v1/audio/speech", json=body)
    assert response.status_code == 200, response.text
    assert stand.stage.jobs[-1].request.turns[0].sound is not None


async def test_what_cannot_be_heard_is_refused_with_what_to_change(stand: Any, talk: Any) -> None:
    stand.stage.script = answer
    async with stand.session() as socket:
        await talk.send(socket, "input.speech", audio=coded(b"no sound"))
        (refused,) = await talk.until(socket, "error")
        assert (refused["error"]["code"], refused["error"]["param"]) == ("bad_request", "speech")
        await talk.say(socket, "of the refused request")
        await talk.send(socket, "input.speech", audio=coded(wav(0.2)))
        await talk.send(socket, "input.done")
        await talk.until(socket, "audio.done")
        await talk.send(socket, "session.config", speech=coded(wav(0.2)))
        (misplaced,) = await talk.until(socket, "error")
        assert "input.speech" in misplaced["error"]["message"]
    assert [job.request.text for job in stand.stage.jobs] == [""]


async def test_a_model_that_hears_nothing_says_what_to_send(stand: Any, talk: Any) -> None:
    models = stand.gateway.context.catalogue.snapshot.models()
    deaf = msgspec.structs.replace(models["vesper"], accepts=("turns",))
    spec = await stand.gateway.context.spec()
    object.__setattr__(spec, "model", deaf)
    with pytest.raises(Unsupported, match="send what is to be spoken as text"):
        await stand.gateway.context.spoken_to(spec, coded(wav(0.2)))
