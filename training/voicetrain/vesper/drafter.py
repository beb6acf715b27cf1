"""Stage: the drafter learns what the talker, now frozen, draws at the temperatures it is served at.

Until here it has learned beside the talker from the corpus. A guess counts when it is what the
talker draws with the same noise, and that depends on how close two distributions are: so this
stage compares distributions, along what the talker itself says.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

from ttscommon.wire.errors import NothingToSay
from ttsfamilies.base.text.frontend import EnglishFrontend
from ttsfamilies.base.text.misaki import tokens_of
from ttsfamilies.vesper.net import VesperNet
from ttsfamilies.vesper.stream import VesperSampling
from voicetrain.loop import Losses, Schedule, train
from voicetrain.progress import Progress
from voicetrain.vesper.speak import Spoken, speak
from voicetrain.vesper.talk import (
    BATCH,
    DRAFTS,
    UNITS_PER_FRAME,
    Batch,
    TalkCorpus,
    Utterances,
    drafts_of,
    hidden_states,
)

SPOKEN_BATCH: Final = 64
PEAK_RATE: Final = 1e-3
WARMUP_STEPS: Final = 50
FALLING: Final = 0.7
"""A guess counts only behind right ones, so each weighs so much of the one before."""


def own_speech(
    net: VesperNet,
    frontend: EnglishFrontend,
    texts: Sequence[str],
    sampling: VesperSampling,
    seed: int,
) -> TalkCorpus:
    """What the talker says to the texts; what it does not end by itself is left out."""
    said: list[tuple[Sequence[int], Spoken]] = []
    progress = Progress("drafter: the talker speaks", len(texts))
    for number, ids in enumerate(_batches(frontend, texts)):
        said += zip(ids, speak(net, ids, sampling, 1.0, seed + number), strict=True)
        progress.report(len(said))
    return _corpus([(ids, one) for ids, one in said if _whole(one)])


def _batches(frontend: EnglishFrontend, texts: Sequence[str]) -> Iterator[list[Sequence[int]]]:
    """Tokens of the texts, those of similar length together."""
    for first in range(0, len(texts), SPOKEN_BATCH * 8):
        found: list[Sequence[int]] = []
        for text in texts[first : first + SPOKEN_BATCH * 8]:
            try:
                found.append(tokens_of(frontend.phones(text)).ids)
            except NothingToSay:
                continue
        found.sort(key=len)
        for at in range(0, len(found), SPOKEN_BATCH):
            yield found[at : at + SPOKEN_BATCH]


def _whole(one: Spoken) -> bool:
    return not one.runaway and int(one.units.sum()) == UNITS_PER_FRAME * len(one.codes)


def _corpus(said: Sequence[tuple[Sequence[int], Spoken]]) -> TalkCorpus:
    return TalkCorpus(
        ids=np.concatenate([np.array(ids) for ids, _ in said]),
        units=np.concatenate([one.units for _, one in said]),
        codes=torch.cat([one.codes[:, :2] for _, one in said]).numpy(),
        token_start=np.cumsum([0, *(len(ids) for ids, _ in said)]),
        frame_start=np.cumsum([0, *(len(one.codes) for _, one in said)]),
        pace=np.ones(len(said), np.float32),
    )


def drafter_losses(net: VesperNet, batch: Batch, sampling: VesperSampling) -> Losses:
    """How far each guess's distribution is from the talker's, told the true frames before it.

    draft1 .. draftN: the divergence of moves and codes, in nats, each of its mean over frames.
    shared1 .. sharedN: the mass that both distributions of codes share.
    """
    with torch.no_grad():
        hidden, contexts, pace = hidden_states(net, batch)
        moves = _log_shares(net.move_logits(hidden), sampling.move_temperature)
        codes = _log_shares(net.code0_logits(hidden, batch.move), sampling.temperature)
    losses: Losses = {}
    drafts = drafts_of(net, batch, hidden, contexts, pace, torch.arange(len(batch.codes)))
    for ahead, (at, read) in enumerate(drafts, 1):
        guessed = _log_shares(net.drafter.move_logits(read), sampling.move_temperature)
        logits = net.drafter.code0_logits(read, batch.move[at])
        guessed_codes = _log_shares(logits, sampling.temperature)
        apart = _divergence(moves[at], guessed) + _divergence(codes[at], guessed_codes)
        losses[f"draft{ahead}"] = apart.mean()
        shared = torch.minimum(codes[at].exp(), guessed_codes.exp()).sum(-1)
        losses[f"shared{ahead}"] = shared.mean()
    return losses


def _log_shares(logits: Tensor, temperature: float) -> Tensor:
    return (logits / temperature).log_softmax(-1)


def _divergence(true: Tensor, guessed: Tensor) -> Tensor:
    """[..., ids] logarithms of shares -> [...]."""
    return (true.exp() * (true - guessed)).sum(-1)


def total(losses: Losses) -> Tensor:
    """What is minimised."""
    parts = [FALLING**n * losses[f"draft{n + 1}"] for n in range(DRAFTS)]
    return torch.stack(parts).sum()


def tune_drafter(
    net: VesperNet,
    spoken: TalkCorpus,
    held_out: np.ndarray,
    sampling: VesperSampling,
    checkpoint: Path,
    budget_s: float,
    seed: int,
) -> VesperNet:
    """Train the drafter alone. Returns the net in evaluation mode."""
    torch.manual_seed(seed)
    utterances = Utterances(spoken, net.config.bos)
    batch_of = utterances.order(np.setdiff1d(np.arange(len(spoken)), held_out), seed)
    net.requires_grad_(False)
    net.drafter.requires_grad_(True)
    optimizer = torch.optim.AdamW(net.drafter.parameters(), PEAK_RATE, betas=(0.9, 0.95))

    def losses(step: int) -> tuple[Tensor, Losses]:
        net.eval()  # the talker is asked as it will be served, without dropout
        parts = drafter_losses(net, utterances.batch(batch_of(step)), sampling)
        return total(parts), parts

    def validate() -> dict[str, float]:
        sums: dict[str, float] = {}
        batches = [list(held_out[i : i + BATCH]) for i in range(0, len(held_out), BATCH)]
        for indices in batches:
            parts = drafter_losses(net, utterances.batch(indices), sampling)
            for name, value in parts.items():
                sums[f"held_{name}"] = sums.get(f"held_{name}", 0.0) + float(value) / len(batches)
        return sums

    schedule = Schedule(budget_s, PEAK_RATE, WARMUP_STEPS)
    train("drafter", net, optimizer, schedule, losses, checkpoint, validate)
    return net.eval().requires_grad_(True)
