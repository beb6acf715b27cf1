"""Stage 2: train tokenizer and mel decoder, then stage 3: write down the corpus's codes."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from talker.text.symbols import SYMBOLS
from vocoder.codecs.cantor_net import CantorDecoder
from voicetrain.data import Corpus
from voicetrain.features import HOPS_PER_FRAME, normalised
from voicetrain.loop import Losses, Schedule, placed, train
from voicetrain.tokenizer import PHONE_HOPS, Tokenizer

BATCH, SEGMENT_HOPS = 32, 128
PHONE_WEIGHT = 0.05
FULL_DEPTH_SHARE = 0.6


class Codec(nn.Module):
    """Tokenizer and decoder, trained as one and saved as one."""

    def __init__(self) -> None:
        super().__init__()
        self.decoder = CantorDecoder()
        self.tokenizer = Tokenizer(self.decoder)

    def losses(self, mel: Tensor, symbols: Tensor, depth: int) -> tuple[Tensor, Losses]:
        """Normalised mel [batch, hops, mels] and the symbol of each hop [batch, hops]."""
        z = self.tokenizer.encode(mel)
        quantised = self.tokenizer.quantiser(z, depth)
        made = self.decoder.mel(z + (quantised.total - z).detach())
        logits = self.tokenizer.phone_logits(z + (quantised.first - z).detach())
        targets = symbols.unflatten(1, (-1, HOPS_PER_FRAME))[:, :, list(PHONE_HOPS)]
        error = made - mel
        parts = {
            "l1": error.abs().mean(),
            "l2": error.square().mean(),
            "slope": error.diff(dim=1).abs().mean(),
            "commit": nn.functional.mse_loss(z, quantised.total.detach()),
            "phone": nn.functional.cross_entropy(logits.flatten(0, 2), targets.flatten()),
        }
        loss = parts["l1"] + 0.5 * parts["l2"] + 0.3 * parts["slope"] + 0.25 * parts["commit"]
        return loss + PHONE_WEIGHT * parts["phone"], parts


def train_codec(corpus: Corpus, checkpoint: Path, budget_s: float, seed: int) -> Codec:
    """Train on random segments of the corpus. Returns the codec, in evaluation mode."""
    torch.manual_seed(seed)
    codec = Codec()
    symbols = corpus.hop_symbols()
    assert int(symbols.max()) < len(SYMBOLS)
    trained = [p for p in codec.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, 2e-3, betas=(0.9, 0.98), weight_decay=1e-3)
    last = len(corpus.mel) // HOPS_PER_FRAME - SEGMENT_HOPS // HOPS_PER_FRAME

    def losses(step: int) -> tuple[Tensor, Losses]:
        generator = np.random.default_rng((seed, step))
        starts = generator.integers(0, last, BATCH) * HOPS_PER_FRAME
        index = starts[:, None] + np.arange(SEGMENT_HOPS)
        mel = normalised(placed(corpus.mel[index].astype(np.float32)))
        full = generator.random() < FULL_DEPTH_SHARE
        depth = codec.decoder.config.codebooks
        depth = depth if full else int(generator.integers(1, depth + 1))
        return codec.losses(mel, placed(symbols[index]), depth)

    train("codec", codec, optimizer, Schedule(budget_s, 2e-3, 50), losses, checkpoint)
    return codec.eval()


def extract_codes(codec: Codec, corpus: Corpus) -> np.ndarray[tuple[int, int], np.dtype[np.int16]]:
    """Codes of all utterances laid end to end, [frames, codebooks] int16."""
    parts = []
    for start, end in zip(corpus.hop_start[:-1], corpus.hop_start[1:], strict=True):
        mel = normalised(placed(corpus.mel[start:end].astype(np.float32)))
        parts.append(codec.tokenizer.codes(mel[None])[0].cpu().numpy().astype(np.int16))
    return np.concatenate(parts)
