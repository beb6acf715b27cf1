"""Stage: the teacher's decoder learns to do with a short look ahead and with quantised inputs.

It is trained on the teacher's last hidden state; tables and head stay as they are.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ttscommon.wire.fields import Array
from ttsfamilies.vesper.codec.net import HOPS_PER_FRAME, VesperDecoder
from voicetrain.loop import Losses, Schedule, autocast, placed, train

BATCH = 12
FRAMES = 30
BEFORE = 10
"""Frames that a segment begins early, to fill the layers' memory; their error does not count."""
PEAK_RATE = 8e-4
WARMUP_STEPS = 100


@dataclass(frozen=True)
class HiddenCorpus:
    """Utterances of which the teacher's hidden state is known, laid end to end.

    codes [frames, 4]; hidden [hops, 256] float16; frame_start [utterances + 1]; level, span
    [utterances]: how the pitch was shifted before the teacher's decoder was told.
    """

    codes: Array
    hidden: Array
    frame_start: Array
    level: Array
    span: Array

    def __len__(self) -> int:
        return len(self.level)


class Segments:
    """Random segments of a corpus as the decoder sees them in a stream: silence around it."""

    def __init__(self, corpus: HiddenCorpus, silence: Array, late_hops: int) -> None:
        self.corpus, self.silence = corpus, silence
        self.late_frames = -(-late_hops // HOPS_PER_FRAME)

    def batch(self, chosen: Array, generator: np.random.Generator) -> dict[str, Tensor]:
        """A segment of each chosen utterance: codes, hidden, which of its hops count, pitch."""
        c = self.corpus
        first, last = c.frame_start[chosen], c.frame_start[chosen + 1]
        begin = generator.integers(first - 1, np.maximum(last - FRAMES // 2, first))
        span = np.arange(-BEFORE, FRAMES + self.late_frames)
        frames = begin[:, None] + span
        inside = (frames >= first[:, None]) & (frames < last[:, None])
        codes = np.where(inside[..., None], c.codes[frames.clip(0, len(c.codes) - 1)], self.silence)
        counted = inside[:, BEFORE : BEFORE + FRAMES].repeat(HOPS_PER_FRAME, 1)
        hops = begin[:, None] * HOPS_PER_FRAME + np.arange(FRAMES * HOPS_PER_FRAME)
        return {
            "codes": placed(codes.astype(np.int64)),
            "hidden": placed(c.hidden[hops.clip(0, len(c.hidden) - 1)].astype(np.float32)),
            "counted": placed(counted),
            "level": placed(c.level[chosen].astype(np.float32)),
            "span": placed(c.span[chosen].astype(np.float32)),
        }


def distillation_error(decoder: VesperDecoder, batch: dict[str, Tensor], scale: Tensor) -> Tensor:
    """Mean square error of the hidden state, in units of its variance."""
    with torch.no_grad():
        f0 = decoder.pitch(batch["codes"][..., 0], batch["level"], batch["span"])
        x = decoder.inputs(batch["codes"], f0)
    first = BEFORE * HOPS_PER_FRAME + decoder.config.late_hops
    made = decoder.hidden(x)[:, first : first + FRAMES * HOPS_PER_FRAME]
    error = ((made.float() - batch["hidden"]) / scale).square().mean(-1)
    return error[batch["counted"]].mean()


def train_decoder(
    decoder: VesperDecoder,
    corpus: HiddenCorpus,
    held_out: Array,
    checkpoint: Path,
    budget_s: float,
    seed: int,
) -> VesperDecoder:
    """Train on all utterances but the held-out ones. Returns the decoder, ready to be used."""
    torch.manual_seed(seed)
    decoder.requires_grad_(False)
    for part in (decoder.first, decoder.blocks, decoder.norm):
        part.requires_grad_(True)
    scale = torch.from_numpy(corpus.hidden[:200_000].astype(np.float32)).std(0)
    segments = Segments(corpus, decoder.silence.numpy(), decoder.config.late_hops)
    trained = np.setdiff1d(np.arange(len(corpus)), held_out)
    parameters = [p for p in decoder.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, PEAK_RATE, betas=(0.9, 0.98), fused=True)

    def losses(step: int) -> tuple[Tensor, Losses]:
        generator = np.random.default_rng((seed, step))
        batch = segments.batch(generator.choice(trained, BATCH), generator)
        with autocast():
            error = distillation_error(decoder, batch, scale)
        return error, {"error": error}

    def validate() -> dict[str, float]:
        generator = np.random.default_rng(seed)
        parts = [held_out[i : i + BATCH] for i in range(0, len(held_out), BATCH)]
        errors = [
            float(distillation_error(decoder, segments.batch(part, generator), scale))
            for part in parts
        ]
        return {"held_error": float(np.mean(errors))}

    schedule = Schedule(budget_s, PEAK_RATE, WARMUP_STEPS)
    train("decoder", decoder, optimizer, schedule, losses, checkpoint, validate)
    return decoder.eval()
