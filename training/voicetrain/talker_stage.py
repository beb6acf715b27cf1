"""Stage 5: train the talker on the phones, pointers and codes of the corpus."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from talker.models.cantor_net import CONTEXT, CantorConfig, CantorNet
from talker.text.symbols import FLAG_PAUSE
from voicetrain.data import Array, Corpus
from voicetrain.loop import Losses, Schedule, placed, train

BATCH = 12
BUCKET_BATCHES = 20
PEAK_RATE = 1.5e-3
HISTORY_DROP = 0.07
SAMPLED_SHARE = 0.25
RESIDUAL_WEIGHT, DRAFT_WEIGHT = 1.0, 0.1
DROPOUT = 0.0


@dataclass(frozen=True)
class Batch:
    """Utterances padded on the right: phones first, then frames, both [batch, ...] int64.

    At [b, 1 + phones[b] + t] of the sequence stands frame t of utterance b.
    """

    symbols: Tensor
    flags: Tensor
    speaker: Tensor
    frame_at: Tensor
    context_symbols: Tensor
    context_flags: Tensor
    held: Tensor
    previous: Tensor
    codes: Tensor
    advance: Tensor
    utterance: Tensor
    length: int


def held_frames(pointer: Array) -> Array:
    """[frames] how many frames the pointer has stood where it stands."""
    index = np.arange(len(pointer))
    arrived = np.where(np.diff(pointer, prepend=-1) != 0, index, 0)
    return index - np.maximum.accumulate(arrived)


def context_of(values: Array, pointer: Array, outside: int) -> Array:
    """[frames, CONTEXT]: the values before, at and after the pointer."""
    padded = np.concatenate([[outside], values, [outside] * (CONTEXT - 2)])
    return padded[pointer[:, None] + np.arange(CONTEXT)]


class Utterances:
    """The corpus as the talker sees it."""

    def __init__(self, corpus: Corpus, codes: Array, config: CantorConfig) -> None:
        self.corpus, self.codes, self.config = corpus, codes.astype(np.int64), config
        self.frame_start = corpus.hop_start // 4
        assert self.frame_start[-1] == len(codes)

    def size(self, index: int) -> int:
        """Positions of an utterance's sequence."""
        frames = self.frame_start[index + 1] - self.frame_start[index]
        phones = self.corpus.phone_start[index + 1] - self.corpus.phone_start[index]
        return int(1 + phones + frames)

    def batch(self, indices: list[int]) -> Batch:
        """The utterances as one batch."""
        phones = [self.corpus.phones(i) for i in indices]
        most = max(len(symbols) for symbols, _ in phones)
        length = max(self.size(i) for i in indices)
        symbols, flags = np.zeros((2, len(indices), most), np.int64)
        rows: dict[str, list[Array]] = {}
        for row, (i, (symbol, flag)) in enumerate(zip(indices, phones, strict=True)):
            count = len(symbol)
            symbols[row, :count], flags[row, :count] = symbol, flag
            codes = self.codes[self.frame_start[i] : self.frame_start[i + 1]]
            pointer = self.corpus.pointers(i)
            moves = np.diff(np.append(pointer, count)).clip(0, self.config.advances - 1)
            columns = {
                "frame_at": row * length + 1 + count + np.arange(len(codes)),
                "context_symbols": context_of(symbol, pointer, 0),
                "context_flags": context_of(flag, pointer, FLAG_PAUSE),
                "held": held_frames(pointer),
                "previous": np.append(self.config.bos, codes[:-1, 0]),
                "codes": codes,
                "advance": moves,
                "utterance": np.full(len(codes), row),
            }
            for name, column in columns.items():
                rows.setdefault(name, []).append(column)
        tensors = {n: placed(np.concatenate(c).astype(np.int64)) for n, c in rows.items()}
        return Batch(
            placed(symbols),
            placed(flags),
            placed(self.corpus.voice[indices].astype(np.int64)),
            length=length,
            **tensors,
        )

    def order(self, indices: Array, seed: int) -> Callable[[int], list[int]]:
        """Which utterances make the batch of a step: each once an epoch, similar lengths together.

        A pure function of seed and step, so that a resumed training goes on in the same order.
        """

        @lru_cache(maxsize=1)
        def epoch(number: int) -> list[list[int]]:
            generator = np.random.default_rng((seed, number))
            shuffled = generator.permutation(indices)
            width = BATCH * BUCKET_BATCHES
            groups = [
                sorted(shuffled[i : i + width], key=self.size)
                for i in range(0, len(shuffled), width)
            ]
            batches = [g[i : i + BATCH] for g in groups for i in range(0, len(g), BATCH)]
            return [[int(i) for i in batches[k]] for k in generator.permutation(len(batches))]

        count = len(epoch(0))
        return lambda step: epoch(step // count)[step % count]


def causal_attend(_layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Whole sequences at once: [batch, time, heads, head_dim]."""
    # Twice as fast here as the fused kernel, whose backward is slow on CPUs at these sizes.
    time = q.shape[1]
    future = torch.full((time, time), float("-inf"), device=q.device).triu(1)
    scores = q.transpose(1, 2) @ k.permute(0, 2, 3, 1) * q.shape[-1] ** -0.5
    weights = (scores + future.to(scores.dtype)).softmax(-1).to(v.dtype)
    return (weights @ v.transpose(1, 2)).transpose(1, 2)


def hidden_states(net: CantorNet, batch: Batch) -> Tensor:
    """The backbone's hidden states of all frames of the batch, [frames, dim]."""
    rows, phones = batch.symbols.shape
    prompt = net.embed_prompt(batch.symbols, batch.flags, batch.speaker)
    padded = nn.functional.pad(prompt, (0, 0, 0, batch.length - phones - 1))
    history = net.embed_history(batch.previous)
    if net.training:
        kept = torch.rand(len(history), 1, device=history.device) > HISTORY_DROP
        history = history * (kept | (batch.previous == net.config.bos)[:, None])
    frames = history + net.embed_pointer(
        batch.context_symbols, batch.context_flags, batch.held, batch.speaker[batch.utterance]
    )
    x = padded.flatten(0, 1).index_copy(0, batch.frame_at, frames).unflatten(0, (rows, -1))
    positions = torch.arange(batch.length, device=x.device).expand(rows, -1)
    return net.backbone(x, positions, causal_attend).flatten(0, 1)[batch.frame_at]


def _draft_losses(net: CantorNet, batch: Batch, hidden: Tensor, chosen: Tensor) -> Losses:
    guesses = net.draft_logits(
        hidden.detach()[chosen], batch.advance[chosen], batch.codes[chosen, 0]
    )
    losses: Losses = {}
    last = len(batch.codes) - 1
    for ahead in range(1, net.config.drafts + 1):
        target = (chosen + ahead).clamp(max=last)
        real = (batch.utterance[target] == batch.utterance[chosen]) & (chosen + ahead <= last)
        advance, code = (guess[real, ahead - 1] for guess in guesses)
        target = target[real]
        losses[f"draft{ahead}"] = nn.functional.cross_entropy(
            code, batch.codes[target, 0]
        ) + nn.functional.cross_entropy(advance, batch.advance[target])
        if not net.training:
            right = code.argmax(-1) == batch.codes[target, 0]
            losses[f"draft{ahead}_accuracy"] = right.float().mean()
            right = right & (advance.argmax(-1) == batch.advance[target])
            losses[f"draft{ahead}_both"] = right.float().mean()
    return losses


def talker_losses(net: CantorNet, batch: Batch) -> tuple[Tensor, Losses]:
    """The loss of one batch and its parts; residuals and drafts on a share of the frames."""
    hidden = hidden_states(net, batch)
    entropy = nn.functional.cross_entropy
    code0_logits = net.code0_logits(hidden, batch.advance)
    advance_logits = net.advance_logits(hidden)
    parts: Losses = {
        "advance": entropy(advance_logits, batch.advance),
        "code0": entropy(code0_logits, batch.codes[:, 0]),
    }
    count = len(hidden)
    share = int(count * SAMPLED_SHARE) if net.training else count
    chosen = torch.randperm(count, device=hidden.device)[:share]
    residual_logits = net.residual_logits(
        hidden[chosen], batch.advance[chosen], batch.codes[chosen, :-1]
    )
    parts["residual"] = entropy(residual_logits.flatten(0, 1), batch.codes[chosen, 1:].flatten())
    drafts = _draft_losses(net, batch, hidden, chosen)
    loss = parts["advance"] + parts["code0"] + RESIDUAL_WEIGHT * parts["residual"]
    loss = loss + DRAFT_WEIGHT * torch.stack([v for k, v in drafts.items() if "_" not in k]).sum()
    if not net.training:
        parts["code0_accuracy"] = (code0_logits.argmax(-1) == batch.codes[:, 0]).float().mean()
        parts["advance_accuracy"] = (advance_logits.argmax(-1) == batch.advance).float().mean()
    return loss, parts | drafts


def train_talker(
    corpus: Corpus,
    codes: Array,
    held_out: Array,
    checkpoint: Path,
    budget_s: float,
    seed: int,
    config: CantorConfig | None = None,
) -> CantorNet:
    """Train on all utterances but the held-out ones. Returns the net in evaluation mode."""
    torch.manual_seed(seed)
    config = replace(config or CantorConfig(), dropout=DROPOUT)
    net = CantorNet(config)
    utterances = Utterances(corpus, codes, config)
    trained = np.setdiff1d(np.arange(len(corpus)), held_out)
    batch_of = utterances.order(trained, seed)
    groups = [
        {"params": [p for p in net.parameters() if p.ndim >= 2], "weight_decay": 0.02},
        {"params": [p for p in net.parameters() if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, PEAK_RATE, betas=(0.9, 0.95), fused=True)

    def losses(step: int) -> tuple[Tensor, Losses]:
        batch = utterances.batch(batch_of(step))
        with torch.autocast(torch.get_default_device().type, torch.bfloat16):
            return talker_losses(net, batch)

    def validate() -> dict[str, float]:
        sums: dict[str, float] = {}
        parts = [held_out[i : i + 16] for i in range(0, min(len(held_out), 160), 16)]
        for part in parts:
            _, values = talker_losses(net, utterances.batch([int(i) for i in part]))
            for name, value in values.items():
                sums[f"held_{name}"] = sums.get(f"held_{name}", 0.0) + float(value) / len(parts)
        return sums

    train("talker", net, optimizer, Schedule(budget_s, PEAK_RATE), losses, checkpoint, validate)
    return net.eval()
