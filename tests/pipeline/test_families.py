"""Model families beside the default voice in one stack: each loses its talker and its vocoder."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np
import pytest
import pytest_asyncio
import torch

from antiphon.client import Audio, Finished, SpeechOptions, Started, Word, Words, speak
from antiphon.say import whole
from antiphon.stack import LocalStack
from antiphon.stack.checkpoints import Checkpoint
from talker.engine.engine import Engine
from talker.synthesis import synthesise
from tests.answering import answered
from tests.pipeline.test_checkpoints import SEED, TEXT, near, posted, spoken
from tests.stacks import listed, logged, patient
from tests.unit.ttscommon.sound.test_recordings import wav
from ttscommon.bus import Bus
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Arrays, concatenate, cut, silent
from ttscommon.wire.messages import CodecChunk, SpeechRequest
from ttscommon.wire.subjects import CODES
from ttsfamilies.base.codec.base import Codec, Work
from ttsfamilies.base.talker.guard import STEP
from ttsfamilies.base.talker.served import ServedFamily
from ttsfamilies.codecs import load as load_codec
from ttsfamilies.cosyvoice import synthetic as cosyvoice
from ttsfamilies.csm import synthetic as csm
from ttsfamilies.csm.mimi.synthetic import add_decoder
from ttsfamilies.glm_voice import synthetic as glm_voice
from ttsfamilies.kokoro import synthetic as kokoro
from ttsfamilies.kyutai_tts import synthetic as kyutai_tts
from ttsfamilies.talkers import load as load_talker
from ttsfamilies.voxcpm2 import synthetic as voxcpm2
from vocoder.pcm import to_pcm

# tests/parity and test_conformance.py hold families to the same, test_parity.py a whole stack.
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

LOSES: Final = 4
"""A seed with which CSM's checkpoint misses its end."""
BLEND: Final = "af_heart*0.6+af_sky*0.4"
SEGMENTS: Final = (
    "The old bridge was closed for repairs, so we walked along the river until it was almost dark."
    " Nobody minded; we had time, and the water was quiet. At the end of the path a man sold coffee"
    " from a small cart, which he had painted green himself because he liked the colour so much."
)


@dataclass(frozen=True)
class Served:
    """A family in the stack.

    write: into an empty folder. samples: at least so many, a multiple of `stride`. peak: of int16.
    rate: its own, where gateways answer with another unasked.
    """

    name: str
    write: Callable[[Path], object]
    voice: str
    text: str = TEXT
    samples: int = 24_000
    stride: int = 1
    peak: int = 0
    rate: int = 24_000


def write_csm(folder: Path) -> None:
    """Four codebooks; it ends its speech by itself, as each of them does."""
    csm.write_checkpoint(folder, seed=8, codebooks=4, ending=2.15)
    add_decoder(folder, seed=8)


def write_kyutai_tts(folder: Path) -> None:
    """Four codebooks, whose sound is two steps behind the text."""
    told = kyutai_tts.config(4, audio_delay=0.16, layers=1)
    kyutai_tts.write_checkpoint(folder, told, seed=8, asking=-2.2)


# Ways through the stages that no other takes; test_up_from_the_hub.py serves every family.
CSM: Final = Served("csm", write_csm, "default", stride=1920)
KOKORO: Final = Served(
    *("kokoro", partial(kokoro.write_checkpoint, seed=3), BLEND, SEGMENTS),
    samples=4 * 24_000, peak=1000,
)  # fmt: skip
KYUTAI: Final = Served("kyutai", write_kyutai_tts, "slt", stride=1920)
VOXCPM: Final = Served(
    *("voxcpm", partial(voxcpm2.write_checkpoint, seed=4), "default"),
    stride=7680, peak=300, rate=48_000,
)  # fmt: skip
GLM: Final = Served(
    *("glm", partial(glm_voice.write_family, size="tiny", kind="", seed=3), "glm-4-voice"),
    *(TEXT, 8_000, 1764), peak=300, rate=22_050,
)  # fmt: skip
FAMILIES: Final = (CSM, KOKORO, KYUTAI, VOXCPM, GLM)
# Without a voice before a client has made one of a recording.
COSYVOICE: Final = partial(cosyvoice.write_family, size="tiny", kind="v2", seed=3)
RECORDED: Final = (Served("cosyvoice", COSYVOICE, "anna", stride=960),)


def each(*families: Served) -> pytest.MarkDecorator:
    named = [pytest.param(family, id=family.name) for family in families]
    return pytest.mark.parametrize("family", named)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Checkpoint]:
    """Of each family one, by its name."""
    found = {}
    for family in (*FAMILIES, *RECORDED):
        family.write(folder := tmp_path_factory.mktemp(family.name))
        found[family.name] = Checkpoint.parse(f"{family.name}={folder}")
    return found


@pytest.fixture(scope="module")
def caught() -> asyncio.Event:
    """A talker has said that a model lost its text."""
    return asyncio.Event()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(
    checkpoints: dict[str, Checkpoint],
    tmp_path_factory: pytest.TempPathFactory,
    caught: asyncio.Event,
) -> AsyncIterator[LocalStack]:
    """All families beside the default voice."""

    def hear(line: str) -> None:
        if "runaway.caught" in line:
            caught.set()

    store, kept = tmp_path_factory.mktemp("store"), {"ANTIPHON_KEEP_LOGS_S": "600"}
    async with logged(patient(store, list(checkpoints.values()), kept), hear) as running:
        async with httpx.AsyncClient(base_url=running.url) as client:
            await listed(client, *checkpoints)
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def client(served: LocalStack) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=served.url, timeout=180) as opened:
        yield opened


def offline(family: Served, checkpoint: Checkpoint, voice: str = "") -> tuple[Arrays, Any]:
    """Frames of the family's text and their [samples] int16, without a stack."""
    torch.set_num_threads(1)
    model = load_talker("tiny", checkpoint.folder)
    engine = Engine(model, slots=1, blocks=600, metrics=Metrics())
    request = SpeechRequest("r", "tiny", voice or family.voice, family.text, seed=SEED)
    (made,) = synthesise(engine, [request])
    codec = load_codec("tiny", checkpoint.sound)
    frames = {name: made.arrays[name] for name in codec.spec.frame}
    state = codec.open(request)
    if (told := codec.conditions(request)) is not None:
        codec.tell(state, told)
    return made.arrays, to_pcm(_decoded(codec, state, frames, silent(made.arrays)))


def _decoded(codec: Codec, state: Any, frames: Arrays, flags: Any) -> Any:
    """Samples of frames, some of which are silent."""
    edges = [0, *(np.flatnonzero(np.diff(flags)) + 1).tolist(), len(flags)]
    works = (
        Work(state, cut(frames, *ends), final=ends[1] == len(flags), silent=bool(flags[ends[0]]))
        for ends in pairwise(edges)
    )
    return np.concatenate([codec.decode([work])[0] for work in works])


async def heard(client: httpx.AsyncClient, family: Served, **body: Any) -> Any:
    """[samples] int16 over HTTP."""
    asked = {"model": family.name, "voice": family.voice, "input": family.text}
    return await posted(client, **asked | {"sample_rate": family.rate} | body)


async def refused(client: httpx.AsyncClient, family: Served, **body: Any) -> Any:
    """The error of a request over HTTP."""
    asked = {"model": family.name, "voice": family.voice, "input": "Hello."}
    answer = await client.post("/v1/audio/speech", json=asked | body)
    assert answer.status_code == 400, answer.text
    return answer.json()["error"]


def workers(family: Served) -> tuple[str, str]:
    return f"talker-{family.name}-1", f"vocoder-{family.name}-1"


@each(*FAMILIES)
async def test_it_says_the_same_over_http_and_the_socket_when_talker_and_vocoder_die(
    family: Served,
    served: LocalStack,
    checkpoints: dict[str, Checkpoint],
    client: httpx.AsyncClient,
) -> None:
    whole = await heard(client, family)
    assert len(whole) > family.samples
    assert len(whole) % family.stride == 0
    assert np.abs(whole.astype(int)).max() > family.peak
    frames, alone = await asyncio.to_thread(offline, family, checkpoints[family.name])
    assert near(whole, alone)
    if family is KOKORO:  # several segments are what its text is for
        assert np.count_nonzero(frames["left"] == 0) >= 3
    said = {"model": family.name, "voice": family.voice, "text": family.text}
    assert near(await spoken(served, **said), whole)
    assert near(await spoken(served, *workers(family), **said), whole)


async def test_a_talker_that_dies_in_the_middle_of_a_redraw_goes_on_with_it(
    served: LocalStack, checkpoints: dict[str, Checkpoint], caught: asyncio.Event
) -> None:
    """How much was sent before a redraw depends on the listener; the log decides what follows."""
    bus = await Bus.connect(served.bus, "test")
    try:
        for victims in ((), workers(CSM)[:1]):
            caught.clear()
            killing = asyncio.create_task(_kill(served, victims, caught))
            request_id, pcm, end = await _cut_short(served)
            await killing
            frames, folder = await _codes(bus, request_id), checkpoints[CSM.name].folder
            assert near(pcm, await asyncio.to_thread(_as_logged, folder, frames))
            assert end.outcome in ("ok", "runaway")
    finally:
        await bus.close()


async def _kill(stack: LocalStack, victims: Sequence[str], caught: asyncio.Event) -> None:
    await caught.wait()
    for victim in victims:
        stack.children[victim].kill()


async def _cut_short(stack: LocalStack) -> tuple[str, Any, Finished]:
    """The request's id, [samples] int16, and how it ended."""
    pcm, request_id = b"", ""
    options = SpeechOptions(model=CSM.name, voice=CSM.voice, seed=LOSES)
    async for event in speak(stack.url, whole("Who sings?"), options):
        if isinstance(event, Audio):
            pcm += event.pcm
        elif isinstance(event, Started):
            request_id = event.request_id
        elif isinstance(event, Finished):
            return request_id, np.frombuffer(pcm, "<i2"), event
    raise AssertionError("a request without an end")


async def _codes(bus: Bus, request_id: str) -> Arrays:
    """All that the log has of the request's frames."""
    async with asyncio.timeout(30), bus.reader(CODES, request_id) as reader:
        chunks = [record async for record in reader if isinstance(record, CodecChunk)]
    return concatenate([{n: t.array() for n, t in chunk.tensors.items()} for chunk in chunks])


def _as_logged(folder: Path, frames: Arrays) -> Any:
    """[samples] int16 of logged frames. A successor begins the first redraw where the log does."""
    torch.set_num_threads(1)
    family = ServedFamily(load_talker("tiny", folder))
    engine = Engine(family, slots=1, blocks=600, metrics=Metrics())
    request = SpeechRequest("r", "tiny", CSM.voice, "Who sings?", seed=LOSES)
    drawn = np.flatnonzero(frames["redraw"] == 1)[:STEP]
    (made,) = synthesise(engine, [request], {"r": cut(frames, 0, int(drawn[0]))})
    for name in ("codes", "redraw"):
        np.testing.assert_array_equal(made.arrays[name][: len(drawn)], frames[name][drawn])
    codec = load_codec("tiny", folder)
    codes = {name: frames[name] for name in codec.spec.frame}
    return to_pcm(codec.decode([Work(codec.open(request), codes, final=True)])[0])


async def test_csm_goes_on_from_turns_of_which_a_recording_is_one(
    client: httpx.AsyncClient,
) -> None:
    sound = base64.b64encode(wav(1.5)).decode()
    first = {"speaker": 1, "text": "Who sings?", "audio": sound}
    short = {"speaker": 1, "max_new_tokens": 10}
    turns = [first, {"text": "Nobody."}]
    one, other = [await heard(client, CSM, turns=turns, **short) for _ in range(2)]
    assert near(one, other)
    assert np.abs(one.astype(int)).max() > 100
    assert not near(one, await heard(client, CSM, **short))
    cloned = await heard(client, CSM, ref_audio=sound, ref_text="Who sings?", **short)
    assert near(cloned, await heard(client, CSM, turns=[first], **short))
    untold = await refused(client, CSM, ref_audio=sound, **short)
    assert untold["param"] == "ref_text"
    await refused(client, CSM, model="vesper", voice="vesper", turns=turns)


@each(*RECORDED)
async def test_it_speaks_with_a_recording_when_talker_and_vocoder_die(
    family: Served, served: LocalStack, client: httpx.AsyncClient
) -> None:
    sample = {"audio_sample": ("anna.wav", wav(1.5), "audio/wav")}
    told = {"name": "anna", "consent": "Yes.", "ref_text": "Who sings there?"}
    made = await client.post("/v1/audio/voices", files=sample, data=told)
    assert made.status_code == 200, made.text
    turns = await heard(client, family, non_streaming_mode=False)
    assert len(turns) > family.samples
    assert len(turns) % family.stride == 0
    assert np.abs(turns.astype(int)).max() > 100
    said = {"model": family.name, "voice": "anna", "text": TEXT}
    live = await spoken(served, *workers(family), **said)
    assert len(live) == len(turns)
    assert np.abs(live.astype(int) - turns).max() <= 4  # the codec's tolerance
    whole = await heard(client, family)
    assert not near(whole, turns)
    assert not near(await heard(client, family, instructions="Sing it."), whole)


@each(VOXCPM)
async def test_it_speaks_with_a_recordings_voice_as_undisturbed_and_as_it_is_told(
    family: Served, served: LocalStack, client: httpx.AsyncClient
) -> None:
    sample = {"audio_sample": ("bea.wav", wav(1.5), "audio/wav")}
    told = {"name": "bea", "consent": "Yes.", "ref_text": "Who sings there?"}
    made = await client.post("/v1/audio/voices", files=sample, data=told)
    assert made.status_code == 200, made.text
    said = {"model": family.name, "voice": "bea", "text": TEXT}
    whole = await spoken(served, **said)
    assert near(await spoken(served, *workers(family), **said), whole)
    for voice in (family.voice, "bea"):
        plain = await heard(client, family, voice=voice)
        assert not near(await heard(client, family, voice=voice, instructions="Sing it."), plain)
    sound = base64.b64encode(wav(1.5)).decode()
    alone = await heard(client, family, ref_audio=sound, x_vector_only_mode=True)
    assert not near(alone, await heard(client, family, voice="bea"))


@each(KYUTAI)
async def test_it_speaks_while_it_is_written_and_when_talker_and_vocoder_die(
    family: Served, served: LocalStack, client: httpx.AsyncClient
) -> None:
    """A slow writer: the last words are written when the first ones have been heard."""
    whole = await heard(client, family)
    begun, words, victims = asyncio.Event(), list[Word](), list(workers(family))

    async def written() -> AsyncIterator[str]:
        for letter in TEXT[:-18]:
            yield letter
        await asyncio.wait_for(begun.wait(), 60)
        for letter in TEXT[-18:]:
            yield letter

    pcm, options = b"", SpeechOptions(model=family.name, voice=family.voice, seed=SEED)
    async for event in speak(served.url, written(), options):
        if isinstance(event, Words):
            words += event.words
        elif isinstance(event, Audio):
            pcm += event.pcm
            if victims:
                served.children[victims.pop(0)].kill()
            else:
                begun.set()
    slow = np.frombuffer(pcm, "<i2")
    assert near(slow, whole)
    assert [word.text for word in words] == TEXT.replace(":", " ").split()
    times = [time for word in words for time in (word.start_s, word.end_s)]
    assert times == sorted(times)
    assert times[-1] <= len(slow) / 24_000


@each(KOKORO)
async def test_kokoro_is_silent_in_a_pause_when_its_vocoder_dies(
    family: Served, served: LocalStack, client: httpx.AsyncClient
) -> None:
    text = "The bridge was closed."
    whole = await heard(client, family, input=text)
    said, pause = {"model": family.name, "voice": BLEND}, 2 * 24_000
    paused = f'{text} <break time="2s"/> {text}'
    silent = await spoken(served, workers(family)[1], text=paused, **said)
    assert len(silent) == 2 * len(whole) + pause
    assert near(silent[: len(whole)], whole)
    assert not silent[len(whole) : len(whole) + pause].any()


@each(GLM)
async def test_what_was_said_is_answered_once_when_talker_and_vocoder_die(
    family: Served, served: LocalStack
) -> None:
    config: dict[str, Any] = {"model": family.name, "voice": family.voice, "seed": SEED}
    config["speech"] = wav(1.3, rate=16_000)
    alone, words = await answered(served, **config)
    assert len(alone) % family.stride == 0
    assert len(alone) > family.samples
    assert words
    pcm, again = await answered(served, *workers(family), **config)
    assert near(pcm, alone)
    assert again == words
