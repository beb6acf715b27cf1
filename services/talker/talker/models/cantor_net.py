"""The cantor talker: phones to codec frames, steered by a monotonic pointer into the phones.

The recurrence sees codebook 0 and the pointer only (as the first stage of VALL-E, Wang et al.
2023). Each step predicts how far the pointer advances after this frame, then codebook 0 given
that advance. Codebooks 1.. follow outside the recurrence from a small depth transformer, and
draft heads (Medusa, Cai et al. 2024) guess the coming frames for speculative decoding.

The sequence of an utterance: speaker, phones, then one position a frame.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from talker.text.symbols import SYMBOLS
from ttscommon.nn import RMSNorm, apply_rope, rope_table

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
Pick = Callable[[Tensor, int], Tensor]

CONTEXT = 4
HELD_LIMIT = 31
FLAGS = 3


@dataclass(frozen=True)
class CantorConfig:
    """Sizes of the talker; `bos` is the code that stands for "no frame yet"."""

    symbols: int = len(SYMBOLS)
    speakers: int = 3
    codebooks: int = 4
    codebook_size: int = 512
    advances: int = 8
    drafts: int = 4
    dim: int = 256
    layers: int = 5
    heads: int = 4
    hidden: int = 680
    depth_dim: int = 160
    depth_layers: int = 2
    depth_heads: int = 4
    depth_hidden: int = 400
    positions: int = 2048
    dropout: float = 0.0

    @property
    def head_dim(self) -> int:
        return self.dim // self.heads

    @property
    def bos(self) -> int:
        return self.codebook_size


class Block(nn.Module):
    """Pre-norm attention and SwiGLU; how attention is done is the caller's business."""

    def __init__(self, dim: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = RMSNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.mlp_norm = RMSNorm(dim)
        self.gate = nn.Linear(dim, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)
        self.dropout = nn.Dropout(dropout)

    def queries(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[..., dim] -> q, k, v, each [..., heads, head_dim]."""
        q, k, v = self.qkv(self.attention_norm(x)).unflatten(-1, (3, self.heads, -1)).unbind(-3)
        return q, k, v

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """The block's output from its input and the attention's [..., heads, head_dim]."""
        x = x + self.dropout(self.out(attended.flatten(-2)))
        gate, up = self.gate(self.mlp_norm(x)).chunk(2, -1)
        return x + self.dropout(self.down(nn.functional.silu(gate) * up))


class Depth(nn.Module):
    """Residual codebooks of one frame, each from the frame's hidden state and those before it."""

    def __init__(self, c: CantorConfig) -> None:
        super().__init__()
        self.steps, self.size = c.codebooks - 1, c.codebook_size
        self.project = nn.Linear(c.dim, c.depth_dim)
        self.codes = nn.Embedding(self.steps * c.codebook_size, c.depth_dim)
        self.place = nn.Parameter(0.02 * torch.randn(self.steps, c.depth_dim))
        self.blocks = nn.ModuleList(
            Block(c.depth_dim, c.depth_heads, c.depth_hidden, c.dropout)
            for _ in range(c.depth_layers)
        )
        self.norm = RMSNorm(c.depth_dim)
        self.head = nn.Parameter(
            torch.randn(self.steps, c.depth_dim, c.codebook_size) * c.depth_dim**-0.5
        )

    def forward(self, frame: Tensor, codes: Tensor) -> Tensor:
        """Logits of codebooks 1 .. count.

        frame: [n, dim], hidden state with advance; codes: [n, count] codebooks 0 .. count - 1.
        Returns [n, count, codebook_size].
        """
        count = codes.shape[1]
        tables = torch.arange(count, device=codes.device) * self.size
        x = self.project(frame)[:, None] + self.place[:count] + self.codes(codes + tables)
        for block in self.blocks:
            assert isinstance(block, Block)
            q, k, v = block.queries(x)
            scores = torch.einsum("nqhd,nkhd->nhqk", q, k) * q.shape[-1] ** -0.5
            future = torch.ones(count, count, dtype=torch.bool, device=x.device).triu(1)
            weights = scores.masked_fill(future, float("-inf")).softmax(-1)
            x = block.finish(x, torch.einsum("nhqk,nkhd->nqhd", weights, v))
        return torch.einsum("nkd,kdv->nkv", self.norm(x), self.head[:count])


class CantorNet(nn.Module):
    """All parts of the talker. Methods work on any leading dimensions unless said otherwise."""

    cosines: Tensor
    sines: Tensor

    def __init__(self, config: CantorConfig | None = None) -> None:
        super().__init__()
        c = self.config = config or CantorConfig()
        self.speaker = nn.Embedding(c.speakers, c.dim)
        self.frame_speaker = nn.Embedding(c.speakers, c.dim)
        self.symbol = nn.Embedding(c.symbols, c.dim, padding_idx=0)
        self.flag = nn.Embedding(FLAGS, c.dim)
        self.context_symbol = nn.Embedding(CONTEXT * c.symbols, c.dim)
        self.context_flag = nn.Embedding(CONTEXT * FLAGS, c.dim)
        self.held = nn.Embedding(HELD_LIMIT + 1, c.dim)
        self.code0 = nn.Embedding(c.codebook_size + 1, c.dim)
        self.blocks = nn.ModuleList(
            Block(c.dim, c.heads, c.hidden, c.dropout) for _ in range(c.layers)
        )
        self.norm = RMSNorm(c.dim)
        self.advance_head = nn.Linear(c.dim, c.advances)
        self.advance = nn.Embedding(c.advances, c.dim)
        self.code0_head = nn.Linear(c.dim, c.codebook_size)
        self.depth = Depth(c)
        self.draft_code = nn.Embedding(c.codebook_size, c.dim)
        self.draft_in = nn.Parameter(torch.randn(c.drafts, c.dim, c.dim) * c.dim**-0.5)
        self.draft_out = nn.Parameter(
            torch.randn(c.drafts, c.dim, c.advances + c.codebook_size) * c.dim**-0.5
        )
        cosines, sines = rope_table(c.positions, c.head_dim)
        self.register_buffer("cosines", cosines, persistent=False)
        self.register_buffer("sines", sines, persistent=False)
        self._initialise()

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.05)
            elif isinstance(module, Block):
                module.out.weight.data *= 0.5
                module.down.weight.data *= 0.5

    def embed_prompt(self, symbols: Tensor, flags: Tensor, speaker: Tensor) -> Tensor:
        """The positions before the frames.

        symbols, flags: [..., phones] int64; speaker: [...] int64. Returns [..., phones + 1, dim].
        """
        phones = self.embed_phones(symbols, flags)
        return torch.cat((self.speaker(speaker).unsqueeze(-2), phones), -2)

    def embed_phones(self, symbols: Tensor, flags: Tensor) -> Tensor:
        """What a phone's position is told: [...] int64 each -> [..., dim]."""
        out: Tensor = self.symbol(symbols) + self.flag(flags)
        return out

    def embed_frame(
        self, previous: Tensor, symbols: Tensor, flags: Tensor, held: Tensor, speaker: Tensor
    ) -> Tensor:
        """What a frame's position is told.

        previous: [...] codebook 0 of the frame before, or `config.bos`.
        symbols, flags: [..., CONTEXT] the phones before, at, one after and two after the
        pointer; <pad> and a pause's flag outside the utterance.
        held: [...] frames the pointer has already stood on its phone, any number.
        speaker: [...]. Returns [..., dim].
        """
        return self.embed_history(previous) + self.embed_pointer(symbols, flags, held, speaker)

    def embed_history(self, previous: Tensor) -> Tensor:
        """The part of `embed_frame` that tells of the frame before."""
        return self.code0(previous)

    def embed_pointer(
        self, symbols: Tensor, flags: Tensor, held: Tensor, speaker: Tensor
    ) -> Tensor:
        """The part of `embed_frame` that tells of pointer and speaker."""
        places = torch.arange(CONTEXT, device=symbols.device)
        context = self.context_symbol(symbols + places * self.config.symbols)
        context = context + self.context_flag(flags + places * FLAGS)
        return context.sum(-2) + self.held(held.clamp(max=HELD_LIMIT)) + self.frame_speaker(speaker)

    def backbone(self, x: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """[..., dim] at integer positions [...] -> hidden states [..., dim].

        `attend(layer, q, k, v)` stores k and v and returns the attention of q over all
        positions of its utterance up to its own; all [..., heads, head_dim].
        """
        cosines, sines = self.cosines[positions], self.sines[positions]
        for layer, block in enumerate(self.blocks):
            assert isinstance(block, Block)
            q, k, v = block.queries(x)
            q, k = apply_rope(q, cosines, sines), apply_rope(k, cosines, sines)
            x = block.finish(x, attend(layer, q, k, v))
        out: Tensor = self.norm(x)
        return out

    def advance_logits(self, hidden: Tensor) -> Tensor:
        """[..., dim] -> [..., advances]: by how many phones the pointer moves after this frame."""
        out: Tensor = self.advance_head(hidden)
        return out

    def code0_logits(self, hidden: Tensor, advance: Tensor) -> Tensor:
        """[..., dim] and the advance chosen [...] -> [..., codebook_size]."""
        out: Tensor = self.code0_head(hidden + self.advance(advance))
        return out

    def residual_logits(self, hidden: Tensor, advance: Tensor, codes: Tensor) -> Tensor:
        """Logits of codebooks 1 .. count: [n, dim], [n], [n, count] -> [n, count, size]."""
        out: Tensor = self.depth(hidden + self.advance(advance), codes)
        return out

    def residuals(self, hidden: Tensor, advance: Tensor, code0: Tensor, pick: Pick) -> Tensor:
        """Choose codebooks 1.. of n frames at once.

        hidden: [n, dim]; advance, code0: [n]; pick(logits [n, size], codebook) -> [n] ids.
        Returns [n, codebooks - 1].
        """
        codes = code0[:, None]
        for codebook in range(1, self.config.codebooks):
            logits = self.residual_logits(hidden, advance, codes)[:, -1]
            codes = torch.cat((codes, pick(logits, codebook)[:, None]), 1)
        return codes[:, 1:]

    def draft_logits(self, hidden: Tensor, advance: Tensor, code0: Tensor) -> tuple[Tensor, Tensor]:
        """Guesses of the coming frames from one frame and what was chosen for it.

        hidden: [..., dim]; advance, code0: [...]. Returns the advance [..., drafts, advances]
        and codebook 0 [..., drafts, codebook_size] at +1 .. +drafts.
        """
        seed = hidden + self.advance(advance).detach() + self.draft_code(code0)
        x = nn.functional.silu(torch.einsum("...d,jde->...je", seed, self.draft_in))
        logits = torch.einsum("...je,jev->...jv", x + seed.unsqueeze(-2), self.draft_out)
        guessed_advance, guessed_code = logits.split(
            (self.config.advances, self.config.codebook_size), -1
        )
        return guessed_advance, guessed_code
