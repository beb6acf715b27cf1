"""What a key made is there for no other key: it lists, reads, uses and deletes nothing of it."""

from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace
from websockets.exceptions import InvalidStatus

from gateway.requests.aliases import DEFAULT
from gateway.requests.snapshot import voice_of
from gateway.settings import GatewaySettings
from tests.adapters import files
from tests.realtime import opened
from tests.stacks import keys_file
from tests.unit.ttscommon.sound.test_recordings import wav
from ttscommon.wire.replicas import Model, Voice

A, B = ({"authorization": f"Bearer {name}"} for name in ("alice", "bob"))
AUDIO: Final = "/v1/audio"
TRAINED: Final = files({"model.layers.0.self_attn.q_proj": (6, 4)}, 4)
NAMES: Final = ("mine", "../mine", "%2e%2e%2fmine", "mine%00", "*", ">", "mine.*")
_VOICE: Final[dict[str, Any]] = {
    "data": {"name": "mine", "consent": "I agree."},
    "files": {"audio_sample": ("a.wav", wav(2.0))},
}
_ENTRIES: Final = [{"grapheme": "tide", "alias": "a secret"}]
_FILES: Final = {
    "adapter_config": ("a.json", TRAINED.config),
    "adapter_model": ("a.bin", TRAINED.weights),
}
MAKE: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "voices": (_VOICE, "uploaded_voices"),
    "lexicons": ({"json": {"name": "mine", "language": "en-US", "entries": _ENTRIES}}, "lexicons"),
    "adapters": ({"data": {"name": "mine"}, "files": _FILES}, "adapters"),
    "jobs": ({"json": {"input": "It was calm."}}, "data"),
}


@pytest.fixture
def settings(tmp_path: Path) -> GatewaySettings:
    """A gateway in which alice and bob have keys of their names."""
    return GatewaySettings(port=0, keys_file=keys_file(tmp_path), max_adapters=2)


async def test_another_key_lists_reads_and_deletes_nothing(
    cloning: Any, subtests: pytest.Subtests
) -> None:
    stand = cloning
    for kind, (body, field) in MAKE.items():
        with subtests.test(kind):
            path = f"{AUDIO}/{kind}"
            made = await stand.http.post(path, headers=A, **body)
            assert made.is_success, made.text
            own = made.json().get("id", "mine")
            for name in (own, *(each for each in NAMES if each != own)):
                for method in ("GET", "DELETE"):
                    gone = await stand.http.request(method, f"{path}/{name}", headers=B)
                    assert gone.status_code in (400, 404, 405), (method, name, gone.text)
            assert "mine" not in str((await stand.http.get(path, headers=B)).json()[field])
            assert own not in (await stand.http.get(path, headers=B)).text
            assert own in (await stand.http.get(path, headers=A)).text


@pytest.fixture
def obeying(cloning: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Its model takes recordings and adapters."""
    catalogue = cloning.gateway.context.catalogue
    resolve = catalogue.resolve

    async def resolved(model: str, voice: str, naming: Any = None) -> tuple[Model, Voice]:
        found, _ = await resolve(model, DEFAULT, naming)
        found = replace(found, accepts=(*found.accepts, "ref_audio", "adapter"))
        return found, voice_of(found, voice)

    monkeypatch.setattr(catalogue, "resolve", resolved)
    return cloning


async def test_another_key_speaks_with_nothing_of_it(obeying: Any) -> None:
    stand = obeying
    for kind in ("voices", "lexicons", "adapters"):
        assert (await stand.http.post(f"{AUDIO}/{kind}", headers=A, **MAKE[kind][0])).is_success

    async def spoken(key: dict[str, str], **named: Any) -> Any:
        said = {"input": "The tide.", "response_format": "pcm", **named}
        return await stand.http.post(f"{AUDIO}/speech", headers=key, json=said)

    for name in ("mine", "../mine", "*"):
        for named, status, code in (
            ({"voice": name}, 400, "unknown_voice"),
            ({"lexicons": [name]}, 404, "unknown_lexicon"),
            ({"adapter": name}, 404, "unknown_adapter"),
        ):
            refused = await spoken(B, **named)
            assert refused.status_code == status, refused.text
            assert refused.json()["error"]["code"] == code
    assert not stand.stage.jobs
    assert (await spoken(A, voice="mine", lexicons=["mine"], adapter="mine")).is_success
    (job,) = stand.stage.jobs
    assert job.request.reference is not None
    assert job.request.adapter.name == "mine"
    assert "secret" in str(job.request)


async def test_another_key_hears_no_session_of_it_and_counts_none_of_its_use(stand: Any) -> None:
    async with opened(stand.url, "&resumable=true", additional_headers=A) as client:
        await client.say("A secret.")
        await client.until("conversation.item.done")
        name = client.events[0]["session"]["id"]
        for session in (name, f"../{name}", "sess_*", ">"):
            with pytest.raises(InvalidStatus) as refused:
                async with opened(stand.url, f"&session={session}", additional_headers=B):
                    pass
            assert refused.value.response.status_code == 404
    said = {"input": "Hello.", "response_format": "pcm"}
    assert (await stand.http.post(f"{AUDIO}/speech", headers=A, json=said)).is_success
    used = [(await stand.http.get("/v1/usage", headers=key)).text for key in (A, B)]
    assert "vesper" in used[0]
    assert "vesper" not in used[1]
