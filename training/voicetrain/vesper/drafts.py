"""Acceptance of the drafter's guesses, and so what speculative decoding can gain.

Draws are a pure function of logits and noise (the Gumbel maximum), so the drafter is given the
noise that the talker will use. A guess counts when move and pitch code are both as drawn.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from ttsfamilies.vesper.net import MOVES, VesperNet, moved, token_contexts
from ttsfamilies.vesper.stream import VesperSampling
from voicetrain.vesper.speak import Cache
from voicetrain.vesper.talk import DRAFTS, Batch, hidden_states
from voicetrain.vesper.voice import Voice

TOP: Final = (1, 2, 4, 8)


class Path(NamedTuple):
    """An utterance as it was drawn: [frames] each, noise [frames + DRAFTS, MOVES + codes]."""

    tokens: Tensor
    pointer: Tensor
    held: Tensor
    move: Tensor
    code: Tensor
    noise: Tensor


def gumbel(shape: Sequence[int], seed: int) -> Tensor:
    """Noise whose maximum with logits is a draw."""
    uniform = torch.rand(*shape, generator=torch.Generator().manual_seed(seed))
    return -torch.log(-torch.log(uniform.clamp(1e-9, 1 - 1e-7)))


def path_of(voice: Voice, text: str, sampling: VesperSampling, seed: int) -> Path:
    """Draw an utterance with known noise, by drawing again what the talker's logits say."""
    tokens = torch.tensor(voice.tokens(text).ids)
    cap = 8 * len(tokens)
    noise = gumbel((cap, MOVES + voice.net.config.codebook_size), seed)
    pointer = held = torch.zeros((), dtype=torch.int64)
    rows: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    with torch.inference_mode():
        step = _Stepper(voice.net, tokens, 1 + cap)
        code = torch.tensor(voice.net.config.bos)
        while int(pointer) < len(tokens) and len(rows) < cap - DRAFTS:
            move_noise, code_noise = noise[len(rows)].split((MOVES, len(noise[0]) - MOVES))
            hidden = step(code, pointer, held)
            logits = voice.net.move_logits(hidden)
            if int(pointer) == len(tokens) - 1:
                logits[1::2] = float("-inf")
            move = (logits + sampling.move_temperature * move_noise).argmax()
            logits = voice.net.code0_logits(hidden, move)
            code = (logits + sampling.temperature * code_noise).argmax()
            rows.append((pointer, held, move, code))
            pointer, held = moved(pointer, held, move)
    pointers, helds, moves, codes = (torch.stack(column) for column in zip(*rows, strict=True))
    return Path(tokens, pointers, helds, moves, codes, noise[: len(rows) + DRAFTS])


class _Stepper:
    """The talker's hidden states of one utterance, frame after frame."""

    def __init__(self, net: VesperNet, tokens: Tensor, positions: int) -> None:
        self.net, self.pace = net, net.embed_pace(torch.ones(()))
        prosody = net.prosody(tokens[None])
        self.contexts = token_contexts(net, tokens[None], prosody)[0]
        self.cache = Cache(net, 1, positions)
        self._step(net.embed_begin(self.pace))

    def __call__(self, code: Tensor, pointer: Tensor, held: Tensor) -> Tensor:
        return self._step(self.net.embed_frame(code, self.contexts[pointer], held, self.pace))

    def _step(self, x: Tensor) -> Tensor:
        hidden = self.net.backbone(x[None], self.cache.lengths, self.cache.attend)
        self.cache.lengths = self.cache.lengths + 1
        return hidden[0]


@torch.inference_mode()
def draft_accuracies(voice: Voice, texts: Sequence[str]) -> dict[str, Any]:
    """Shares of frames whose first 1 .. DRAFTS guesses in a row are right, and of a tree's.

    chain: the drafter follows its own guesses. first_code_in_top: the true code is among so many
    of the drafter's best, given the true move.
    """
    alive_sums, frames = torch.zeros(DRAFTS), 0
    top_sums = torch.zeros(len(TOP))
    move_sum = 0.0
    for number, text in enumerate(texts):
        path = path_of(voice, text, voice.sampling, number)
        alive, top, move = _guesses(voice.net, path, voice.sampling)
        alive_sums += alive
        top_sums += top
        move_sum += move
        frames += len(path.move) - DRAFTS
    chain = (alive_sums / frames).tolist()
    return {
        "chain": [round(share, 4) for share in chain],
        "frames_a_verification": round(1 + sum(chain), 4),
        "first_move": round(move_sum / frames, 4),
        "first_code_in_top": {
            str(k): round(float(s) / frames, 4) for k, s in zip(TOP, top_sums, strict=True)
        },
    }


def _guesses(net: VesperNet, path: Path, sampling: VesperSampling) -> tuple[Tensor, Tensor, float]:
    """Counts over the frames of a path that have DRAFTS frames after them."""
    count = len(path.move) - DRAFTS
    hidden, contexts, pace = hidden_states(net, _batch_of(net, path))
    start = torch.arange(count)
    state, pointer, held = hidden[:count], path.pointer[:count], path.held[:count]
    move, code = path.move[:count], path.code[:count]
    alive, chain, top = torch.ones(count, dtype=torch.bool), [], torch.zeros(len(TOP))
    first_move = 0.0
    for ahead in range(1, DRAFTS + 1):
        pointer, held = moved(pointer, held, move)
        at = pointer.clamp(max=len(path.tokens) - 1)
        state = net.drafter.step(state, net.embed_frame(code, contexts[0, at], held, pace[0]))
        noise = path.noise[start + ahead]
        read = net.drafter.read(state)
        scores = net.drafter.move_logits(read) + sampling.move_temperature * noise[:, :MOVES]
        move = scores.argmax(-1)
        true_move, true_code = path.move[start + ahead], path.code[start + ahead]
        if ahead == 1:
            first_move = float((move == true_move).sum())
            given = net.drafter.code0_logits(read, true_move)
            given = given + sampling.temperature * noise[:, MOVES:]
            rank = (given > given.gather(1, true_code[:, None])).sum(1)
            top = torch.tensor([float((rank < k).sum()) for k in TOP])
        scores = net.drafter.code0_logits(read, move)
        code = (scores + sampling.temperature * noise[:, MOVES:]).argmax(-1)
        alive = alive & (move == true_move) & (code == true_code)
        chain.append(float(alive.sum()))
    return torch.tensor(chain), top, first_move


def _batch_of(net: VesperNet, path: Path) -> Batch:
    """One utterance as a batch of the training's kind."""
    tokens, frames = len(path.tokens), len(path.move)
    return Batch(
        path.tokens[None],
        torch.ones(1, tokens, dtype=torch.bool),
        torch.ones(1),
        1 + torch.arange(frames),
        path.pointer,
        path.held,
        torch.cat((torch.tensor([net.config.bos]), path.code[:-1])),
        torch.stack((path.code, path.code), -1),
        path.move,
        torch.zeros(frames, dtype=torch.int64),
        1 + frames,
    )
