"""Stacks of blocks by their sizes, and how the codes of a frame are made.

One after the other within a step of the backbone, or in delayed rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ttscommon.engine.delay_pattern import DelayPattern
from ttscommon.engine.kernels.blocks import HeadRotation
from ttscommon.engine.kernels.few_rows import multiply
from ttscommon.engine.nn import Decoder, DecoderConfig, Llama3Scaling, RopeConfig
from ttscommon.wire.fields import Array, Field
from ttsfamilies.base.kernels.attention import attend_frame
from ttsfamilies.base.lm.llama import StackSizes
from ttsfamilies.base.lm.turns import FRAME
from ttsfamilies.base.sampling import Noise, Rules, Settings, draw_alone


def decoder_config(c: StackSizes) -> DecoderConfig:
    """The stack of blocks."""
    s = c.scaling
    scaling = s and Llama3Scaling(
        s["factor"],
        s["low_freq_factor"],
        s["high_freq_factor"],
        s["original_max_position_embeddings"],
    )
    return DecoderConfig(
        dim=c.hidden_size,
        layers=c.num_hidden_layers,
        heads=c.num_attention_heads,
        kv_heads=c.num_key_value_heads,
        head_dim=c.head_size,
        hidden=c.intermediate_size,
        eps=c.rms_norm_eps,
        rope=RopeConfig(theta=c.theta, scaling=scaling or None),
        qkv_bias=c.qkv_bias,
        out_bias=c.attention_bias,
    )


class CodesTable(nn.Embedding):
    """Entries of all codebooks, `each` of one behind the other; a frame is the sum of its own."""

    def __init__(self, codebooks: int, each: int, dim: int) -> None:
        super().__init__(codebooks * each, dim)
        self.each = each

    def forward(self, codes: Tensor) -> Tensor:
        """[..., codebooks] int64 -> [..., dim]."""
        tables = torch.arange(codes.shape[-1], device=codes.device) * self.each
        return super().forward(codes + tables).sum(-2)


def text_or_frames(
    text: Tensor, codes: Tensor, words: nn.Embedding, frames: Callable[[Tensor], Tensor]
) -> Tensor:
    """Ids [tokens] int64, FRAME where codes [tokens, codebooks] stand -> [tokens, dim]: what
    `words` or `frames` make of each.
    """
    said: Tensor = words(text.clamp(min=0))
    return torch.where((text == FRAME)[:, None], frames(codes), said)


# The codes of a frame, made one after the other within a step of the backbone.
#
# A depth transformer sees one frame only. Its keys and values live in scratch of that frame: two
# positions go in first (the backbone's hidden state and codebook 0), then one a codebook. All
# shapes are fixed by the number of rows, so that a whole frame can be captured as one graph.


class CodeDraw(Protocol):
    """Chooses the ids of one codebook."""

    def __call__(self, logits: Tensor, codebook: int, rules: Rules | None = None) -> Tensor:
        """logits: [rows, vocabulary], `rules` not applied yet -> [rows] int64."""


class Picks:
    """Draws codebook after codebook of one frame, the first by the talker's settings."""

    def __init__(self, talker: Settings, depth: Settings, noise: Noise) -> None:
        self._talker, self._depth, self._noise = talker, depth, noise

    @classmethod
    def of(cls, state: Mapping[str, Tensor], noise: Noise) -> Self:
        """As a slot's state has them of a LayeredDrawing."""
        return cls(Settings.of(state), Settings.of(state, "subtalker_"), noise)

    def __call__(self, logits: Tensor, codebook: int, rules: Rules | None = None) -> Tensor:
        settings = self._depth if codebook else self._talker
        return draw_alone(logits, self._noise, codebook, settings, rules)


class Scratch:
    """Keys and values of one frame, [layers, rows, codebooks, kv_heads, head_dim] float32."""

    def __init__(self, c: DecoderConfig, rows: int, codebooks: int, like: Tensor) -> None:
        shape = (c.layers, rows, codebooks, c.kv_heads, c.head_dim)
        exact = torch.promote_types(like.dtype, torch.float32)
        self.keys = like.new_empty(shape, dtype=exact)
        self.values = like.new_empty(shape, dtype=exact)
        self.filled, self._dtype = 0, like.dtype

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """q, k, v: [rows, new, heads, head_dim], at the positions behind `filled`."""
        return attend_frame(q, k, v, self.keys[layer], self.values[layer], self.filled)

    def of_product(self, layer: int, heads: Tensor, rotation: HeadRotation) -> Tensor:
        """See AttendsProducts."""
        q, k, v = rotation.parts(heads)
        known = self.keys[layer], self.values[layer], self.filled
        return attend_frame(q, k, v, *known, rotation, self._dtype)


class DepthTransformer(nn.Module):
    """Decoder, one embedding table and one head for each residual codebook.

    A family has `project`, from the backbone's width to the decoder's, and says which table and
    which head are a codebook's.
    """

    project: nn.Module

    def __init__(self, c: DecoderConfig, residuals: int) -> None:
        super().__init__()
        self.residuals = residuals
        self.decoder = Decoder(c)

    @abstractmethod
    def table(self, codebook: int) -> Tensor:
        """What codes of a codebook (0 is the backbone's) are embedded as: [codes, backbone dim]."""

    @abstractmethod
    def head(self, codebook: int) -> Tensor:
        """Of a residual codebook: [vocabulary, dim]."""

    def embed(self, codes: Tensor, codebook: int) -> Tensor:
        """Codes [rows] of one codebook -> [rows, backbone dim]."""
        return functional.embedding(codes, self.table(codebook))

    def forward(self, hidden: Tensor, first: Tensor, pick: CodeDraw) -> Tensor:
        """Choose the residual codes of a frame.

        hidden: [rows, backbone dim]; first: [rows, backbone dim], codebook 0 embedded.
        Returns [rows, residuals] int64.
        """
        scratch = Scratch(self.decoder.config, len(hidden), self.residuals + 1, hidden)
        positions = torch.arange(self.residuals + 1, device=hidden.device)
        angles = self.decoder.rope.angles(positions)
        inputs, codes = self.project(torch.stack((hidden, first), 1)), []
        for codebook in range(1, self.residuals + 1):
            codes.append(pick(self._logits(inputs, codebook, scratch, angles), codebook))
            if codebook < self.residuals:
                inputs = self._projected(codes[-1], codebook)[:, None]
        return torch.stack(codes, 1)

    def _projected(self, codes: Tensor, codebook: int) -> Tensor:
        """Codes [rows] of one codebook -> [rows, dim], on a device in one kernel."""
        project, table = self.project, self.table(codebook)
        if isinstance(project, nn.Linear) and self.decoder.multiplies(codes, project):
            return multiply(table, project.weight, project.bias, ids=codes)
        return project(functional.embedding(codes, table))

    def _logits(
        self, inputs: Tensor, codebook: int, scratch: Scratch, angles: tuple[Tensor, Tensor]
    ) -> Tensor:
        first, last = scratch.filled, scratch.filled + inputs.shape[1]
        cosines, sines = (every[first:last] for every in angles)
        logits = self.decoder.headed(inputs, (cosines, sines), scratch, self.head(codebook))
        scratch.filled = last
        return logits


# Rows of delayed codes: which codebooks of a row are drawn, and which row is the last.
#
# A slot's state is three numbers (`COUNTS`), which follow from the rows: a successor folds those
# that are logged through the function that moves it on. `made`: rows so far. `since`: rows from
# the one on in which the first codebook ended, 0 before. `left`: rows that still complete frames,
# of no meaning before.


COUNTS: Final = dict.fromkeys(("made", "since", "left"), Field((), "i8"))


class Ending(NamedTuple):
    """Of each row of a launch: [rows] int64. See above."""

    since: Tensor
    left: Tensor

    @property
    def over(self) -> Tensor:
        """[rows] bool: the row is the last that completes a frame."""
        return (self.since > 0) & (self.left < 1)


def unbegun(made: Tensor, delays: Tensor) -> Tensor:
    """[rows], [codebooks] -> [rows, codebooks] bool: the first frame's code comes later."""
    return made[:, None] < delays


def closed(since: Tensor, delays: Tensor) -> Tensor:
    """[rows], [codebooks] -> [rows, codebooks] bool: the codebook has ended by its delay."""
    return since[:, None] > delays


def ending(ends: Tensor, before: Ending, most: int) -> Ending:
    """Behind a row in which `ends` [rows, codebooks] bool are over; most: see DelayPattern.

    A frame lacks a code where its first codebook has ended, and the frames before it are whole.
    """
    begins = (before.since == 0) & ends.any(-1)
    since = torch.where(before.since > 0, before.since + 1, begins.long())
    left = torch.where(begins, most - ends[:, 0].long(), before.left - 1)
    return Ending(since, left)


def counts(ends: Array, delay_pattern: DelayPattern) -> dict[str, int]:
    """COUNTS behind rows of which `ends` [rows, codebooks] bool are over: as `ending` has them."""
    told = Ending(torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64))
    begun = np.logical_or.accumulate(ends.any(1))  # before that, nothing but `made` moves
    for row in torch.from_numpy(ends[begun]):
        told = ending(row[None], told, delay_pattern.most)
    return {"made": len(ends), "since": int(told.since), "left": int(told.left)}


def is_over(ends: Array, delay_pattern: DelayPattern) -> bool:
    """Whether rows of which `ends` [rows, codebooks] bool are over complete all their frames."""
    told = counts(ends, delay_pattern)
    return told["since"] > 0 and told["left"] < 1
