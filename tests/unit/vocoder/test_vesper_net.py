"""The vesper decoder: the same bits in any chunks and any batch."""

import pytest
import torch
from torch import Tensor

from tests.unit.vocoder.tiny_vesper import ENTRIES, drawn, tiny
from ttscommon.engine.nn import halve
from ttscommon.wire.errors import UnknownVoice
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.vesper.codec.net import VesperCodecConfig, VesperDecoder

LEAST_FRAMES = 2
PITCHED, UNVOICED = 100, 0


DECODER = drawn()


def _codes(frames: int, seed: int) -> Tensor:
    return torch.randint(0, ENTRIES, (frames, 4), generator=torch.Generator().manual_seed(seed))


def _streamed(
    codes: Tensor,
    sizes: list[int],
    level: float = 0.0,
    span: float = 1.0,
    decoder: VesperDecoder = DECODER,
) -> Tensor:
    state, sound, at = decoder.new_state(level, span), [], 0
    for number, size in enumerate(sizes, 1):
        chunk, at = codes[at : at + size], at + size
        sound += decoder.step([chunk], [state], [number == len(sizes)], LEAST_FRAMES)
    return torch.cat(sound)


def test_float16_weights_give_the_same_bits_in_any_chunks() -> None:
    half, codes = drawn(), _codes(23, 1)
    if not halve(half):
        pytest.skip("nothing can be compiled")
    whole = _streamed(codes, [23], decoder=half)
    assert torch.equal(_streamed(codes, [1, 4, 2, 16], decoder=half), whole)
    assert 0 < (whole - _streamed(codes, [23])).abs().max() < 1e-2


def test_whole_utterances_sound_as_streamed_ones() -> None:
    codes = _codes(12, 5)
    with torch.no_grad():
        whole = DECODER(codes[None], 0.1, 1.2)[0]
    streamed = _streamed(codes, [5, 7], 0.1, 1.2)
    assert (whole - streamed).abs().max() < 1e-5


def test_a_batch_gives_every_stream_the_bits_it_has_alone() -> None:
    lengths = (9, 4, 17, 1)
    streams = [_codes(frames, 10 + frames) for frames in lengths]
    states = [DECODER.new_state(0.05 * i, 1 + 0.1 * i) for i in range(4)]
    sound: list[list[Tensor]] = [[] for _ in streams]
    for first in range(0, 18, 3):
        chunks = [codes[first : first + 3] for codes in streams]
        final = [first + 3 >= len(codes) > first for codes in streams]
        active = [i for i, codes in enumerate(streams) if first < len(codes)]
        made = DECODER.step(
            [chunks[i] for i in active],
            [states[i] for i in active],
            [final[i] for i in active],
            LEAST_FRAMES,
        )
        for i, piece in zip(active, made, strict=True):
            sound[i].append(piece)
    for i, codes in enumerate(streams):
        alone = _streamed(codes, [len(codes)], 0.05 * i, 1 + 0.1 * i)
        assert torch.equal(torch.cat(sound[i]), alone)


def test_a_wider_range_moves_pitch_away_from_the_middle() -> None:
    codes, one = torch.tensor([[PITCHED] * 2]), torch.ones(1)
    plain = DECODER.pitch(codes, 0 * one, one)
    wide = DECODER.pitch(codes, 0 * one, 2 * one)
    high = DECODER.pitch(codes, 0.5 * one, one)
    assert torch.allclose((wide / 187).log(), 2 * (plain / 187).log(), atol=1e-4)
    assert torch.allclose(high, plain * torch.tensor(0.5).exp(), rtol=1e-4)
    assert DECODER.pitch(torch.tensor([[UNVOICED]]), 0.5 * one, 2 * one).abs().max() == 0


def test_a_decoder_that_is_not_whole_frames_late_is_refused() -> None:
    with pytest.raises(ValueError, match="whole number of frames"):
        VesperCodecConfig(ahead=(1,) * 9)


def test_an_unknown_voice_is_refused() -> None:
    with pytest.raises(UnknownVoice):
        tiny().open(SpeechRequest("r", "vesper", "nobody", "text"))
