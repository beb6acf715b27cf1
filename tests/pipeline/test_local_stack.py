"""`antiphon up` with every real process, on the engines that need no model."""

import asyncio

import pytest

from antiphon.client import Audio, Finished, SpeechOptions, Started, speak, voices
from antiphon.say import whole
from antiphon.stack import LocalStack

FAKE = pytest.mark.parametrize("stack", [{"engine": "fake"}], indirect=True)


async def sound(stack: LocalStack, text: str, seed: int = 7) -> bytes:
    """The whole of `text`, spoken through the stack."""
    events = [event async for event in speak(stack.url, whole(text), SpeechOptions(seed=seed))]
    assert isinstance(events[0], Started)
    assert isinstance(events[-1], Finished)
    assert events[-1].outcome == "ok"
    return b"".join(event.pcm for event in events if isinstance(event, Audio))


async def test_a_sentence_comes_back_as_sound_the_same_for_the_same_seed(
    fake_stack: LocalStack,
) -> None:
    first = await sound(fake_stack, "The tide is coming in.")
    assert len(first) > 8000
    assert await sound(fake_stack, "The tide is coming in.") == first
    assert [voice.id for voice in await voices(fake_stack.url)] == ["slt", "rms", "awb"]


@FAKE
@pytest.mark.parametrize(
    "victims",
    [
        ("vocoder-1",),
        # test_twins_restart.py has talkers, gateway/test_job_takeover.py a gateway, and
        # tests/unit/ttscommon/bus/test_link.py a broker.
        pytest.param(("talker-1", "gateway", "broker"), marks=pytest.mark.slow),
    ],
    ids="-".join,
)
async def test_the_stack_speaks_again_after_any_process_was_killed(
    stack: LocalStack, victims: tuple[str, ...]
) -> None:
    before = await sound(stack, "The tide is coming in.")
    for victim in victims:
        child = stack.children[victim]
        starts = child.starts
        child.kill()
        async with asyncio.timeout(20):
            while child.starts == starts or not child.ready.is_set():
                await asyncio.sleep(0.01)
            assert await sound(stack, "The tide is coming in.") == before


@pytest.mark.slow
@pytest.mark.parametrize("stack", [{"engine": "fake", "pair": True}], indirect=True)
async def test_a_talker_and_a_vocoder_in_one_process_speak_and_come_back(
    stack: LocalStack,
) -> None:
    assert sorted(stack.children) == ["broker", "gateway", "pair-1"]
    before = await sound(stack, "The tide is coming in.")
    child = stack.children["pair-1"]
    child.kill()
    async with asyncio.timeout(20):
        while child.starts < 2 or not child.ready.is_set():
            await asyncio.sleep(0.01)
        assert await sound(stack, "The tide is coming in.") == before
