"""The vesper talker: tokens to codec frames at 20 Hz, steered by a pointer into the tokens.

A frame is two units of 25 ms, and in each unit the pointer stands on one token; from unit to unit
it stays or moves on by one. So a frame makes one of four moves, and the pointer's path is the
exact durations of all tokens. Each step chooses the move, then codebook 0 (pitch) given the move;
both, and nothing else, go back into the recurrence. Codebook 1 (energy) follows outside of it;
codebooks 2 and 3 (text) are what the text encoder made of the pointer's tokens, quantised. A
recurrent drafter (Cheng et al. 2024, ReDrafter) guesses the coming frames for speculative decoding.

There is no prompt: the text encoder has read the whole utterance, both ways, and a frame is told
what it made of the tokens around the pointer. The sequence of an utterance: one position for its
pace, then one a frame.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ttscommon.engine.kernels.blocks import swiglu
from ttscommon.engine.nn import RMSNorm, TransformerBlock, rope_table
from ttsfamilies.vesper.text import VesperTextEncoder

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]

BEFORE: Final = 1
CONTEXT: Final = 6
"""Tokens around the pointer that a frame is told: one before, the one at it, four after."""
HELD_LIMIT: Final = 47
MOVES: Final = 4
"""A move is `first + 2 * second`: whether the pointer moves on after either unit of a frame."""


@dataclass(frozen=True)
class VesperConfig:
    """Sizes of the talker; `bos` is the pitch code that stands for "no frame yet".

    codebook_size: entries of codebooks 0 and 1; text_codes: of codebooks 2 and 3.
    """

    symbols: int = 178
    codebook_size: int = 512
    text_codes: int = 2048
    text_dim: int = 128
    text_rounds: int = 4
    prosody_dim: int = 192
    prosody_rounds: int = 6
    dim: int = 256
    layers: int = 5
    heads: int = 4
    hidden: int = 704
    energy_hidden: int = 384
    draft_hidden: int = 512
    positions: int = 2048
    dropout: float = 0.0

    @property
    def head_dim(self) -> int:
        return self.dim // self.heads

    @property
    def bos(self) -> int:
        return self.codebook_size


Whole = TypeVar("Whole", Tensor, NDArray[Any])


def moved(pointer: Whole, held: Whole, move: Whole) -> tuple[Whole, Whole]:
    """Pointer and units already held there, [...] integers each, at the frame after a move."""
    first, second = move & 1, move >> 1
    return pointer + first + second, (1 - second) * (first + (1 - first) * (held + 2))


def refusals() -> Tensor:
    """[8, MOVES]: -inf where a move is refused. Bits: at the last token, late, too early."""
    table = torch.zeros(8, MOVES)
    table[1::2, 1::2] = table[[2, 3, 6, 7], 0] = table[4:, 1:] = float("-inf")
    return table


class VesperNet(nn.Module):
    """All parts of the talker. Methods work on any leading dimensions unless said otherwise."""

    cosines: Tensor
    sines: Tensor
    refused: Tensor

    def __init__(self, config: VesperConfig | None = None) -> None:
        super().__init__()
        c = self.config = config or VesperConfig()
        self.text = VesperTextEncoder(c.symbols, c.text_dim, c.text_rounds)
        self.prosody = VesperTextEncoder(c.symbols, c.prosody_dim, c.prosody_rounds)
        self.text_table = nn.Parameter(torch.zeros(2, c.text_codes, 2 * c.text_dim))
        self.pace = nn.Linear(4, c.dim)
        self.begin = nn.Parameter(0.05 * torch.randn(c.dim))
        self.context_symbol = nn.Embedding(CONTEXT * c.symbols, c.dim)
        self.context_token = nn.Linear(3 * c.prosody_dim, c.dim, bias=False)
        self.held = nn.Embedding(HELD_LIMIT + 1, c.dim)
        self.code0 = nn.Embedding(c.codebook_size + 1, c.dim)
        self.blocks = nn.ModuleList(
            TransformerBlock(c.dim, c.heads, c.hidden, c.dropout) for _ in range(c.layers)
        )
        self.norm = RMSNorm(c.dim)
        self.move_head = nn.Linear(c.dim, MOVES)
        self.move = nn.Embedding(MOVES, c.dim)
        self.code0_head = nn.Linear(c.dim, c.codebook_size)
        self.energy = Energy(c)
        self.drafter = Drafter(c)
        cosines, sines = rope_table(c.positions, c.head_dim)
        self.register_buffer("cosines", cosines, persistent=False)
        self.register_buffer("sines", sines, persistent=False)
        self.register_buffer("refused", refusals(), persistent=False)
        self._initialise()

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.05)
            elif isinstance(module, TransformerBlock):
                module.out.weight.data *= 0.5
                module.down.weight.data *= 0.5

    def embed_pace(self, pace: Tensor) -> Tensor:
        """[...] speed, 1 is normal -> [..., dim]."""
        away = (pace.log() / math.log(1.5)).clamp(-1.2, 1.2)
        out: Tensor = self.pace(torch.stack((torch.ones_like(away), away, away**2, away**3), -1))
        return out

    def embed_begin(self, pace: Tensor) -> Tensor:
        """The one position before the frames, [..., dim], from `embed_pace`'s [..., dim]."""
        return pace + self.begin

    def embed_context(self, around: Tensor, prosody: Tensor) -> Tensor:
        """What a frame is told of the tokens at its pointer; the same for all frames there.

        around: [..., CONTEXT] int64 tokens from BEFORE before the pointer on, 0 outside;
        prosody: [..., 3, prosody_dim] of the pointer's token and the two after it, zeros outside.
        """
        places = torch.arange(CONTEXT, device=around.device) * self.config.symbols
        symbols = self.context_symbol(around + places).sum(-2)
        out: Tensor = symbols + self.context_token(prosody.flatten(-2))
        return out

    def embed_frame(self, previous: Tensor, context: Tensor, held: Tensor, pace: Tensor) -> Tensor:
        """What a frame's position is told, [..., dim].

        previous: [...] codebook 0 of the frame before, or `config.bos`. context: [..., dim] from
        `embed_context`. held: [...] units the pointer has already stood there, any number. pace:
        [..., dim].
        """
        return self.embed_history(previous) + self.embed_pointer(context, held, pace)

    def embed_history(self, previous: Tensor) -> Tensor:
        """The part of `embed_frame` that tells of the frame before."""
        out: Tensor = self.code0(previous)
        return out

    def embed_pointer(self, context: Tensor, held: Tensor, pace: Tensor) -> Tensor:
        """The part of `embed_frame` that tells of pointer and pace."""
        return context + self.embed_held(held) + pace

    def embed_held(self, held: Tensor) -> Tensor:
        """[...] units that the pointer has already stood there -> [..., dim]."""
        out: Tensor = self.held(held.clamp(max=HELD_LIMIT))
        return out

    def backbone(self, x: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """[..., dim] at integer positions [...] -> hidden states [..., dim].

        `attend(layer, q, k, v)` stores k and v and returns the attention of q over all
        positions of its utterance up to its own; all [..., heads, head_dim].
        """
        cosines, sines = (t[positions][..., None, None, :] for t in (self.cosines, self.sines))
        for layer, block in enumerate(self.blocks):
            assert isinstance(block, TransformerBlock)
            x = block.finish(x, attend(layer, *block.queries(x, cosines, sines)))
        out: Tensor = self.norm(x)
        return out

    def move_logits(self, hidden: Tensor) -> Tensor:
        """[..., dim] -> [..., MOVES]."""
        out: Tensor = self.move_head(hidden)
        return out

    def code0_logits(self, hidden: Tensor, move: Tensor) -> Tensor:
        """[..., dim] and the move chosen [...] -> [..., codebook_size]."""
        out: Tensor = self.code0_head(hidden + self.move(move))
        return out

    def energy_logits(self, hidden: Tensor, move: Tensor, code0: Tensor) -> Tensor:
        """Codebook 1 given all that was chosen for the frame: [..., codebook_size]."""
        out: Tensor = self.energy(hidden + self.move(move), code0)
        return out


@torch.no_grad()
def round_steps(net: VesperNet) -> None:
    """Round the weights that each step reads to 127 steps to either side, with a scale for each
    output: the numbers that compiled steps multiply with, on any machine.
    """
    for part in (net.blocks, net.move_head, net.code0_head, net.drafter):
        for layer in part.modules():
            if isinstance(layer, nn.Linear):
                scale = layer.weight.abs().amax(1, keepdim=True).clamp(min=1e-12) / 127
                layer.weight.copy_((layer.weight / scale).round() * scale)


def token_contexts(net: VesperNet, tokens: Tensor, prosody: Tensor) -> Tensor:
    """`embed_context` at every token: [batch, tokens], [batch, tokens, prosody] -> [.., dim]."""
    around = nn.functional.pad(tokens, (BEFORE, CONTEXT - 1 - BEFORE)).unfold(1, CONTEXT, 1)
    ahead = nn.functional.pad(prosody, (0, 0, 0, 2)).unfold(1, 3, 1).transpose(-1, -2)
    return net.embed_context(around, ahead)


class Energy(nn.Module):
    """Codebook 1 of a frame from its hidden state and codebook 0."""

    def __init__(self, c: VesperConfig) -> None:
        super().__init__()
        self.code0 = nn.Embedding(c.codebook_size, c.dim)
        self.norm = RMSNorm(c.dim)
        self.gate = nn.Linear(c.dim, 2 * c.energy_hidden, bias=False)
        self.down = nn.Linear(c.energy_hidden, c.dim, bias=False)
        self.head = nn.Linear(c.dim, c.codebook_size)

    def forward(self, frame: Tensor, code0: Tensor) -> Tensor:
        """frame: [..., dim]; code0: [...]. Returns [..., codebook_size]."""
        x, normed = self.norm.of_sum(frame, self.code0(code0))
        out: Tensor = self.head(x + self.down(swiglu(self.gate(normed))))
        return out


class Drafter(nn.Module):
    """Guesses one frame after the other from a frame's hidden state, without attention.

    A state of [..., dim] begins as the hidden state of the last frame that is certain; `step`
    tells it what the next frame's position would be told (`VesperNet.embed_frame` of the move and
    code just drafted), and `move_logits` and `code0_logits` of its `read` guess that frame.
    """

    def __init__(self, c: VesperConfig) -> None:
        super().__init__()
        self.told = nn.Linear(c.dim, c.dim, bias=False)
        self.norm = RMSNorm(c.dim)
        self.gate = nn.Linear(c.dim, 2 * c.draft_hidden, bias=False)
        self.down = nn.Linear(c.draft_hidden, c.dim, bias=False)
        self.out_norm = RMSNorm(c.dim)
        self.move_head = nn.Linear(c.dim, MOVES)
        self.move = nn.Embedding(MOVES, c.dim)
        self.code0_head = nn.Linear(c.dim, c.codebook_size)

    def step(self, state: Tensor, told: Tensor) -> Tensor:
        """The state one frame later; both [..., dim]."""
        x, normed = self.norm.of_sum(state, self.told(told))
        out: Tensor = x + self.down(swiglu(self.gate(normed)))
        return out

    def read(self, state: Tensor) -> Tensor:
        """What the guesses of a state's frame are made from, [..., dim]."""
        return self.out_norm.of_sum(state, None)[1]

    def move_logits(self, read: Tensor) -> Tensor:
        """From `read`, [..., dim] -> [..., MOVES]."""
        out: Tensor = self.move_head(read)
        return out

    def code0_logits(self, read: Tensor, move: Tensor) -> Tensor:
        """From `read`, [..., dim], and the move [...] -> [..., codebook_size]."""
        out: Tensor = self.code0_head(read + self.move(move))
        return out
