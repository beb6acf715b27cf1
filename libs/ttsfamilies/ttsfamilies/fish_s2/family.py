"""Fish Audio S2 in the engine: a frame a step, its residual codes by the fast transformer.

A semantic code that stands in one of the last frames is drawn again, from more ids (VALL-E 2: Chen
et al., 2024). Residual codes are drawn from 4096, logged and fed back as they are; the codec has
fewer, and reads those beyond as the last of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import structlog
import torch
from torch import Tensor, nn

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.engine.nn import Attend, Decoder, RopeConfig
from ttscommon.engine.nn.decoder import DecoderConfig
from ttscommon.engine.nn.weights import Shards, Source, filled, named, unfilled
from ttscommon.wire.fields import NOTHING, Derived, Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.replicas import MANY, Voice
from ttsfamilies.base.lm.codes import CodesTable, DepthTransformer
from ttsfamilies.base.lm.request import fields_of
from ttsfamilies.base.lm.stepped import CodesModel
from ttsfamilies.base.lm.tokenizer import TextTokenizer
from ttsfamilies.base.lm.turns import EncodedTurn
from ttsfamilies.base.sampling import Noise, Settings, draw_unscaled
from ttsfamilies.base.talker.base import NUMBER, CacheSpec, ModelSpec, known_voice, stated
from ttsfamilies.base.talker.lmstream import REPLAY
from ttsfamilies.base.talker.options import ON_CPU, ModelOptions
from ttsfamilies.fish_s2.config import (
    WINDOW,
    FishConfig,
    FishStack,
    Voices,
    load_config,
    load_voices,
)
from ttsfamilies.fish_s2.facts import FAMILY
from ttsfamilies.fish_s2.request import PARAMETERS, FishDrawing, FishPrepared, FishStream

# The networks of Fish Audio S2: a slow transformer over text and frames, a fast one over a frame.
#
# A frame's input is its semantic code twice, as a token of the text and as a code, and its other
# codes, all of them added up.
#
# All of them rotate neighbouring channels, by tables that are rounded to bfloat16. Here they
# rotate halves, of heads whose channels are put in that order when they are loaded: products of
# queries and keys are the same, and kernels that rotate halves serve them.


def stack_sources(net: Decoder, ours: str, theirs: str) -> dict[str, Source]:
    """Every parameter; what both begin with, dot included."""
    c, found = net.config, named(net, _STACK, ours, theirs)
    paired = dict.fromkeys(("q_norm", "k_norm"), c.head_dim)
    paired["qkv"] = (c.heads + c.kv_heads) * c.head_dim
    for name, source in found.items():
        if rows := paired.get(name.split(".")[-2]):
            found[name] = replace(source, paired=(rows, c.head_dim))
    for layer in range(c.layers):
        gates = tuple(f"{theirs}layers.{layer}.feed_forward.{part}.weight" for part in ("w1", "w3"))
        found[f"{ours}blocks.{layer}.mlp.gate_up.weight"] = Source(gates, (c.hidden, c.hidden))
    return found


_STACK: Final = {
    "norm": "norm",
    "blocks.*.attention_norm": "layers.*.attention_norm",
    "blocks.*.attention_scale.weight": "layers.*.attention_layer_scale.gamma",
    "blocks.*.attention.qkv": "layers.*.attention.wqkv",
    "blocks.*.attention.q_norm": "layers.*.attention.q_norm",
    "blocks.*.attention.k_norm": "layers.*.attention.k_norm",
    "blocks.*.attention.out": "layers.*.attention.wo",
    "blocks.*.mlp_norm": "layers.*.ffn_norm",
    "blocks.*.mlp_scale.weight": "layers.*.ffn_layer_scale.gamma",
    "blocks.*.mlp.down": "layers.*.feed_forward.w2",
}


SLOW: Final = "text_model.model."
FAST: Final = "audio_decoder."


def stack_config(c: FishStack) -> DecoderConfig:
    """The stack of blocks."""
    return DecoderConfig(
        dim=c.dim,
        layers=c.n_layer,
        heads=c.n_head,
        kv_heads=c.n_local_heads,
        head_dim=c.head_dim,
        hidden=c.intermediate_size,
        eps=c.norm_eps,
        rope=RopeConfig(theta=c.rope_base, rounded=True),
        qk_norm=c.attention_qk_norm,
    )


class FastTransformer(DepthTransformer):
    """One table and one head for all codebooks."""

    def __init__(self, c: FishConfig) -> None:
        super().__init__(stack_config(c.fast), c.codebooks - 1)
        self.project = nn.Identity()
        self.codes = nn.Embedding(c.codes, c.fast.dim)
        self.out = nn.Linear(c.fast.dim, c.codes, bias=False)

    def table(self, codebook: int) -> Tensor:
        return self.codes.weight

    def head(self, codebook: int) -> Tensor:
        return self.out.weight


class FishNet(nn.Module):
    """All parts of the talker."""

    choices: Tensor

    def __init__(self, config: FishConfig) -> None:
        super().__init__()
        self.config = config
        self.text = nn.Embedding(config.slow.vocab_size, config.slow.dim)
        self.codes = CodesTable(config.codebooks, config.codes, config.slow.dim)
        self.slow = Decoder(stack_config(config.slow))
        self.fast = FastTransformer(config)
        self.register_buffer("choices", torch.empty(0), persistent=False)

    def freeze(self) -> None:
        """Gather what may be drawn, once and for all; to be called when parameters are loaded."""
        c = self.config
        ids = torch.tensor([*range(c.first, c.first + c.codes), c.end])
        self.choices = self.text.weight.detach()[ids.to(self.text.weight.device)]

    def embed_frames(self, codes: Tensor) -> Tensor:
        """Frames [..., codebooks] int64 -> [..., dim]."""
        c, sums = self.config, self.codes(codes)
        found: Tensor = (self.text(codes[..., 0] + c.first) + sums) / (1 + c.codebooks) ** 0.5
        return found

    def hidden(self, x: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """States [tokens, dim] of inputs [tokens, dim] at positions [tokens], normed."""
        return self.slow(x, positions, attend)

    def logits(self, hidden: Tensor) -> Tensor:
        """[rows, dim] -> [rows, 1 + codes] float32: of the semantic codes, and of the end."""
        return nn.functional.linear(hidden, self.choices).float()


def sources(net: FishNet) -> dict[str, Source]:
    """Every parameter's published tensors."""
    names = {
        "text": f"{SLOW}embeddings",
        "codes": f"{FAST}codebook_embeddings",
        "fast.codes": f"{FAST}embeddings",
        "fast.out": f"{FAST}output",
    }
    found = named(net, names) | stack_sources(net.slow, "slow.", SLOW)
    return found | stack_sources(net.fast.decoder, "fast.decoder.", FAST)


def load_net(checkpoint: Path, device: str, dtype: str) -> FishNet:
    """The talker of a checkpoint folder; raises CheckpointError."""
    net = unfilled(FishNet, load_config(checkpoint)).to(getattr(torch, dtype))
    filled(net, sources(net), Shards.of(checkpoint), device=device)
    net.freeze()
    return net


log_ = structlog.get_logger(__name__)

_CONTROLS: Final = ("<|im_start|>", "<|im_end|>", "<|voice|>")
# What asks for no voice in particular.
_NONE: Final = "default"
# Of a code that is drawn again.
_AGAIN_TEMPERATURE, _AGAIN_TOP_P = 1.0, 0.9


def load(name: str, folder: Path, how: ModelOptions = ON_CPU) -> FishS2:
    """A checkpoint's folder; raises CheckpointError."""
    log_.warning(
        "weights.research_only",
        model=name,
        family="fish_s2",
        hosted="hosted and commercial use need a contract with Fish Audio",
    )
    tokenizer = TextTokenizer.load(folder)
    if missing := [control for control in _CONTROLS if control not in tokenizer.added]:
        raise CheckpointError(f"{folder}: tokenizer.json lacks {', '.join(missing)}")
    net = load_net(folder, how.where, how.dtype)
    return FishS2(name, net, tokenizer, load_voices(folder, net.config))


class FishS2(CodesModel):
    """A loaded checkpoint."""

    def __init__(self, name: str, net: FishNet, tokenizer: TextTokenizer, voices: Voices) -> None:
        c = net.config
        self.spec = spec_of(name, c, voices)
        self.read_by(net, c.slow.dim, net.text.weight.dtype)
        self._net, self._tokenizer, self._voices = net, tokenizer, voices
        self._back = torch.arange(WINDOW, 0, -1, device=net.text.weight.device)

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> FishPrepared:
        return FishPrepared(
            *(request, self._voice(request.voice), self._tokenizer),
            *(self._net.config, self.positions),
        )

    def _voice(self, name: str) -> Sequence[EncodedTurn]:
        """A speaker's recordings; of none the voice follows from the seed."""
        if name in ("", _NONE):
            return ()
        known_voice(name, (_NONE, *self._voices))
        return self._voices[name]

    def open(self, prepared: FishPrepared) -> FishStream:
        return FishStream(prepared)

    def drawn(self, hidden: Tensor, old: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Of the first codebook's choices the one behind all codes is the end."""
        noise = self.noise(old["seed"], old["frame"])
        settings = Settings.of(old)
        logits = self._net.logits(hidden)
        first = self._unrepeated(logits, noise, settings, old)
        fast, last = self._net.fast, self._net.config.codes - 1

        def pick(logits: Tensor, codebook: int, rules: object = None) -> Tensor:
            return draw_unscaled(logits, noise, codebook, settings)

        residuals = fast(hidden, fast.embed(first.clamp(max=last), 0), pick)
        codes = torch.cat((first[:, None], residuals), 1)
        return codes, first == self._net.config.codes, logits.isfinite().all(-1)

    def remembered(
        self, old: Mapping[str, Tensor], codes: Tensor, gained: Tensor
    ) -> dict[str, Tensor]:
        """The last semantic codes [rows, WINDOW], of which a batch's very first is never one."""
        pushed = torch.cat((old["recent"][:, 1:], codes[:, :1]), 1)
        counts = (gained & (old["made"] > 0))[:, None]
        recent = torch.where(counts, pushed, old["recent"])
        return {"recent": recent, "made": old["made"] + gained}

    def _unrepeated(
        self, logits: Tensor, noise: Noise, settings: Settings, old: Mapping[str, Tensor]
    ) -> Tensor:
        """The semantic code; the draw that replaces one has the number behind all codebooks."""
        first = draw_unscaled(logits, noise, 0, settings)
        within = self._back <= old["window"][:, None]
        repeated = ((old["recent"] == first[:, None]) & within).any(-1) & (old["temperature"] > 0)
        if first.is_cpu and not bool(repeated.any()):
            return first
        hot = torch.full_like(settings.temperature, _AGAIN_TEMPERATURE)
        other = Settings(hot, settings.top_k, torch.full_like(hot, _AGAIN_TOP_P))
        again = draw_unscaled(logits, noise, self._net.config.codebooks, other)
        return torch.where(repeated, again, first)


def spec_of(name: str, c: FishConfig, voices: Voices) -> ModelSpec:
    """What the engine has to know of a checkpoint."""
    codes, slow = Field((c.codebooks,), "i8"), c.slow
    return ModelSpec(
        **stated(FAMILY, name, c.codec.sample_rate, c.codec.sample_rate / c.codec.frame_samples),
        voices=tuple(Voice(each, each, MANY) for each in (_NONE, *voices)),
        frame={"codes": Field((c.codebooks,), "i2", c.codes)},
        replay=REPLAY,
        state={
            "codes": codes,
            "recent": Field((WINDOW,), "i8"),
            **dict.fromkeys(("made", "frame"), NUMBER),
            **fields_of(FishDrawing),
        },
        inputs={"text": NUMBER, "codes": codes},
        caches={"slow": CacheSpec(slow.n_layer, slow.n_head, slow.n_local_heads, slow.head_dim)},
        parameters=PARAMETERS,
        max_positions=slow.max_seq_len,
    )
