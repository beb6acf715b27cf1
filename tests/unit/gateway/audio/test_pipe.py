"""The client's pipe: skip, resample, encode, whoever uses it."""

from collections.abc import AsyncIterator

import numpy as np
import pytest

from gateway.audio import ClientPipe, Pcm, PcmBlock, pieces
from gateway.audio.pipe import louder
from ttscommon.wire.messages import AudioChunk, Checkpoint, Tensor, WordTime

RATE = 16_000
WORD = WordTime("tide", 0.0, 0.1)


def chunk(start: int, samples: int, words: tuple[WordTime, ...] = (), lead: int = 0) -> AudioChunk:
    pcm = np.arange(start, start + samples).astype(np.int16)
    return AudioChunk("r", start, RATE, Tensor.of(pcm), words, (), Checkpoint(lead=lead))


class Blocks:
    """An encoder that makes something of every 100 samples."""

    def __init__(self) -> None:
        self._held = 0

    def feed(self, pcm: Pcm) -> bytes:
        blocks, self._held = divmod(self._held + len(pcm), 100)
        return b"B" * blocks

    def finish(self) -> bytes:
        return b"end"


async def all_of(
    *chunks: AudioChunk, rate: int = RATE, encoder: Blocks | None = None, skip: int = 0
) -> list[PcmBlock]:
    async def coming() -> AsyncIterator[AudioChunk]:
        for one in chunks:
            yield one

    return [piece async for piece in pieces(coming(), ClientPipe(RATE, rate, encoder, skip))]


async def test_what_the_client_has_is_skipped_and_its_words_are_not() -> None:
    found = await all_of(chunk(0, 100, (WORD,)), chunk(100, 50), skip=120)
    assert [(piece.samples, piece.words) for piece in found] == [(0, (WORD,)), (30, ())]
    assert found[1].data == np.arange(120, 150).astype("<i2").tobytes()


async def test_silence_in_front_is_left_out_and_words_are_that_much_earlier() -> None:
    word = WordTime("tide", 0.25, 0.5)
    found = await all_of(chunk(0, 100, (word,), lead=80), chunk(100, 50, lead=80))
    assert [piece.samples for piece in found] == [20, 50]
    assert b"".join(p.data for p in found) == np.arange(80, 150).astype("<i2").tobytes()
    (told,) = found[0].words
    assert (told.start_s, told.end_s) == (0.25 - 80 / RATE, 0.5 - 80 / RATE)


@pytest.mark.parametrize("heard", [1, 19, 20, 45])
@pytest.mark.parametrize("rate", [RATE, 8_000])
async def test_a_client_that_comes_back_gets_the_rest_of_what_it_was_sent(
    heard: int, rate: int
) -> None:
    chunks = chunk(0, 100, lead=80), chunk(100, 5_000, lead=80)
    whole = b"".join([p.data for p in await all_of(*chunks, rate=rate)])
    if rate == RATE:  # read from there on, by the request's own count
        rest = await all_of(chunk(heard, 5_100 - heard, lead=80))
    else:
        rest = await all_of(*chunks, rate=rate, skip=heard)
    assert b"".join([p.data for p in rest]) == whole[2 * heard :]


async def test_an_encoder_may_hold_samples_back_and_finishes_its_format() -> None:
    found = await all_of(chunk(0, 50), chunk(50, 70), encoder=Blocks())
    assert [(piece.samples, piece.data) for piece in found] == [(50, b""), (70, b"B"), (0, b"end")]


def test_a_gain_makes_it_louder_within_16_bits() -> None:
    pcm = np.array([-20_000, -3, 0, 3, 20_000], np.int16)
    assert louder(pcm, 2.0).tolist() == [-32_768, -6, 0, 6, 32_767]
    assert louder(pcm, 0.5).tolist() == [-10_000, -2, 0, 2, 10_000]
