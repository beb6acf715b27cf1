"""The vesper decoder's signal processing, compiled for processors, against plain torch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ttscommon.engine.kernels.choice import only
from ttsfamilies.vesper.codec.layers import BINS, FFT, HOP, PARTS, SAMPLE_RATE, WINDOWS
from ttsfamilies.vesper.codec.net import VesperCodecConfig
from ttsfamilies.vesper.codec.sound import PulseSynthesis, filtered

ROWS, HOPS = 3, 4
SYNTHESIS = PulseSynthesis()
Part = Callable[..., Tensor | tuple[Tensor, Tensor]]

PARTS_OF_IT: dict[str, Part] = {
    "pulses": SYNTHESIS.pulses,
    "filtered": filtered,
    "overlap_add": SYNTHESIS.overlap_add,
}


def inputs(name: str) -> tuple[Tensor, ...]:
    """Of each row, voiced and not, loud beyond the limit, with phases of many turns."""
    g = torch.Generator().manual_seed(0)
    if name == "pulses":
        hz = 60 + 400 * torch.rand(ROWS, HOPS + 2, generator=g)
        hz[1, 1:3] = 0.0
        return hz, torch.tensor([HOPS, 0, 2]), torch.tensor([0, 123, 2**32 - 1])
    if name == "overlap_add":
        return (torch.randn(ROWS, WINDOWS - 1 + HOPS, FFT, generator=g),)
    parts = 3 * torch.randn(ROWS, HOPS, PARTS * BINS, generator=g)
    parts[..., 3 * BINS :] *= 100
    pulses = torch.randn(ROWS, HOPS, BINS, dtype=torch.complex64, generator=g)
    return parts, pulses


def run(name: str, version: str, *given: Tensor) -> tuple[Tensor, ...]:
    with torch.inference_mode(), only(version):  # type: ignore[arg-type]
        out = PARTS_OF_IT[name](*(x.clone() for x in given))
    return out if isinstance(out, tuple) else (out,)


@pytest.mark.parametrize("name", PARTS_OF_IT)
def test_both_versions_say_the_same(name: str) -> None:
    given = inputs(name)
    for got, expected in zip(run(name, "numba", *given), run(name, "torch", *given), strict=True):
        loudest = expected.abs().max()
        assert got.shape == expected.shape
        assert (got - expected).abs().max() <= 1e-6 * loudest
    if name != "filtered":
        assert torch.equal(got, expected)  # the phase, and what is only added up


@pytest.mark.parametrize("name", PARTS_OF_IT)
def test_a_row_has_the_same_bits_in_any_company(name: str) -> None:
    given = inputs(name)
    for row in range(ROWS):
        alone = run(name, "numba", *(x[row : row + 1] for x in given))
        for got, expected in zip(alone, run(name, "numba", *given), strict=True):
            assert torch.equal(got[0], expected[row])


@pytest.mark.parametrize("name", ["filtered", "overlap_add"])
def test_a_hop_has_the_same_bits_in_any_chunk(name: str) -> None:
    given = inputs(name)
    (whole,) = run(name, "numba", *given)
    (late,) = run(name, "numba", *(x[:, 2:] for x in given))
    assert torch.equal(late, whole[:, -late.shape[1] :])


def test_pulses_have_the_same_bits_in_any_chunk() -> None:
    hz, _, phase = inputs("pulses")
    hops = torch.full((ROWS,), HOPS)
    whole, end = run("pulses", "numba", hz, hops, phase)
    early, between = run("pulses", "numba", hz[:, :3], torch.ones_like(hops), phase)
    late, after = run("pulses", "numba", hz[:, 1:], hops - 1, between)
    assert torch.equal(torch.cat((early, late), 1), whole)
    assert torch.equal(after, end)
    assert whole.shape == (ROWS, HOPS * HOP)


@pytest.mark.parametrize("name", ["filtered", "overlap_add"])
def test_what_is_not_a_number_stays_in_its_row(name: str) -> None:
    first, *others = inputs(name)
    (expected,) = run(name, "numba", first, *others)
    first[1] = torch.nan
    (got,) = run(name, "numba", first, *others)
    assert got[1].isnan().all()
    assert torch.equal(got[[0, 2]], expected[[0, 2]])


def test_a_pitch_that_is_not_a_number_stays_in_its_row() -> None:
    hz, hops, phase = inputs("pulses")
    expected, ends = run("pulses", "numba", hz, hops, phase)
    hz[1] = torch.nan
    got, after = run("pulses", "numba", hz, hops, phase)
    assert got[1].isnan().all()
    assert torch.equal(got[[0, 2]], expected[[0, 2]])
    assert torch.equal(after[[0, 2]], ends[[0, 2]])


@pytest.mark.parametrize("version", ["numba", "torch"])
@pytest.mark.parametrize("hop", [300, 340, 400])
def test_pitch_and_formants_lie_lower_by_as_much_as_a_hop_is_longer(hop: int, version: str) -> None:
    """A filter with a peak at 2,000 Hz, around pulses at 200 Hz, for a second."""
    synthesis, hops, peak_hz, hz = PulseSynthesis(hop), 80, 2000.0, 200.0
    bins = torch.arange(BINS) * (SAMPLE_RATE / FFT)
    parts = torch.zeros(1, hops, PARTS, BINS)
    parts[..., 0, :] = -(((bins - peak_hz) / 150) ** 2)
    parts[..., 2, :] = -100.0
    with torch.inference_mode(), only(version):  # type: ignore[arg-type]
        around, count = torch.full((1, hops + 2), hz), torch.tensor([hops])
        pulses, _ = synthesis.pulses(around, count, torch.tensor([0]))
        source = torch.nn.functional.pad(pulses, (0, (WINDOWS - 1) * hop))
        windows = synthesis.windows(parts.flatten(2), source)
        (sound,) = synthesis.overlap_add(windows)
    middle = sound[len(sound) // 2 - SAMPLE_RATE // 4 : len(sound) // 2 + SAMPLE_RATE // 4]
    loud = torch.fft.rfft(middle * torch.hann_window(len(middle))).abs()
    heard = torch.arange(len(loud)) * (SAMPLE_RATE / len(middle))
    lower = HOP / hop
    assert heard[loud.argmax()] == pytest.approx(peak_hz * lower, abs=4)
    others = loud.masked_fill((heard - peak_hz * lower).abs() < 0.5 * hz * lower, 0.0)
    beside = float(heard[others.argmax()])
    assert abs(beside - peak_hz * lower) == pytest.approx(hz * lower, abs=4)


def test_shorter_hops_than_the_decoder_learned_are_refused() -> None:
    with pytest.raises(ValueError, match="no room"):
        VesperCodecConfig(hop=299)
