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
@pytest.mark.parametrize("chunk", [3, FRAMES])
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


def test_a_window_holds_frames() -> None:
    with pytest.raises(ValueError, match="a window holds frames"):
        Windows(0, 3)
