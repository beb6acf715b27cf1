"""The vesper decoder's signal processing; its compiled loops are held to it by `test_hops`."""

import pytest
import torch

from ttsfamilies.vesper.codec.layers import BINS, FFT, HOP, PARTS, SAMPLE_RATE, WINDOWS
from ttsfamilies.vesper.codec.net import VesperCodecConfig
from ttsfamilies.vesper.codec.sound import PulseSynthesis


@pytest.mark.parametrize("hop", [300, 340, 400])
def test_pitch_and_formants_lie_lower_by_as_much_as_a_hop_is_longer(hop: int) -> None:
    """A filter with a peak at 2,000 Hz, around pulses at 200 Hz, for a second."""
    synthesis, hops, peak_hz, hz = PulseSynthesis(hop), 80, 2000.0, 200.0
    bins = torch.arange(BINS) * (SAMPLE_RATE / FFT)
    parts = torch.zeros(1, hops, PARTS, BINS)
    parts[..., 0, :] = -(((bins - peak_hz) / 150) ** 2)
    parts[..., 2, :] = -100.0
    with torch.inference_mode():
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
