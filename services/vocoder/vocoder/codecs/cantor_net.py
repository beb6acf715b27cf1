"""The decoder of the cantor codec: codes at 25 Hz to sound at 16 kHz, causal and streamable.

A causal ConvNeXt turns codes into a mel spectrum, a second one turns the spectrum into a pitch
and two filters a hop of 10 ms; the filters shape a pulse train and noise in the STFT domain (a
source-filter vocoder with the spectral head of Vocos, Siuzdak 2023). Every window ends with its
hop, so the last TAIL samples wait for the windows to come and everything else is final.
"""

import math
from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ttscommon.nn import ConvNeXt

SAMPLE_RATE = 16_000
HOP = 160
FFT = 512
BINS = FFT // 2 + 1
TAIL = FFT - HOP
MELS = 80
HOPS_PER_FRAME = 4
FRAME_SAMPLES = HOP * HOPS_PER_FRAME
HIGHEST_HARMONIC_HZ = 7600.0
LOWEST_PITCH_HZ = 50.0
_PITCH_SCALE, _PITCH_OFFSET = 0.3, 5.0
_MASK = 0xFFFFFFFF


@dataclass(frozen=True)
class CantorCodecConfig:
    """Sizes of the decoder; the defaults are the shipped voice's."""

    codebooks: int = 4
    codebook_size: int = 512
    code_dim: int = 48
    decoder_dim: int = 256
    decoder_layers: int = 4
    decoder_kernel: int = 5
    decoder_expansion: int = 2
    vocoder_dim: int = 192
    vocoder_layers: int = 5
    vocoder_kernel: int = 7
    vocoder_expansion: int = 3


@dataclass
class State:
    """What a stream carries from chunk to chunk; tensors have no batch dimension.

    decoder_tails: [layers, kernel - 1, dim], vocoder_tails: the same, float32.
    source: [TAIL] float32, the last samples of the pulse train.
    overlap: [TAIL] float32, unfinished output.
    phase: [] float64, cycles of the oscillator.
    pitch: [] float32, Hz of the last hop, 0 when unvoiced.
    position: [] int64, samples decoded so far; key: [] int64, the noise generator's key.
    """

    decoder_tails: Tensor
    vocoder_tails: Tensor
    source: Tensor
    overlap: Tensor
    phase: Tensor
    pitch: Tensor
    position: Tensor
    key: Tensor


def stack(states: list[State]) -> State:
    """One State whose tensors have a leading batch dimension."""
    parts = {f.name: torch.stack([getattr(s, f.name) for s in states]) for f in fields(State)}
    return State(**parts)


def unstack(batch: State) -> list[State]:
    """The inverse of `stack`."""
    columns = [getattr(batch, f.name).unbind(0) for f in fields(State)]
    return [State(*values) for values in zip(*columns, strict=True)]


def _mix(x: Tensor) -> Tensor:
    # Multiplications of 32-bit words wrap in int64 without loss of the low bits that are kept.
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & _MASK
    x = ((x ^ (x >> 15)) * 0x846CA68B) & _MASK
    return x ^ (x >> 16)


def noise(key: Tensor, position: Tensor, count: int) -> Tensor:
    """White noise of unit variance that depends on key and absolute position alone.

    key, position: [batch] int64. Returns [batch, count] float32 for samples position ...
    position + count - 1. Hash: lowbias32 (Wellons, 2018), twice.
    """
    index = position[:, None] + torch.arange(count, device=key.device)
    mixed = _mix((_mix(index & _MASK) + key[:, None]) & _MASK)
    return (mixed.float() * (2 / 2**32) - 1) * math.sqrt(3)


class Filters(NamedTuple):
    """Pitch head [batch, hops, 2] and the three filter heads [batch, hops, 3 * BINS]."""

    pitch: Tensor
    shape: Tensor


class CantorDecoder(nn.Module):
    """codes [batch, frames, codebooks] int64 -> sound [batch, frames * 640] float32."""

    window: Tensor
    gain: Tensor

    def __init__(self, config: CantorCodecConfig | None = None) -> None:
        super().__init__()
        c = config or CantorCodecConfig()
        self.config = c
        self.codes = nn.Parameter(torch.zeros(c.codebooks, c.codebook_size, c.code_dim))
        self.decoder_in = nn.Linear(c.code_dim, c.decoder_dim)
        self.decoder = nn.ModuleList(
            ConvNeXt(c.decoder_dim, c.decoder_kernel, c.decoder_expansion)
            for _ in range(c.decoder_layers)
        )
        self.decoder_out = nn.Linear(c.decoder_dim, MELS * HOPS_PER_FRAME)
        self.vocoder_in = nn.Linear(MELS, c.vocoder_dim)
        self.vocoder = nn.ModuleList(
            ConvNeXt(c.vocoder_dim, c.vocoder_kernel, c.vocoder_expansion)
            for _ in range(c.vocoder_layers)
        )
        self.vocoder_norm = nn.LayerNorm(c.vocoder_dim)
        self.pitch_head = nn.Linear(c.vocoder_dim, 2)
        self.filter_head = nn.Linear(c.vocoder_dim, 3 * BINS)
        window = torch.hann_window(FFT)
        self.register_buffer("window", window, persistent=False)
        pieces = nn.functional.pad(window**2, (0, -FFT % HOP)).view(-1, HOP)
        self.register_buffer("gain", 1 / pieces.sum(0), persistent=False)

    def embed(self, codes: Tensor) -> Tensor:
        """Sum of the codebooks' entries, [batch, frames, code_dim]."""
        chosen = [table[codes[..., i]] for i, table in enumerate(self.codes)]
        return torch.stack(chosen).sum(0)

    def mel(self, embedded: Tensor) -> Tensor:
        """[batch, frames, code_dim] -> normalised log mel [batch, 4 * frames, 80]."""
        x = self.decoder_in(embedded)
        for block in self.decoder:
            x = block(x)
        return self._hops(x)

    def filters(self, mel: Tensor) -> Filters:
        """Pitch and filters of each hop, from a mel spectrum without history."""
        x = self.vocoder_in(mel)
        for block in self.vocoder:
            x = block(x)
        return self._heads(x)

    @property
    def context_frames(self) -> int:
        """So many frames back the networks look; before them they might have heard anything."""
        c = self.config
        hops = c.vocoder_layers * (c.vocoder_kernel - 1)
        return c.decoder_layers * (c.decoder_kernel - 1) + -(-hops // HOPS_PER_FRAME)

    def new_state(self, seed: int = 0, frame: int = 0) -> State:
        """The state of a stream of which nothing before `frame` is known. Any integer is a seed."""
        c, like = self.config, self.codes
        zero = torch.zeros((), device=like.device)
        key = torch.tensor((seed ^ (seed >> 32)) & _MASK, device=like.device)
        return State(
            like.new_zeros(c.decoder_layers, c.decoder_kernel - 1, c.decoder_dim),
            like.new_zeros(c.vocoder_layers, c.vocoder_kernel - 1, c.vocoder_dim),
            zero.new_zeros(TAIL),
            zero.new_zeros(TAIL),
            zero.double(),
            zero,
            torch.full_like(key, frame * FRAME_SAMPLES),
            _mix(key),
        )

    def decode(self, codes: Tensor, lengths: Tensor, state: State) -> tuple[Tensor, State]:
        """One chunk of a batch of streams, in fixed shapes (fit for CUDA graphs).

        codes: [batch, frames, codebooks], right padded; lengths: [batch] int64 real frames.
        state: batched, see `stack`. Returns finished samples [batch, frames * 640], the first
        of them TAIL samples before the chunk's own, valid up to lengths * 640, and the state.
        """
        embedded, tails = self.decoder_in(self.embed(codes)), []
        for block, tail in zip(self.decoder, state.decoder_tails.unbind(1), strict=True):
            assert isinstance(block, ConvNeXt)
            embedded, tail = block.step(embedded, lengths, tail)
            tails.append(tail)
        x, hops, vocoder_tails = self.vocoder_in(self._hops(embedded)), lengths * 4, []
        for block, tail in zip(self.vocoder, state.vocoder_tails.unbind(1), strict=True):
            assert isinstance(block, ConvNeXt)
            x, tail = block.step(x, hops, tail)
            vocoder_tails.append(tail)
        heads = self._heads(x)
        pitch = self.pitch_hz(heads.pitch)
        pulse, phase = self.pulses(pitch, state.pitch, state.phase, hops)
        pulse = torch.cat((state.source, pulse), 1)
        hiss = noise(state.key, state.position - TAIL, pulse.shape[1])
        windows = self._shaped(heads, pulse, hiss)
        samples, overlap = self._overlap_add(windows, hops, state.overlap)
        end = lengths * FRAME_SAMPLES
        around = torch.cat((state.pitch[:, None], pitch), 1)
        return samples, State(
            torch.stack(tails, 1),
            torch.stack(vocoder_tails, 1),
            pulse.gather(1, end[:, None] + torch.arange(TAIL, device=end.device)),
            overlap,
            phase,
            around.gather(1, hops[:, None])[:, 0],
            state.position + end,
            state.key,
        )

    @torch.inference_mode()
    def step(
        self, codes: Tensor, lengths: Tensor, states: list[State], final: Tensor
    ) -> list[Tensor]:
        """Decode one chunk of each stream and advance its state in place.

        codes: [batch, frames, codebooks] int64, right padded; lengths: [batch]; final: [batch]
        bool, whether the stream ends with this chunk. Returns what may be played now, one 1-D
        float32 tensor a stream: TAIL samples are held back until `final`.
        """
        before = stack(states)
        samples, after = self.decode(codes, lengths, before)
        ready = []
        for i, new in enumerate(unstack(after)):
            piece = samples[i, : int(lengths[i]) * FRAME_SAMPLES]
            if int(before.position[i]) == 0:
                piece = piece[TAIL:]
            if bool(final[i]) and int(new.position) > 0:
                ending = new.overlap * self._steady_gain(TAIL)
                piece = torch.cat((piece, ending))
            ready.append(piece.clone())
            for field in fields(State):
                setattr(states[i], field.name, getattr(new, field.name))
        return ready

    def forward(self, codes: Tensor, seed: int = 0) -> Tensor:
        """The whole of one stream at once: [1, frames, codebooks] -> [1, frames * 640]."""
        lengths = torch.tensor([codes.shape[1]], device=codes.device)
        samples, state = self.decode(codes, lengths, stack([self.new_state(seed)]))
        ending = state.overlap * self._steady_gain(TAIL)
        return torch.cat((samples[:, TAIL:], ending), 1)

    def render(self, heads: Filters, pitch: Tensor, key: Tensor) -> Tensor:
        """Sound of a segment from given pitch [batch, hops] in Hz: the training path."""
        batch, hops = pitch.shape
        lengths = torch.full((batch,), hops, device=pitch.device)
        zero = pitch.new_zeros(batch)
        pulse, _ = self.pulses(pitch, zero, zero.double(), lengths)
        pulse = nn.functional.pad(pulse, (TAIL, 0))
        start = torch.full_like(key, -TAIL)
        windows = self._shaped(heads, pulse, noise(key, start, pulse.shape[1]))
        samples, overlap = self._overlap_add(windows, lengths, pitch.new_zeros(batch, TAIL))
        return torch.cat((samples[:, TAIL:], overlap * self._steady_gain(TAIL)), 1)

    def pitch_hz(self, head: Tensor) -> Tensor:
        """[batch, hops, 2] -> [batch, hops] Hz, 0 where the voicing logit is negative."""
        hz = torch.exp(head[..., 0].float() * _PITCH_SCALE + _PITCH_OFFSET)
        return hz.clamp(LOWEST_PITCH_HZ, 600.0) * (head[..., 1] > 0)

    def pitch_target(self, hz: Tensor) -> Tensor:
        """What the pitch head should say for a pitch in Hz."""
        return (torch.log(hz.clamp_min(LOWEST_PITCH_HZ)) - _PITCH_OFFSET) / _PITCH_SCALE

    def pulses(
        self, pitch: Tensor, before: Tensor, phase: Tensor, hops: Tensor
    ) -> tuple[Tensor, Tensor]:
        """A band-limited pulse train [batch, hops * 160] and the phase after `hops` hops.

        pitch: [batch, hops] Hz; before: [batch] Hz of the hop before; phase: [batch] float64
        cycles. Pitch glides within voiced hops; each voiced stretch begins at phase 0, which
        also keeps rounding differences from adding up.
        """
        previous = torch.cat((before[:, None], pitch[:, :-1]), 1)
        onset = (pitch > 0) & (previous <= 0)
        begin = torch.where(previous > 0, previous, pitch).double()
        ramp = (torch.arange(HOP, device=pitch.device, dtype=torch.float64) + 1) / HOP
        glide = begin[..., None] + (pitch.double() - begin)[..., None] * ramp
        cycles = (glide * (pitch > 0)[..., None] / SAMPLE_RATE).cumsum(-1)
        ends = torch.cat((phase[:, None], cycles[..., -1]), 1).cumsum(1)
        starts = ends[:, :-1]
        index = torch.arange(1, pitch.shape[1] + 1, device=pitch.device) * onset
        since = index.cummax(1).values
        bases = torch.cat((torch.zeros_like(phase)[:, None], starts), 1).gather(1, since)
        fraction = (starts - bases)[..., None] + cycles
        all_ends = torch.cat((phase[:, None], ends[:, 1:] - bases), 1)
        after = all_ends.gather(1, hops[:, None])[:, 0]
        # Centred on the pulse, where float32 is finest: near 1 the kernel would amplify rounding.
        centred = (fraction - fraction.round()).float()
        return self._pulse(centred, pitch), after - after.floor()

    def _pulse(self, fraction: Tensor, pitch: Tensor) -> Tensor:
        # Sum of cosines 1..n in closed form (Dirichlet's kernel), scaled to a constant power.
        harmonics = torch.floor(HIGHEST_HARMONIC_HZ / pitch.clamp_min(LOWEST_PITCH_HZ))[..., None]
        angle = math.pi * fraction
        divisor = torch.sin(angle)
        near = divisor.abs() < 1e-6
        ratio = torch.sin((2 * harmonics + 1) * angle) / torch.where(near, 1.0, divisor)
        kernel = torch.where(near, 2 * harmonics + 1, ratio)
        return ((kernel - 1) / 2 / harmonics.sqrt() * (pitch > 0)[..., None]).flatten(1)

    def _hops(self, x: Tensor) -> Tensor:
        out: Tensor = self.decoder_out(x)
        return out.reshape(x.shape[0], x.shape[1] * HOPS_PER_FRAME, MELS)

    def _heads(self, x: Tensor) -> Filters:
        x = self.vocoder_norm(x)
        return Filters(self.pitch_head(x).float(), self.filter_head(x).float())

    def _shaped(self, heads: Filters, pulse: Tensor, hiss: Tensor) -> Tensor:
        """Windows [batch, hops, FFT] of the filtered sources, each [batch, TAIL + samples]."""
        voiced, unvoiced, angle = heads.shape.split(BINS, -1)
        harmonic = torch.polar(torch.exp(voiced.clamp(max=5) - 3), angle)
        airy = torch.exp(unvoiced.clamp(max=5) - 4)
        spectrum = self._spectrum(pulse) * harmonic + self._spectrum(hiss) * airy
        return torch.fft.irfft(spectrum, FFT) * self.window

    def _spectrum(self, source: Tensor) -> Tensor:
        return torch.fft.rfft(source.unfold(1, FFT, HOP) * self.window, FFT)

    def _overlap_add(self, windows: Tensor, hops: Tensor, overlap: Tensor) -> tuple[Tensor, Tensor]:
        real = torch.arange(windows.shape[1], device=hops.device) < hops[:, None]
        windows = windows * real[..., None]
        length = windows.shape[1] * HOP + TAIL
        folded = nn.functional.fold(
            windows.transpose(1, 2), (1, length), (1, FFT), stride=(1, HOP)
        )[:, 0, 0]
        folded = torch.cat((folded[:, :TAIL] + overlap, folded[:, TAIL:]), 1)
        rest = hops[:, None] * HOP + torch.arange(TAIL, device=hops.device)
        samples = folded[:, : length - TAIL]
        return samples * self._steady_gain(samples.shape[1]), folded.gather(1, rest)

    def _steady_gain(self, count: int) -> Tensor:
        return self.gain.repeat(-(-count // HOP))[:count]
