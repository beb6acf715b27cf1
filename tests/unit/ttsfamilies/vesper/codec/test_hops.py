"""The vesper decoder in compiled calls: against plain torch, and the bits of its streams."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from ttscommon.engine.kernels.choice import compiles, only
from ttsfamilies.vesper.codec.net import VesperCodecConfig, VesperDecoder

if not compiles():
    pytest.skip("nothing can be compiled", allow_module_level=True)

from ttsfamilies.vesper.codec.hops import HopDecoder

Floats = NDArray[np.float32]
Codes = NDArray[np.int64]
FRAMES, ENTRIES = 24, 20


@pytest.fixture(scope="module", params=[300, 340])
def plain(request: pytest.FixtureRequest) -> VesperDecoder:
    """Of a voice's own vocal tract, and of a longer one."""
    torch.manual_seed(0)
    small = VesperCodecConfig(codebook_size=ENTRIES, text_codes=ENTRIES, text_dim=14, dim=32)
    config = replace(small, hop=request.param)
    decoder = VesperDecoder(config).eval()
    with torch.no_grad():
        decoder.pitch_table.normal_()[..., 1] = torch.arange(ENTRIES)[:, None] % 3
        for table in (decoder.energy_table, decoder.text_table):
            table.normal_()
        for block in decoder.blocks:
            nn.init.normal_(block.scale, std=0.3)  # type: ignore[arg-type]
    return decoder


@pytest.fixture(scope="module")
def decoder(plain: VesperDecoder) -> HopDecoder:
    return HopDecoder(plain)


def codes(seed: int, frames: int = FRAMES) -> Codes:
    return np.random.default_rng(seed).integers(0, ENTRIES, (frames, 4))


def spoken(decoder: HopDecoder, given: Codes, cuts: Sequence[int], others: int = 0) -> Floats:
    """A stream in chunks of so many frames, among others whose chunks are longer and longer; the
    last of them makes no numbers.
    """
    state = decoder.new_state()
    beside = [decoder.new_state(0.1, 1.2 if i + 1 < others else math.nan) for i in range(others)]
    pieces, at = [], 0
    for count in cuts:
        chunks = [codes(at + i, i) for i in range(others)]
        final = at + count == len(given)
        got = decoder.step(
            [*chunks, given[at : at + count]], [*beside, state], [*[False] * others, final]
        )
        pieces.append(got[-1])
        at += count
    return np.concatenate(pieces)


@pytest.mark.parametrize(("level", "span"), [(0.0, 1.0), (0.3, 0.8)])
def test_it_says_what_plain_torch_says(
    plain: VesperDecoder, decoder: HopDecoder, level: float, span: float
) -> None:
    given = codes(1)
    with torch.inference_mode(), only("torch"):
        expected = plain(torch.from_numpy(given)[None], level, span)[0].numpy()
    (got,) = decoder.step([given], [decoder.new_state(level, span)], [True])
    assert got.shape == expected.shape == (FRAMES * plain.config.frame_samples,)
    assert (got - expected).std() < 2e-3 * expected.std()


@pytest.mark.parametrize("cuts", [[1] * FRAMES, [2, 1, 1, 6, 14], [3, 0, 21], [20, 0, 4]])
def test_a_stream_has_the_same_bits_in_any_company_and_chunks(
    decoder: HopDecoder, cuts: list[int]
) -> None:
    whole = spoken(decoder, codes(1), [FRAMES])
    for others in (0, 4):
        got = spoken(decoder, codes(1), cuts, others)
        np.testing.assert_array_equal(got, whole[: len(got)])
        assert len(got) == len(whole)


def test_a_stream_that_begins_late_settles(plain: VesperDecoder, decoder: HopDecoder) -> None:
    """As a successor that goes on from codes and a phase."""
    given, begin = codes(1, 60), 40
    whole, state = spoken(decoder, given, [60]), decoder.new_state()
    decoder.step([given[:begin]], [state], [False])
    late = decoder.new_state(frame=0)
    context = 20
    decoder.step([given[begin - context : begin]], [late], [False])
    late.phase = state.phase
    (got,) = decoder.step([given[begin:]], [late], [True])
    settled = 3 * plain.config.frame_samples
    np.testing.assert_array_equal(got[settled:], whole[-len(got) :][settled:])
