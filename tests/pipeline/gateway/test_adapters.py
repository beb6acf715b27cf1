"""Adapters over HTTP: kept by the key that uploaded them, and named to the talkers by content."""

from typing import Any

import pytest
from msgspec.structs import replace

from gateway.keys import Tenant
from tests.adapters import config, files
from tests.unit.ttscommon.sound.test_recordings import wav
from ttscommon.cluster.adapters.peft import Files
from ttscommon.wire import subjects
from ttscommon.wire.parameters import Adapter, AdapterRef

PATH, SPEECH, VOICES = "/v1/audio/adapters", "/v1/audio/speech", "/v1/audio/voices"
SIZES = {"model.layers.0.self_attn.q_proj": (6, 4)}
MINE, OTHER = files(SIZES, 4), files(SIZES, 4, seed=1)
OWN = Adapter("narrator", "d" * 64, 8)

uploads = pytest.mark.parametrize("settings", [{"max_adapters": 2}], indirect=True)


def form(content: Files, name: str = "mine", **changed: bytes | None) -> dict[str, Any]:
    parts = {"adapter_config": content.config, "adapter_model": content.weights, **changed}
    sent = {key: (f"{key}.bin", data) for key, data in parts.items() if data is not None}
    return {"data": {"name": name}, "files": sent}


@pytest.fixture
def adaptable(stand: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The stand, whose model takes adapters, and whose first voice goes by one."""
    catalogue = stand.gateway.context.catalogue
    resolve = catalogue.resolve

    async def adapted(*names: Any) -> Any:
        model, voice = await resolve(*names)
        bound = replace(voice, adapter="narrator" if voice.id == "slt" else "")
        accepts = (*model.accepts, "adapter")
        return replace(model, accepts=accepts, adapters=(OWN,)), bound

    monkeypatch.setattr(catalogue, "resolve", adapted)
    return stand


async def spoken(stand: Any, **body: Any) -> Any:
    """The adapter that the talkers are told, or the error."""
    answer = await stand.http.post(
        SPEECH, json={"input": "Hello there.", "response_format": "pcm", "voice": "awb", **body}
    )
    if answer.status_code != 200:
        return answer.status_code, answer.json()["error"]["code"], answer.json()["error"]["param"]
    return stand.stage.jobs[-1].request.adapter


@uploads
async def test_an_adapter_is_uploaded_listed_spoken_with_and_deleted(adaptable: Any) -> None:
    stand = adaptable
    made = await stand.http.post(PATH, **form(MINE))
    assert made.status_code == 200, made.text
    (card,) = (await stand.http.get(PATH)).json()["adapters"]
    assert made.json()["adapter"] == card
    assert (card["name"], card["digest"], card["rank"]) == ("mine", MINE.digest, 4)
    ref = await spoken(stand, adapter="mine")
    assert (ref.name, ref.digest) == ("mine", MINE.digest)
    objects = stand.gateway.context.services.bus.objects
    assert Files.unpacked(await objects.get(subjects.RECORDINGS, ref.stored)) == MINE
    assert (await stand.http.delete(f"{PATH}/mine")).json() == {"success": True}
    assert await objects.get(subjects.RECORDINGS, ref.stored) is None
    assert await spoken(stand, adapter="mine") == (404, "unknown_adapter", "adapter")
    gone = await stand.http.delete(f"{PATH}/mine")
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "unknown_adapter")


async def test_the_deployments_own_are_named_by_their_content(adaptable: Any) -> None:
    assert await spoken(adaptable, adapter="narrator") == AdapterRef("narrator", OWN.digest)
    assert await spoken(adaptable) is None
    for name in ("other", "../narrator", "nar rator"):
        assert await spoken(adaptable, adapter=name) == (404, "unknown_adapter", "adapter")


async def test_a_voice_goes_by_its_adapter_unless_the_request_says_otherwise(
    adaptable: Any,
) -> None:
    assert await spoken(adaptable, voice="slt") == AdapterRef("narrator", OWN.digest)
    assert await spoken(adaptable, voice="slt", adapter="") is None


async def test_a_model_without_adapters_refuses_them_by_name(stand: Any) -> None:
    assert await spoken(stand, adapter="narrator") == (400, "unsupported", "adapter")
    assert await spoken(stand, adapter="") is None


async def test_a_key_has_the_rights_that_its_file_says(adaptable: Any) -> None:
    stand = adaptable
    refused = await stand.http.post(PATH, **form(MINE))
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "quota_exceeded")
    ring = stand.gateway.context.keys
    ring.tenants = {"": Tenant(adapters=frozenset({"other"}), adapter_uploads=1)}
    assert await spoken(stand, adapter="narrator") == (404, "unknown_adapter", "adapter")
    assert (await stand.http.post(PATH, **form(MINE))).is_success
    assert (await spoken(stand, adapter="mine")).digest == MINE.digest
    assert await stand.gateway.context.adapters.find("somebody else", "mine") is None


@uploads
async def test_a_key_keeps_only_so_many_and_each_name_once(stand: Any) -> None:
    for name in ("one", "two"):
        assert (await stand.http.post(PATH, **form(MINE, name))).is_success
    third = await stand.http.post(PATH, **form(OTHER, "three"))
    assert (third.status_code, third.json()["error"]["code"]) == (403, "quota_exceeded")
    assert (await stand.http.delete(f"{PATH}/two")).is_success
    again = await stand.http.post(PATH, **form(OTHER, "one"))
    assert (again.status_code, again.json()["error"]["code"]) == (409, "adapter_exists")
    assert [one["digest"] for one in (await stand.http.get(PATH)).json()["adapters"]] == [
        MINE.digest
    ]


@pytest.mark.parametrize(
    "settings", [{"max_adapters": 9, "max_adapter_bytes": 4096}], indirect=True
)
async def test_what_is_no_adapter_is_refused_and_leaves_nothing(
    stand: Any, subtests: pytest.Subtests
) -> None:
    for options, status, code in (
        (form(MINE, adapter_model=b"\x80\x04pickle"), 400, "invalid_adapter"),
        (form(MINE, adapter_model=MINE.weights[:-1]), 400, "invalid_adapter"),
        (form(MINE, adapter_config=b"{"), 400, "invalid_adapter"),
        (form(files(SIZES, 4, use_dora=True)), 400, "invalid_adapter"),
        (form(files(SIZES, 4, r=10_000)), 400, "invalid_adapter"),
        (form(MINE, adapter_model=b"x" * 5000), 413, "message_too_big"),
        (form(MINE, adapter_config=b" " * 300_000), 413, "message_too_big"),
        (form(MINE, "../../x"), 400, "bad_request"),
        (form(MINE, ""), 400, "bad_request"),
        (form(MINE, adapter_model=None), 400, "bad_request"),
        ({"json": config()}, 415, "unsupported_media_type"),
    ):
        with subtests.test(code):
            refused = await stand.http.post(PATH, **options)
            assert (refused.status_code, refused.json()["error"]["code"]) == (status, code)
            assert (await stand.http.get(PATH)).json() == {"adapters": []}


@uploads
async def test_a_voice_is_made_with_an_adapter_that_there_is(cloning: Any) -> None:
    stand = cloning
    upload = {"name": "anna", "consent": "I agree.", "adapter": "mine"}
    sample = {"audio_sample": ("anna.wav", wav(1.5), "audio/wav")}
    refused = await stand.http.post(VOICES, data=upload, files=sample)
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "unknown_adapter")
    assert (await stand.http.post(PATH, **form(MINE))).is_success
    made = await stand.http.post(VOICES, data=upload, files=sample)
    assert made.json()["voice"]["adapter"] == "mine"
    assert (await stand.gateway.context.voices.get("", "anna")).adapter == "mine"
