"""Stage: the talker learns pace, pointer, pitch and energy of the corpus, and to draft ahead."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ttscommon.engine.nn import causal_attention
from ttscommon.wire.fields import Array
from ttsfamilies.vesper.net import VesperNet, token_contexts
from voicetrain.loop import Losses, Schedule, autocast, placed, train

BATCH = 16
BUCKET_BATCHES = 20
PEAK_RATE = 1.5e-3
WARMUP_STEPS = 200
HISTORY_DROP = 0.05
DRAFTS = 4
DRAFTED_SHARE = 0.25
ENERGY_SHARE = 0.5
ENERGY_WEIGHT, DRAFT_WEIGHT = 0.5, 0.1
UNITS_PER_FRAME = 2
HELD_OUT_SHOWN = 160


@dataclass(frozen=True)
class TalkCorpus:
    """Utterances laid end to end.

    ids, units [tokens]: tokens and their durations; codes [frames, 2]: pitch and energy;
    token_start, frame_start [utterances + 1]; pace [utterances].
    """

    ids: Array
    units: Array
    codes: Array
    token_start: Array
    frame_start: Array
    pace: Array

    def __len__(self) -> int:
        return len(self.pace)


@dataclass(frozen=True)
class Batch:
    """Utterances padded on the right, [batch, ...]; their frames one after the other, [frames].

    At [b, 1 + t] of the sequence stands frame t of utterance b.
    """

    tokens: Tensor
    real: Tensor
    pace: Tensor
    frame_at: Tensor
    pointer: Tensor
    held: Tensor
    previous: Tensor
    codes: Tensor
    move: Tensor
    utterance: Tensor
    length: int


def path_of(units: Array) -> tuple[Array, Array, Array]:
    """Pointer, units held and move of every frame, from the tokens' durations in units.

    The units make whole frames. Returns three [frames] int64.
    """
    owner = np.repeat(np.arange(len(units)), units)
    since = np.arange(len(owner)) - np.repeat(np.cumsum(units) - units, units)
    steps = np.diff(np.append(owner, len(units)))
    move = steps[::UNITS_PER_FRAME] + 2 * steps[1::UNITS_PER_FRAME]
    return owner[::UNITS_PER_FRAME], since[::UNITS_PER_FRAME], move


class Utterances:
    """The corpus in batches."""

    def __init__(self, corpus: TalkCorpus, bos: int) -> None:
        self.corpus, self.bos = corpus, bos

    def size(self, index: int) -> int:
        """Positions of an utterance's sequence."""
        return int(1 + self.corpus.frame_start[index + 1] - self.corpus.frame_start[index])

    def batch(self, indices: list[int]) -> Batch:
        """The utterances as one batch."""
        c = self.corpus
        spans = [slice(c.token_start[i], c.token_start[i + 1]) for i in indices]
        most = max(span.stop - span.start for span in spans)
        length = max(self.size(i) for i in indices)
        tokens, rows = np.zeros((len(indices), most), np.int64), []
        for row, (i, span) in enumerate(zip(indices, spans, strict=True)):
            count = span.stop - span.start
            tokens[row, :count] = c.ids[span]
            pointer, held, move = path_of(c.units[span].astype(np.int64))
            codes = c.codes[c.frame_start[i] : c.frame_start[i + 1]].astype(np.int64)
            at = row * length + 1 + np.arange(len(codes))
            previous = np.append(self.bos, codes[:-1, 0])
            owner = np.full(len(codes), row)
            rows.append((at, pointer, held, previous, codes, move, owner))
        counts = np.array([span.stop - span.start for span in spans])
        columns = [placed(np.concatenate(column)) for column in zip(*rows, strict=True)]
        return Batch(
            tokens=placed(tokens),
            real=placed(np.arange(most) < counts[:, None]),
            pace=placed(c.pace[indices].astype(np.float32)),
            frame_at=columns[0],
            pointer=columns[1],
            held=columns[2],
            previous=columns[3],
            codes=columns[4],
            move=columns[5],
            utterance=columns[6],
            length=length,
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


def hidden_states(net: VesperNet, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states of all frames [frames, dim], contexts [batch, tokens, dim], pace [batch, dim].

    The text encoders are not trained.
    """
    with torch.no_grad():
        prosody = net.prosody(batch.tokens, batch.real) * batch.real[..., None]
    contexts, pace = token_contexts(net, batch.tokens, prosody), net.embed_pace(batch.pace)
    rows, positions = len(pace), batch.length
    begin = net.embed_begin(pace)[:, None]
    padded = nn.functional.pad(begin, (0, 0, 0, positions - 1))
    history = net.embed_history(batch.previous)
    if net.training:
        kept = torch.rand(len(history), 1, device=history.device) > HISTORY_DROP
        history = history * (kept | (batch.previous == net.config.bos)[:, None])
    context = contexts[batch.utterance, batch.pointer]
    frames = history + net.embed_pointer(context, batch.held, pace[batch.utterance])
    flat = padded.flatten(0, 1).to(frames.dtype)
    x = flat.index_copy(0, batch.frame_at, frames).unflatten(0, (rows, -1))
    at = torch.arange(positions, device=x.device).expand(rows, -1)
    hidden = net.backbone(x, at, lambda _, q, k, v: causal_attention(q, k, v))
    return hidden.flatten(0, 1)[batch.frame_at], contexts, pace


def drafts_of(
    net: VesperNet, batch: Batch, hidden: Tensor, contexts: Tensor, pace: Tensor, chosen: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """What the drafter reads 1 .. DRAFTS frames behind the chosen ones, told the true frames.

    hidden: [frames, dim]; contexts and pace from `hidden_states`; chosen: indices of frames.
    Yields the indices of the frames that it guesses, and `Drafter.read` for each.
    """
    state, at, last = hidden[chosen], chosen, len(batch.codes) - 1
    for _ in range(DRAFTS):
        following = (at + 1).clamp(max=last)
        real = (batch.utterance[following] == batch.utterance[at]) & (at < last)
        state, at = state[real], following[real]
        owner = batch.utterance[at]
        context = contexts[owner, batch.pointer[at]]
        told = net.embed_frame(batch.previous[at], context, batch.held[at], pace[owner])
        state = net.drafter.step(state, told.detach())
        yield at, net.drafter.read(state)


def draft_losses(
    net: VesperNet, batch: Batch, hidden: Tensor, contexts: Tensor, pace: Tensor, chosen: Tensor
) -> Losses:
    """The drafter's losses, told the true frames as it goes; accuracies when not training."""
    entropy = nn.functional.cross_entropy
    losses: Losses = {}
    drafts = drafts_of(net, batch, hidden.detach(), contexts, pace, chosen)
    for ahead, (at, read) in enumerate(drafts, 1):
        move, code = batch.move[at], batch.codes[at, 0]
        move_logits = net.drafter.move_logits(read)
        code_logits = net.drafter.code0_logits(read, move)
        losses[f"draft{ahead}"] = entropy(move_logits, move) + entropy(code_logits, code)
        if not net.training:
            right_move, right = move_logits.argmax(-1) == move, code_logits.argmax(-1) == code
            losses[f"draft{ahead}_move_right"] = right_move.float().mean()
            losses[f"draft{ahead}_code_right"] = right.float().mean()
    return losses


def talker_losses(net: VesperNet, batch: Batch) -> tuple[Tensor, Losses]:
    """The loss of one batch and its parts; energy and drafts on a share of the frames."""
    entropy = nn.functional.cross_entropy
    hidden, contexts, pace = hidden_states(net, batch)
    pitch, energy = batch.codes.unbind(-1)
    move_logits, code_logits = net.move_logits(hidden), net.code0_logits(hidden, batch.move)
    parts: Losses = {"move": entropy(move_logits, batch.move), "code0": entropy(code_logits, pitch)}
    shuffled = torch.randperm(len(hidden), device=hidden.device)
    some = shuffled[: int(len(hidden) * ENERGY_SHARE)] if net.training else shuffled
    energy_logits = net.energy_logits(hidden[some], batch.move[some], pitch[some])
    parts["energy"] = entropy(energy_logits, energy[some])
    few = shuffled[: int(len(hidden) * DRAFTED_SHARE)].sort().values
    drafts = draft_losses(net, batch, hidden, contexts, pace, few)
    drafted = torch.stack([v for k, v in drafts.items() if "_" not in k]).sum()
    loss = parts["move"] + parts["code0"] + ENERGY_WEIGHT * parts["energy"]
    if not net.training:
        parts["move_right"] = (move_logits.argmax(-1) == batch.move).float().mean()
        parts["code0_right"] = (code_logits.argmax(-1) == pitch).float().mean()
    return loss + DRAFT_WEIGHT * drafted, parts | drafts


def train_talker(
    net: VesperNet,
    corpus: TalkCorpus,
    held_out: Array,
    checkpoint: Path,
    budget_s: float,
    seed: int,
) -> VesperNet:
    """Train on all utterances but the held-out ones. Returns the net in evaluation mode.

    The text encoders and the text table stay as they are.
    """
    torch.manual_seed(seed)
    utterances = Utterances(corpus, net.config.bos)
    trained = np.setdiff1d(np.arange(len(corpus)), held_out)
    batch_of = utterances.order(trained, seed)
    for part in (net.text, net.prosody):
        part.requires_grad_(False)
    net.text_table.requires_grad_(False)
    free = [p for p in net.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in free if p.ndim >= 2], "weight_decay": 0.02},
        {"params": [p for p in free if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, PEAK_RATE, betas=(0.9, 0.95), fused=True)

    def losses(step: int) -> tuple[Tensor, Losses]:
        batch = utterances.batch(batch_of(step))
        with autocast():
            return talker_losses(net, batch)

    def validate() -> dict[str, float]:
        shown = [int(i) for i in held_out[:HELD_OUT_SHOWN]]
        parts = [shown[i : i + BATCH] for i in range(0, len(shown), BATCH)]
        sums: dict[str, float] = {}
        for part in parts:
            _, values = talker_losses(net, utterances.batch(part))
            for name, value in values.items():
                sums[f"held_{name}"] = sums.get(f"held_{name}", 0.0) + float(value) / len(parts)
        return sums

    schedule = Schedule(budget_s, PEAK_RATE, WARMUP_STEPS)
    train("talker", net, optimizer, schedule, losses, checkpoint, validate)
    return net.eval()
