"""The decoder of the vesper codec: codes at 20 Hz to sound at 24 kHz, 150 ms behind its input.

Codebooks 0 and 1 hold pitch and energy of a frame's four hops, 2 and 3 the text features of its
two units. A ConvNeXt over hops (hibari's decoder, Apache-2.0, with its future cut short) gives two
spectra a hop: a filter for a pulse train at the pitch, and one with a phase of its own, summed in
the STFT domain and overlap-added.

Every layer is causal and answers `ahead` hops late, so the decoder as a whole is causal and late:
after n frames, n - late_frames frames of sound are final. Before and after a stream there is
silence: it begins in the state that silence leaves, and ends with late_frames frames of it. The
pulses' phase is counted in whole numbers, so that adding it up gives the same bits however a
stream is cut into chunks.
"""

import math
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.kernels.convnext import tail_after
from ttsfamilies.vesper.codec.layers import BINS, HOP, PARTS, WINDOWS, LateConvNeXt, through
from ttsfamilies.vesper.codec.sound import PulseSynthesis

CODEBOOKS: Final = 4
HOPS_PER_FRAME: Final = 4
FRAME_SAMPLES: Final = HOP * HOPS_PER_FRAME
UNITS_PER_FRAME: Final = 2
MIDDLE_HZ: Final = 187.0
"""The speaker's median pitch, around which a preset's range is wider or narrower."""
_PITCH_SCALE: Final = 4.0
_PITCH_UNIT_HZ: Final = 200.0


@dataclass(frozen=True)
class VesperCodecConfig:
    """Sizes of the decoder; `ahead` are the hops each layer looks ahead, the first one's first.

    codebook_size: entries of codebooks 0 and 1; text_codes: of codebooks 2 and 3. hop: see
    `PulseSynthesis`.
    """

    codebook_size: int = 512
    text_codes: int = 2048
    text_dim: int = 128
    dim: int = 256
    expansion: int = 3
    kernel: int = 7
    ahead: tuple[int, ...] = (3, 1, 1, 1, 1, 1, 1, 1, 0)
    hop: int = HOP

    def __post_init__(self) -> None:
        if self.hop < HOP:
            raise ValueError("sound of shorter hops has no room for the decoder's bins")
        if (sum(self.ahead) + WINDOWS // 2) % HOPS_PER_FRAME:
            raise ValueError("the decoder is a whole number of frames late")

    @property
    def inputs(self) -> int:
        return self.text_dim + 2

    @property
    def frame_samples(self) -> int:
        return self.hop * HOPS_PER_FRAME

    @property
    def settle_samples(self) -> int:
        """Sound of a stream that was given its phase late is right after so many samples."""
        return 2 * self.reach

    @property
    def reach(self) -> int:
        """Samples of a window behind its first hop."""
        return (WINDOWS - 1) * self.hop

    @property
    def late_hops(self) -> int:
        """How many hops a layer's last output is behind the newest input."""
        return sum(self.ahead)

    @property
    def late_frames(self) -> int:
        """How many frames of sound are not final yet: the layers' delay and half a window."""
        return (self.late_hops + WINDOWS // 2) // HOPS_PER_FRAME


@dataclass
class DecoderState:
    """What a stream carries from chunk to chunk; tensors have no batch dimension.

    inputs: [kernel - 1, inputs] and tails: [layers - 1, kernel - 1, dim], float32, the last inputs
    of each layer. f0: [late hops] Hz, the newest. source: [fft - hop] the last pulses.
    windows: [3, fft] the last windows of sound. phase: [] int64, 2**-32 cycles. frame: [] int64,
    frames decoded. level, span: [] float32, the preset's change of log pitch and its range.
    """

    inputs: Tensor
    tails: Tensor
    f0: Tensor
    source: Tensor
    windows: Tensor
    phase: Tensor
    frame: Tensor
    level: Tensor
    span: Tensor


def stack(states: list[DecoderState]) -> DecoderState:
    """One State whose tensors have a leading batch dimension."""
    parts = {
        f.name: torch.stack([getattr(s, f.name) for s in states]) for f in fields(DecoderState)
    }
    return DecoderState(**parts)


def unstack(batch: DecoderState) -> list[DecoderState]:
    """The inverse of `stack`."""
    columns = [getattr(batch, f.name).unbind(0) for f in fields(DecoderState)]
    return [DecoderState(*values) for values in zip(*columns, strict=True)]


class VesperDecoder(nn.Module):
    """codes [batch, frames, 4] int64 -> sound [batch, frames * 4 * hop] float32."""

    silence: Tensor

    def __init__(self, config: VesperCodecConfig | None = None) -> None:
        super().__init__()
        c = self.config = config or VesperCodecConfig()
        self.pitch_table = nn.Parameter(torch.zeros(c.codebook_size, HOPS_PER_FRAME, 2))
        self.energy_table = nn.Parameter(torch.zeros(c.codebook_size, HOPS_PER_FRAME))
        self.text_table = nn.Parameter(torch.zeros(2, c.text_codes, 2 * c.text_dim))
        self.first = nn.Linear(c.kernel * c.inputs, c.dim)
        self.blocks = nn.ModuleList(
            LateConvNeXt(c.dim, c.kernel, c.expansion, ahead) for ahead in c.ahead[1:]
        )
        self.norm = nn.LayerNorm(c.dim)
        self.head = nn.Linear(c.dim, PARTS * BINS)
        self.register_buffer("silence", torch.zeros(4, dtype=torch.int64))
        self.synthesis = PulseSynthesis(c.hop)

    @property
    def context_frames(self) -> int:
        """So many frames back the sound depends on the codes, the phase apart."""
        tail = self.config.kernel - 1
        hops = tail * len(self.config.ahead) + WINDOWS - 1
        return -(-hops // HOPS_PER_FRAME)

    def new_state(self, level: float = 0.0, span: float = 1.0, frame: int = 0) -> DecoderState:
        """The state of a stream before `frame`, of which nothing is known but silence."""
        quiet = self._after_silence
        state = DecoderState(
            *(getattr(quiet, field.name).clone() for field in fields(DecoderState))
        )
        state.frame += frame
        state.level += level
        state.span *= span
        return state

    @cached_property
    def _after_silence(self) -> DecoderState:
        c, like = self.config, self.synthesis.window
        zero = like.new_zeros((), dtype=torch.int64)
        tail = c.kernel - 1
        nothing = DecoderState(
            like.new_zeros(tail, c.inputs),
            like.new_zeros(len(self.blocks), tail, c.dim),
            like.new_zeros(c.late_hops),
            like.new_zeros(c.reach),
            like.new_zeros(WINDOWS - 1, WINDOWS * c.hop),
            zero,
            zero,
            like.new_zeros(()),
            like.new_ones(()),
        )
        count = self.context_frames + c.late_frames
        codes = self.silence.expand(1, count, -1)
        with torch.no_grad():
            _, after = self.decode(codes, torch.full_like(codes[:, 0, 0], count), stack([nothing]))
        (state,) = unstack(after)
        state.phase, state.frame = zero, zero
        return state

    def pitch(self, codes: Tensor, level: Tensor, span: Tensor) -> Tensor:
        """Codebook 0 as pitch: [batch, frames] -> Hz [batch, hops], 0 where unvoiced.

        level, span: [batch], see `DecoderState`.
        """
        entry = self.pitch_table[codes].flatten(1, 2)
        middle = math.log(MIDDLE_HZ / _PITCH_UNIT_HZ)
        away = entry[..., 0] / _PITCH_SCALE - middle
        hz = _PITCH_UNIT_HZ * torch.exp(middle + level[:, None] + span[:, None] * away)
        return torch.where(entry[..., 1] > 1, hz, 0.0)

    def inputs(self, codes: Tensor, f0: Tensor) -> Tensor:
        """What the layers are told, [batch, hops, inputs]; codes [batch, frames, 4]."""
        text = self.text_table[0][codes[..., 2]] + self.text_table[1][codes[..., 3]]
        units = text.unflatten(-1, (UNITS_PER_FRAME, -1)).flatten(1, 2)
        text = units.repeat_interleave(HOPS_PER_FRAME // UNITS_PER_FRAME, 1)
        energy = self.energy_table[codes[..., 1]].flatten(1)
        return torch.cat((text, torch.log1p(f0)[..., None] / 5, energy[..., None]), -1)

    def hidden(self, x: Tensor) -> Tensor:
        """Offline: [batch, hops, inputs] -> [batch, hops, dim], each `late_hops` hops late."""
        past = (0, 0, self.config.kernel - 1, 0)
        x = self.first(self._unfolded(nn.functional.pad(x, past)))
        for block in self.blocks:
            x = block(nn.functional.pad(x, past))
        out: Tensor = self.norm(x)
        return out

    def decode(
        self, codes: Tensor, lengths: Tensor, state: DecoderState, unheard: int = 0
    ) -> tuple[Tensor, DecoderState]:
        """One chunk of a batch of streams, in fixed shapes.

        codes: [batch, frames, 4], right padded.
        lengths: [batch] int64 real frames. state: batched, see `stack`. Returns finished samples
        [batch, frames * 4 * hop], the first of them late_frames before the chunk's own, valid up to
        lengths * 4 * hop, and the state. unheard: hops, whole frames of them and no more than any
        length, that no samples are made of: the first ones are of the hop behind.
        """
        hop = self.config.hop
        f0 = self.pitch(codes[..., 0], state.level, state.span)
        x = self.inputs(codes, f0)
        hops = lengths * HOPS_PER_FRAME
        new = max(0, unheard - HOPS_PER_FRAME)
        parts, inputs, tails = self._layers(x, hops, state, new)
        around = torch.cat((state.f0, f0), 1)
        # A window's last quarter lies in the hop after its own: the newest pulses are of that hop.
        needed = around[:, : f0.shape[1] + 2]
        pulse, phase = self.synthesis.pulses(needed, hops, state.phase)
        source = torch.cat((state.source, pulse), 1)
        made = self.synthesis.windows(parts, source[:, new * hop :])
        # Of the last unheard frame, all windows but the first reach into what is heard.
        windows = torch.cat((state.windows[:, unheard:], made[:, min(1, unheard) :]), 1)
        return self.synthesis.overlap_add(windows), DecoderState(
            inputs,
            tails,
            tail_after(around[..., None], hops, self.config.late_hops)[..., 0],
            tail_after(source[..., None], hops * hop, self.config.reach)[..., 0],
            tail_after(windows, hops - unheard, WINDOWS - 1),
            phase,
            state.frame + lengths,
            state.level,
            state.span,
        )

    @torch.inference_mode()
    def step(
        self,
        codes: list[Tensor],
        states: list[DecoderState],
        final: list[bool],
        least_frames: int = 0,
    ) -> list[Tensor]:
        """Decode one chunk of each stream and advance its state in place.

        codes: [frames, 4] int64 of each stream, maybe of no frames. `final`: whether the stream
        ends with this chunk. The batch is padded to `least_frames` frames. Returns what may be
        played now, [samples] float32 of each stream; late_frames frames are held back until
        `final`.
        """
        late = self.config.late_frames
        counts = [len(c) + late * f for c, f in zip(codes, final, strict=True)]
        longest = max(*counts, least_frames, 1)
        batch = self.silence.repeat(len(codes), longest, 1)
        for row, chunk in zip(batch, codes, strict=True):
            row[: len(chunk)] = chunk
        lengths = torch.tensor(counts, device=batch.device)
        early = [max(0, late - int(state.frame)) for state in states]
        unheard = min(longest - least_frames, *map(min, early, counts))
        samples, after = self.decode(batch, lengths, stack(states), unheard * HOPS_PER_FRAME)
        ready = []
        rows = zip(states, unstack(after), counts, early, samples, strict=True)
        for old, new, count, begin, row in rows:
            first, end = ((frame - unheard) * self.config.frame_samples for frame in (begin, count))
            ready.append(row[first:end].clone())
            for field in fields(DecoderState):
                setattr(old, field.name, getattr(new, field.name))
        return ready

    def forward(self, codes: Tensor, level: float = 0.0, span: float = 1.0) -> Tensor:
        """The whole of one stream at once: [1, frames, 4] -> [1, frames * 4 * hop]."""
        late = self.config.late_frames
        padded = torch.cat((codes, self.silence.expand(1, late, -1)), 1)
        lengths = torch.tensor([padded.shape[1]], device=codes.device)
        samples, _ = self.decode(padded, lengths, stack([self.new_state(level, span)]))
        return samples[:, late * self.config.frame_samples :]

    def _layers(
        self, x: Tensor, hops: Tensor, state: DecoderState, first: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Spectral parts [batch, hops - first, 4 * BINS] and what the layers carry on."""
        padded = torch.cat((state.inputs, x), 1)
        inputs = tail_after(padded, hops, self.config.kernel - 1)
        x, tails = through(self.blocks, self.first(self._unfolded(padded)), state.tails, hops)
        return self.head(self.norm(x[:, first:])), inputs, tails

    def _unfolded(self, padded: Tensor) -> Tensor:
        """[batch, kernel - 1 + hops, inputs] -> [batch, hops, inputs * kernel]."""
        return padded.unfold(1, self.config.kernel, 1).flatten(2)
