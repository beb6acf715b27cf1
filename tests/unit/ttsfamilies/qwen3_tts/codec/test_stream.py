"""Streaming: any chunking, any batch, any takeover gives one shot's samples."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.random_cases import examples
from tests.unit.ttsfamilies.qwen3_tts.codec.tiny import SIZES, drawn
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Work
from ttsfamilies.base.codec.options import CodecOptions
from ttsfamilies.qwen3_tts.codec import Qwen3Codec, WindowedStream, Windows
from ttsfamilies.qwen3_tts.codec_net import CodecDecoder
from vocoder.pcm import to_pcm

FRAMES = 30


@pytest.fixture(scope="module")
def exact() -> CodecDecoder:
    return drawn(torch.float64)


def codes(seed: int, count: int = FRAMES) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 32, (count, 4), generator=generator)


def codec_of(net: CodecDecoder, windows: Windows | None = None) -> Qwen3Codec:
    how = CodecOptions((windows.size, windows.context) if windows else None)
    return Qwen3Codec("m", net, 24_000, how)


def opened(codec: Qwen3Codec) -> WindowedStream:
    return codec.open(SpeechRequest("r", "m", "", ""))


def advance(
    codec: Qwen3Codec, streams: Sequence[WindowedStream], parts: Sequence[Tensor]
) -> list[Tensor]:
    """The next frames of several streams."""
    frames = [{"codes": part.numpy().astype("int16")} for part in parts]
    works = [Work(s, f, final=False) for s, f in zip(streams, frames, strict=True)]
    return [torch.from_numpy(samples) for samples in codec.decode(works)]


def chunked(net: CodecDecoder, rows: Tensor, sizes: Sequence[int]) -> Tensor:
    codec = codec_of(net)
    stream = opened(codec)
    return torch.cat([advance(codec, [stream], [part])[0] for part in rows.split(list(sizes))])


@pytest.mark.slow
@examples(25)
@given(cuts=st.lists(st.integers(0, FRAMES), max_size=8))
def test_any_chunking_gives_one_shots_samples(exact: CodecDecoder, cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), FRAMES]
    sizes = [b - a for a, b in pairwise(edges)]
    difference = chunked(exact, codes(1), sizes) - exact(codes(1)[None])[0]
    assert difference.abs().max() < 1e-9


def test_in_float32_chunking_costs_less_than_1e_4() -> None:
    net = drawn(torch.float32)
    difference = chunked(net, codes(1), [1] * FRAMES) - net(codes(1)[None])[0]
    assert difference.abs().max() < 1e-4


def test_streams_of_different_ages_share_a_batch(exact: CodecDecoder) -> None:
    """Three streams: one began alone, one comes in pieces of its own, one comes late."""
    rows = [codes(seed) for seed in range(3)]
    counts = [(7, 0, 0), (5, 9, 0), (18, 20, 25), (0, 1, 5)]
    codec = codec_of(exact)
    streams = [opened(codec) for _ in rows]
    found: list[list[Tensor]] = [[], [], []]
    done = [0, 0, 0]
    for step in counts:
        parts = [row[at : at + n] for row, at, n in zip(rows, done, step, strict=True)]
        done = [at + n for at, n in zip(done, step, strict=True)]
        for kept, sound in zip(found, advance(codec, streams, parts), strict=True):
            kept.append(sound)
    for row, kept in zip(rows, found, strict=True):
        assert (torch.cat(kept) - exact(row[None])[0]).abs().max() < 1e-9


def test_a_prefix_changes_nothing_but_what_follows(exact: CodecDecoder) -> None:
    """A reference's frames stand in front, at negative positions: decoded, and not heard."""
    reference, spoken = codes(5, 9), codes(6, 12)
    codec = codec_of(exact)
    stream = opened(codec)
    advance(codec, [stream], [reference])
    heard = advance(codec, [stream], [spoken])[0]
    whole = exact(torch.cat((reference, spoken))[None])[0]
    assert (heard - whole[9 * SIZES.frame_samples :]).abs().max() < 1e-9
    assert (heard - exact(spoken[None])[0]).abs().max() > 1e-3


def test_beyond_its_context_a_decoder_forgets(exact: CodecDecoder) -> None:
    context = SIZES.context_frames
    whole, tail = codes(7, context + 4), exact.config.frame_samples * 4
    wanted = exact(whole[None])[0][-tail:]
    other = torch.cat((codes(8, 11), whole[-context - 4 :]))
    assert (exact(other[None])[0][-tail:] - wanted).abs().max() < 1e-9
    shorter = exact(whole[2:][None])[0][-tail:]
    assert (shorter - wanted).abs().max() > 1e-9


@pytest.mark.parametrize("windows", [Windows(10, 4), Windows(7, 0), Windows(4, 20)])
@pytest.mark.parametrize("chunk", [1, 3, 10, FRAMES])
def test_windows_depend_on_the_grid_and_not_on_the_chunks(
    exact: CodecDecoder, windows: Windows, chunk: int
) -> None:
    """Each window is decoded alone behind its left context, as the official package does it."""
    rows, wanted = codes(9), []
    for first, stop in windows.cut(0, FRAMES):
        start = windows.replay_from(first)
        sound = exact(rows[start:stop][None])[0]
        wanted.append(sound[(first - start) * SIZES.frame_samples :])
    codec = codec_of(exact, windows)
    stream = opened(codec)
    found = [advance(codec, [stream], [part])[0] for part in rows.split(chunk)]
    assert (torch.cat(found) - torch.cat(wanted)).abs().max() < 1e-9


def test_padding_of_a_batch_reaches_no_state(exact: CodecDecoder) -> None:
    codec = codec_of(exact)
    alone, together, long = (opened(codec) for _ in range(3))
    advance(codec, [alone], [codes(1)[:3]])
    advance(codec, [together, long], [codes(1)[:3], codes(2)[:20]])
    for name, mine in alone.row.state.items():
        other = together.row.state[name]
        assert torch.equal(mine, other) or (mine - other).abs().max() < 1e-12


def test_a_window_holds_frames() -> None:
    with pytest.raises(ValueError, match="a window holds frames"):
        Windows(0, 3)


def test_the_same_pieces_give_the_same_samples_and_others_stay_within_the_tolerance() -> None:
    net = drawn(torch.float32)
    tolerance = codec_of(net).spec.tolerance
    whole = to_pcm(chunked(net, codes(1), [FRAMES]).numpy()).astype(int)
    for size in (1, 3, 5, 15):
        sizes = [size] * (FRAMES // size)
        once, again = (to_pcm(chunked(net, codes(1), sizes).numpy()) for _ in range(2))
        assert (once == again).all()
        assert abs(once.astype(int) - whole).max() <= tolerance
