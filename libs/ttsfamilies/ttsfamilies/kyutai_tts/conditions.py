"""Conditions of a request besides its text: guidance, and a voice to attend to."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.nn.weights import Source, named
from ttsfamilies.kyutai_tts.config import CONTROL, GUIDANCE, SPEAKER, SPEAKERS, KyutaiConfig

_THEIRS: Final = "condition_provider.conditioners."


class StepConditions(nn.Module):
    """Always float32. told: [guidances, dim], what each step is told with each of them."""

    conditioning: Tensor

    def __init__(self, config: KyutaiConfig) -> None:
        super().__init__()
        self.config = config
        self.tables = nn.ModuleDict(
            {name: nn.Embedding(lut.n_bins + 1, lut.dim) for name, lut in config.tables.items()}
        )
        widths = {name: lut.dim for name, lut in config.tables.items()}
        widths[SPEAKER] = config.voice_values
        self.widen = nn.ModuleDict(
            {name: nn.Linear(width, config.dim, bias=False) for name, width in widths.items()}
        )
        self.absent = nn.ParameterDict(
            {name: nn.Parameter(torch.empty(1, 1, config.dim)) for name in widths}
        )
        self.register_buffer("conditioning", torch.empty(0), persistent=False)

    @torch.no_grad()
    def settle(self) -> None:
        """Make the table; to be called when the parameters are loaded."""
        c = self.config
        control = self._value(CONTROL, c.tables[CONTROL].possible_values.index("ok"))
        values = range(len(c.guidances))
        self.conditioning = torch.stack([control + self._value(GUIDANCE, i) for i in values])

    def _value(self, name: str, index: int) -> Tensor:
        table = self.tables[name]
        assert isinstance(table, nn.Embedding)
        return self.widen[name](table.weight[index])

    @torch.no_grad()
    def voice(self, values: Tensor) -> Tensor:
        """A voice's [positions, values] -> all that is attended to, [positions * SPEAKERS, dim]."""
        spoken = self.widen[SPEAKER](values)
        others = self.absent[SPEAKER][0].expand(len(values) * (SPEAKERS - 1), -1)
        whole = torch.cat((spoken, others))
        if not self.config.fuser.cross_attention_pos_emb:
            return whole
        return whole + self.config.fuser.cross_attention_pos_emb_scale * _waves(whole)


def _waves(like: Tensor) -> Tensor:
    """Cosines and sines of each position, [positions, dim]."""
    half = like.shape[1] // 2
    steps = torch.arange(half, device=like.device, dtype=like.dtype)
    periods = torch.tensor(10_000.0, dtype=like.dtype, device=like.device) ** (steps / (half - 1))
    angle = torch.arange(len(like), device=like.device, dtype=like.dtype)[:, None] / periods
    return torch.cat((angle.cos(), angle.sin()), -1)


def condition_sources(net: StepConditions, ours: str) -> dict[str, Source]:
    """Every parameter's published tensors."""
    places = {
        **{f"widen.{name}": f"{name}.output_proj" for name in net.absent},
        **{f"absent.{name}": f"{name}.learnt_padding" for name in net.absent},
        **{f"tables.{name}": f"{name}.embed" for name in net.tables},
    }
    return named(net, places, ours, _THEIRS)
