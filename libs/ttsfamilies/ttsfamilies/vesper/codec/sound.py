"""From spectra to sound: pulses at a pitch, filtered in the STFT domain, and overlap-added."""

import math

import torch
from torch import Tensor, nn

from ttsfamilies.vesper.codec.layers import (
    BINS,
    CYCLE,
    HIGHEST_HARMONIC_HZ,
    HOP,
    HOPS_PER_S,
    LOUDEST,
    VOICED_HZ,
    WINDOWS,
)


class PulseSynthesis(nn.Module):
    """The signal processing of hibari's decoder; no parameters, nothing carried.

    hop: samples that a hop is spread over. Of more than 300, what the decoder says lasts longer
    and lies lower by their quotient, pitch and formants alike: a longer vocal tract.
    """

    window: Tensor
    gain: Tensor

    def __init__(self, hop: int = HOP) -> None:
        super().__init__()
        self.hop, self.fft = hop, WINDOWS * hop
        window = torch.hann_window(self.fft)
        self.register_buffer("window", window, persistent=False)
        self.register_buffer("gain", 1 / (window.view(-1, hop) ** 2).sum(0), persistent=False)

    def pulses(self, around: Tensor, hops: Tensor, phase: Tensor) -> tuple[Tensor, Tensor]:
        """The pulses of n hops [batch, n * hop], and the phase after `hops` [batch] of them.

        around: [batch, n + 2] Hz of these hops, of the one before and the one after; phase:
        [batch] int64, 2**-32 cycles. Counted in whole numbers, the phase adds up to the same bits
        however a stream is cut into chunks.
        """
        before, here, after = around[:, :-2], around[:, 1:-1], around[:, 2:]
        place = (torch.arange(self.hop, device=around.device) + 0.5) / self.hop
        left = before[..., None] * (0.5 - place) + here[..., None] * (0.5 + place)
        right = here[..., None] * (1.5 - place) + after[..., None] * (place - 0.5)
        hz = torch.where(place < 0.5, left, right)
        voiced, hz = hz > VOICED_HZ, hz.clamp_min(VOICED_HZ)
        cycles = (hz.double() / (HOPS_PER_S * self.hop)).cumsum(-1)
        steps = (cycles[..., -1] * CYCLE).round().long()
        ends = torch.cat((phase[:, None], steps), 1).cumsum(1) % CYCLE
        turned = ends[:, :-1, None].double() / CYCLE + cycles
        pulse = _pulse((turned - turned.round()).float(), hz) * voiced
        return pulse.flatten(1), ends.gather(1, hops[:, None])[:, 0]

    def windows(self, parts: Tensor, source: Tensor) -> Tensor:
        """Windows of sound [batch, hops, fft] from spectral parts and the pulses around them."""
        pulses = source.unfold(1, self.fft, self.hop) * (self.window / self.hop)
        spectrum = filtered(parts, torch.fft.rfft(pulses))
        return torch.fft.irfft(spectrum, self.fft) * self.window

    def overlap_add(self, windows: Tensor) -> Tensor:
        """[batch, 3 + hops, fft] -> [batch, hops * hop]; always summed from the oldest on."""
        pieces = windows.unflatten(-1, (WINDOWS, self.hop))
        count = windows.shape[1] - WINDOWS + 1
        total = pieces[:, :count, WINDOWS - 1]
        for place in range(1, WINDOWS):
            total = total + pieces[:, place : place + count, WINDOWS - 1 - place]
        return (total * self.gain).flatten(1)


def filtered(parts: Tensor, pulses: Tensor) -> Tensor:
    """Spectra of sound [batch, hops, BINS] from spectral parts and the pulses' spectra.

    pulses: [batch, hops, BINS or more], of which those above are left out.
    The parts [batch, hops, PARTS * BINS] are of each bin: log gain and turn of what is voiced, log
    amplitude and phase of what is not.
    """
    voiced, turn, free, phase = parts.split(BINS, -1)
    filters = torch.polar(voiced.clamp(max=LOUDEST).exp(), math.pi * torch.tanh(turn))
    spectrum = _product(pulses[..., :BINS], filters)
    return spectrum + torch.polar(free.clamp(max=LOUDEST).exp(), phase)


def _product(a: Tensor, b: Tensor) -> Tensor:
    """a * b of complex numbers, by parts.

    torch's own product rounds the last numbers of a tensor, which fill no vector register, in
    another way than those before them, so that bits would depend on how much is computed at once.
    """
    real = a.real * b.real - a.imag * b.imag
    return torch.complex(real, a.real * b.imag + a.imag * b.real)


def _pulse(turned: Tensor, hz: Tensor) -> Tensor:
    """Unit cosines of all harmonics up to the highest, in closed form (Dirichlet's kernel).

    turned: cycles, centred on the pulse, where float32 is finest.
    """
    angle = math.pi * turned
    order = 2 * torch.floor(HIGHEST_HARMONIC_HZ / hz) + 1
    divisor = torch.sin(angle)
    near = divisor.abs() < 1e-3
    ratio = torch.sin(order * angle) / torch.where(near, 1.0, divisor)
    return (torch.where(near, order, ratio) - 1) / 2
