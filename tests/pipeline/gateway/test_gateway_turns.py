"""Turns, speakers and a family's own parameters, from a client's JSON to the talkers' job."""

import base64
from typing import Any

from tests.unit.ttscommon.sound.test_recordings import wav
from ttscommon.wire import subjects
from ttscommon.wire.messages import SpeechRequest

TEXT = "The tide is coming in."
# More than a message may have that is parsed at once: recordings are laid aside.
SOUND = wav(8.0, 8000)
ASKED: dict[str, Any] = {
    "turns": [
        {"speaker": 1, "text": "Is it high already?", "audio": base64.b64encode(SOUND).decode()},
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
