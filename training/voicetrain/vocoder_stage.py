"""Stage 4: train the vocoder, and the decoder with it, from codes to the teacher's sound."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from vocoder.codecs.cantor_net import CantorDecoder
from voicetrain.data import Array, Corpus
from voicetrain.features import FRAME_SAMPLES, HOP, HOPS_PER_FRAME, hann, log_mel, normalised
from voicetrain.loop import Losses, Schedule, placed, train

BATCH = 10
CONTEXT_FRAMES, SEGMENT_FRAMES = 16, 25
SKIPPED_START_HOPS, SKIPPED_END_HOPS = 10, 3
PEAK_RATE = 1.5e-3
DECODER_RATE_SCALE = 0.2
JOINT_AFTER_STEPS = 500
RESOLUTIONS = ((256, 64), (512, 160), (1024, 256), (2048, 480))


class Segments:
    """Random stretches of the utterances whose audio was kept."""

    def __init__(self, corpus: Corpus, codes: Array) -> None:
        self.corpus, self.codes = corpus, codes.astype(np.int64)
        frames = np.diff(corpus.hop_start) // HOPS_PER_FRAME
        audible = np.diff(corpus.sample_start) > 0
        self.utterances = np.flatnonzero(audible & (frames > SEGMENT_FRAMES))
        self.frames = frames
        weight = frames[self.utterances].astype(float)
        self.weight = weight / weight.sum()

    def draw(
        self, count: int, generator: np.random.Generator
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """codes [count, 41, 4], mel [count, 100, 80], f0 [count, 100], audio [count, 16000].

        The codes begin CONTEXT_FRAMES before the rest; before an utterance its first is repeated.
        """
        codes, mels, pitches, sounds = [], [], [], []
        for i in generator.choice(self.utterances, count, p=self.weight):
            at = int(generator.integers(0, self.frames[i] - SEGMENT_FRAMES + 1))
            first = self.corpus.hop_start[i]
            wanted = np.arange(at - CONTEXT_FRAMES, at + SEGMENT_FRAMES).clip(0)
            codes.append(self.codes[first // HOPS_PER_FRAME + wanted])
            hops = slice(first + at * 4, first + (at + SEGMENT_FRAMES) * 4)
            mels.append(self.corpus.mel[hops].astype(np.float32))
            pitches.append(self.corpus.f0[hops])
            begin = self.corpus.sample_start[i] + at * FRAME_SAMPLES
            sounds.append(self.corpus.audio[begin : begin + SEGMENT_FRAMES * FRAME_SAMPLES])
        audio = np.stack(sounds).astype(np.float32) / 32768
        arrays = (np.stack(codes), np.stack(mels), np.stack(pitches), audio)
        tensors = [placed(array) for array in arrays]
        return tensors[0], normalised(tensors[1]), tensors[2].float(), tensors[3]


def spectral_distance(made: Tensor, real: Tensor) -> Tensor:
    """Log magnitude and convergence over four resolutions (Yamamoto et al., 2020)."""
    total = made.new_zeros(())
    for size, hop in RESOLUTIONS:
        window = hann(size).to(made.device)
        a, b = (
            torch.stft(x, size, hop, window=window, return_complex=True).abs() for x in (made, real)
        )
        logs = (a.clamp_min(1e-3).log() - b.clamp_min(1e-3).log()).abs().mean()
        difference = (a - b).square().sum((1, 2)).clamp_min(1e-8).sqrt()
        size_of_real = b.square().sum((1, 2)).sqrt() + 1
        total = total + 0.5 * logs + (difference / size_of_real).mean()
    return total / len(RESOLUTIONS)


def vocoder_losses(
    decoder: CantorDecoder, batch: tuple[Tensor, ...], joint: bool
) -> tuple[Tensor, Losses]:
    """Losses of one batch of segments; `joint` lets the sound's errors teach the decoder too."""
    codes, mel, pitch, audio = batch
    made_mel = decoder.mel(decoder.embed(codes))[:, CONTEXT_FRAMES * HOPS_PER_FRAME :]
    heads = decoder.filters(made_mel if joint else made_mel.detach())
    key = torch.randint(0, 2**31, (len(codes),), device=codes.device)
    sound = decoder.render(heads, pitch, key)
    part = slice(SKIPPED_START_HOPS * HOP, -SKIPPED_END_HOPS * HOP)
    made, real = sound[:, part], audio[:, part]
    voiced = (pitch > 0).float()
    pitch_error = (heads.pitch[..., 0] - decoder.pitch_target(pitch)).abs() * voiced
    parts = {
        "spectrum": spectral_distance(made, real),
        "mel": (log_mel(made) - log_mel(real)).abs().mean(),
        "pitch": pitch_error.sum() / (voiced.sum() + 1),
        "voicing": nn.functional.binary_cross_entropy_with_logits(heads.pitch[..., 1], voiced),
        "decoder_mel": (made_mel - mel).abs().mean(),
    }
    loss = parts["spectrum"] + parts["mel"] + 0.3 * (parts["pitch"] + parts["voicing"])
    return loss + 0.5 * parts["decoder_mel"], parts


def train_vocoder(
    decoder: CantorDecoder,
    corpus: Corpus,
    codes: Array,
    checkpoint: Path,
    budget_s: float,
    seed: int,
) -> CantorDecoder:
    """Train a decoder whose codebooks and mel half are already good. Codebooks stay."""
    torch.manual_seed(seed)
    segments = Segments(corpus, codes)
    early = [*decoder.decoder_in.parameters(), *decoder.decoder.parameters()]
    early += decoder.decoder_out.parameters()
    known = {id(p) for p in early}
    late = [p for p in decoder.parameters() if p.requires_grad and id(p) not in known]
    optimizer = torch.optim.AdamW(
        [{"params": early, "scale": DECODER_RATE_SCALE}, {"params": late, "scale": 1.0}],
        PEAK_RATE,
        betas=(0.8, 0.98),
    )
    schedule = Schedule(budget_s, PEAK_RATE, 50, clip=5.0)

    def losses(step: int) -> tuple[Tensor, Losses]:
        # An untrained vocoder's errors would only unteach the decoder.
        batch = segments.draw(BATCH, np.random.default_rng((seed, step)))
        return vocoder_losses(decoder, batch, joint=step >= JOINT_AFTER_STEPS)

    train("vocoder", decoder, optimizer, schedule, losses, checkpoint)
    return decoder.eval()
