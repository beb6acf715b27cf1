"""What a key made is there for no other key: it lists, reads, uses and deletes nothing of it."""

from pathlib import Path
from typing import Any, Final

import pytest
from websockets.exceptions import InvalidStatus

from gateway.settings import GatewaySettings
from tests.adapters import files
from tests.keys import keys_file
from tests.realtime import opened
from tests.unit.ttscommon.sound.test_recordings import wav

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


async def test_another_key_speaks_with_nothing_of_it(cloning: Any) -> None:
    stand = cloning
    for kind in ("voices", "lexicons", "adapters"):
        assert (await stand.http.post(f"{AUDIO}/{kind}", headers=A, **MAKE[kind][0])).is_success
    said: dict[str, Any] = {"input": "Hello.", "response_format": "pcm"}
    for name in ("mine", "../mine", "*"):
        lexicon = {**said, "lexicons": [name]}
        refused = await stand.http.post(f"{AUDIO}/speech", headers=B, json=lexicon)
        assert refused.status_code in (400, 404), refused.text
        adapter = await stand.http.post(
            f"{AUDIO}/speech", headers=B, json={**said, "adapter": name}
        )
        assert adapter.status_code in (200, 400, 404)  # 200: the model takes none, and says so
        voice = await stand.http.post(f"{AUDIO}/speech", headers=B, json={**said, "voice": name})
        assert voice.status_code in (200, 400, 404)  # 200: an unknown name means the default
    for job in stand.stage.jobs:
        assert (job.request.reference, job.request.adapter) == (None, None)
        assert "secret" not in str(job.request.marks)


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
