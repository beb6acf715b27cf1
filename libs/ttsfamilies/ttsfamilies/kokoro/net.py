"""Symbols of a segment to durations, and from those to pitch and energy.

ALBERT (Lan et al., 2020) reads the phones; durations and curves follow StyleTTS 2 (Li et al.,
2023). Every layer looks both ways, and nothing is cached. Names of modules are those of published
checkpoints, but for ALBERT's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.nn.adain import AdainResBlk1d, published
from ttscommon.engine.nn.weights import Shards, Source, filled, unfilled
from ttsfamilies.kokoro.sizes import AlbertSizes, KokoroConfig, load_config

_EPS: Final = 1e-12
_LAYER: Final = "encoder.albert_layer_groups.0.albert_layers.0."
_UNUSED: Final = ("pooler.", "embeddings.position_ids", "embeddings.token_type_ids")
_VOCODERS: Final = ("text_encoder.", "decoder.")


class Albert(nn.Module):
    """One transformer layer, applied several times to embeddings of their own width."""

    def __init__(self, c: KokoroConfig) -> None:
        super().__init__()
        sizes = c.plbert
        self._rounds = sizes.num_hidden_layers
        self.symbols = nn.Embedding(c.n_token, sizes.embedding_size)
        self.places = nn.Embedding(sizes.max_position_embeddings, sizes.embedding_size)
        self.kinds = nn.Embedding(2, sizes.embedding_size)
        self.norm = nn.LayerNorm(sizes.embedding_size, eps=_EPS)
        self.widen = nn.Linear(sizes.embedding_size, sizes.hidden_size)
        self.layer = AlbertLayer(sizes)

    def begin(self, ids: Tensor) -> Tensor:
        """[symbols] int64 -> [symbols, hidden], what the first layer is shown."""
        x = self.symbols(ids) + self.kinds.weight[0] + self.places.weight[: len(ids)]
        return self.widen(self.norm(x))

    def layers(self, x: Tensor, first: int, end: int) -> Tensor:
        """Layers first .. end, as far as there are any: [symbols, hidden] -> the same."""
        for _ in range(first, min(end, self._rounds)):
            x = self.layer(x)
        return x

    def forward(self, ids: Tensor) -> Tensor:
        """[symbols] int64 -> [symbols, hidden]."""
        return self.layers(self.begin(ids), 0, self._rounds)


class AlbertLayer(nn.Module):
    def __init__(self, sizes: AlbertSizes) -> None:
        super().__init__()
        dim, self._heads = sizes.hidden_size, sizes.num_attention_heads
        self.query, self.key = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.value, self.out = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.attention_norm = nn.LayerNorm(dim, eps=_EPS)
        self.rise = nn.Linear(dim, sizes.intermediate_size)
        self.fall = nn.Linear(sizes.intermediate_size, dim)
        self.norm = nn.LayerNorm(dim, eps=_EPS)

    def forward(self, x: Tensor) -> Tensor:
        """[symbols, hidden] -> the same."""
        q, k, v = (
            one(x).unflatten(-1, (self._heads, -1)).transpose(0, 1)
            for one in (self.query, self.key, self.value)
        )
        weights = (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1)
        x = self.attention_norm(x + self.out((weights @ v).transpose(0, 1).flatten(1)))
        risen = nn.functional.gelu(self.rise(x), approximate="tanh")
        return self.norm(x + self.fall(risen))


_ALBERT: Final = {
    "symbols.": "embeddings.word_embeddings.",
    "places.": "embeddings.position_embeddings.",
    "kinds.": "embeddings.token_type_embeddings.",
    "norm.": "embeddings.LayerNorm.",
    "widen.": "encoder.embedding_hidden_mapping_in.",
    "layer.out.": f"{_LAYER}attention.dense.",
    "layer.attention_norm.": f"{_LAYER}attention.LayerNorm.",
    "layer.rise.": f"{_LAYER}ffn.",
    "layer.fall.": f"{_LAYER}ffn_output.",
    "layer.norm.": f"{_LAYER}full_layer_layer_norm.",
    "layer.": f"{_LAYER}attention.",
}


def _albert_name(key: str) -> str:
    ours = next(name for name in _ALBERT if key.startswith(name))
    return _ALBERT[ours] + key.removeprefix(ours)


class StyledNorm(nn.Module):
    """LayerNorm over channels, with scale and shift of the style."""

    def __init__(self, style_dim: int, channels: int) -> None:
        super().__init__()
        self.fc = nn.Linear(style_dim, 2 * channels)

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        """[symbols, channels] and [style_dim] -> the first's shape."""
        gamma, beta = self.fc(style).chunk(2)
        return (1 + gamma) * nn.functional.layer_norm(x, x.shape[1:]) + beta


class DurationEncoder(nn.Module):
    """Recurrences over the symbols, each told the style and normed by it."""

    def __init__(self, c: KokoroConfig) -> None:
        super().__init__()
        self.lstms = nn.ModuleList()
        for _ in range(c.n_layer):
            self.lstms.append(_both_ways(c))
            self.lstms.append(StyledNorm(c.style_dim, c.hidden_dim))

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        """[symbols, hidden_dim] and [style_dim] -> [symbols, hidden_dim + style_dim]."""
        told = style.expand(len(x), -1)
        for layer in self.lstms:
            x = layer(torch.cat((x, told), 1))[0] if isinstance(layer, nn.LSTM) else layer(x, style)
        return torch.cat((x, told), 1)


def _both_ways(c: KokoroConfig) -> nn.LSTM:
    return nn.LSTM(c.hidden_dim + c.style_dim, c.hidden_dim // 2, bidirectional=True)


class Projection(nn.Module):
    """A linear layer by its published name."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear_layer = nn.Linear(inputs, outputs)


class Predictor(nn.Module):
    """Durations, pitch and energy."""

    def __init__(self, c: KokoroConfig) -> None:
        super().__init__()
        self.text_encoder = DurationEncoder(c)
        self.lstm = _both_ways(c)
        self.duration_proj = Projection(c.hidden_dim, c.max_dur)
        self.shared = _both_ways(c)
        self.F0, self.N = _curve(c), _curve(c)
        self.F0_proj = nn.Conv1d(c.hidden_dim // 2, 1, 1)
        self.N_proj = nn.Conv1d(c.hidden_dim // 2, 1, 1)

    def durations(self, rows: Tensor, pace: Tensor) -> Tensor:
        """Encoded symbols, and how many times as fast each is spoken -> [symbols] int64 frames."""
        spans = torch.sigmoid(self.duration_proj.linear_layer(self.lstm(rows)[0])).sum(1)
        return torch.round(spans / pace).clamp(min=1).long()

    def curves(self, rows: Tensor, style: Tensor) -> Tensor:
        """Encoded symbols, repeated frame by frame -> [2, 2 * frames], pitch in Hz and energy."""
        shared, found = self.shared(rows)[0].mT[None], []
        for blocks, project in ((self.F0, self.F0_proj), (self.N, self.N_proj)):
            x = shared
            for block in blocks:
                x = block(x, style)
            found.append(project(x)[0])
        return torch.cat(found)


def _curve(c: KokoroConfig) -> nn.ModuleList:
    wide, narrow, style = c.hidden_dim, c.hidden_dim // 2, c.style_dim
    return nn.ModuleList(
        (
            AdainResBlk1d(wide, wide, style),
            AdainResBlk1d(wide, narrow, style, doubles=True),
            AdainResBlk1d(narrow, narrow, style),
        )
    )


class KokoroProsody(nn.Module):
    """The networks of the talker's stage."""

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        self.config = config
        self.bert = Albert(config)
        self.bert_encoder = nn.Linear(config.plbert.hidden_size, config.hidden_dim)
        self.predictor = Predictor(config)

    def forward(self, hidden: Tensor, pace: Tensor, style: Tensor) -> tuple[Tensor, Tensor]:
        """ALBERT's [symbols, hidden], [symbols] and [style_dim] -> durations and curves; see
        Predictor.
        """
        rows = self.predictor.text_encoder(self.bert_encoder(hidden), style)
        durations = self.predictor.durations(rows, pace)
        return durations, self.predictor.curves(rows.repeat_interleave(durations, 0), style)


def sources(net: KokoroProsody, inner: str = "module.") -> dict[str, Source]:
    """Every parameter's published tensors. inner: what their names have behind the network's."""
    found = {}
    for key in net.bert.state_dict():
        found[f"bert.{key}"] = Source((f"bert.{inner}{_albert_name(key)}",))
    for name in ("bert_encoder", "predictor"):
        parts = published(net.get_submodule(name), f"{name}.{inner}")
        found |= {f"{name}.{key}": source for key, source in parts.items()}
    return found


def load_net(folder: Path, device: str = "cpu") -> KokoroProsody:
    """The networks in a checkpoint's folder, in float32; raises CheckpointError."""
    net = unfilled(KokoroProsody, load_config(folder))
    others = (*_VOCODERS, *(f"bert.module.{name}" for name in _UNUSED))
    return filled(net, sources(net), Shards.of(folder), others=others, device=device)
