"""CSM in the engine: a frame a step, its residual codes by a depth transformer inside the step.

A frame whose codes but the last are all 0 ends the speech and is none of it. Ids that are no codes
are drawn, logged and fed back as the model made them; the codec reads them as codes.

A position's input is a text token, or the sum of a frame's codes. One table embeds codes for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from ttscommon.engine.nn import Decoder
from ttscommon.engine.nn.mimi import MimiEncoder, encoder_sources
from ttscommon.engine.nn.weights import Shards, Source, decoder_sources, filled, same, unfilled
from ttscommon.sound.recordings import read_recording
from ttscommon.wire.fields import NOTHING, Arrays, Derived, Field
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.lm.codes import CodeDraw, CodesTable, DepthTransformer, Picks, decoder_config
from ttsfamilies.base.lm.recordings import NetworkRecordings, resampled
from ttsfamilies.base.lm.request import LayeredDrawing, fields_of
from ttsfamilies.base.lm.stepped import BackboneNet, CodesModel
from ttsfamilies.base.lm.tokenizer import TextTokenizer
from ttsfamilies.base.lm.turns import turns_of
from ttsfamilies.base.talker.base import NUMBER, ModelSpec, stated
from ttsfamilies.base.talker.options import ON_CPU, ModelOptions
from ttsfamilies.csm.facts import FAMILY
from ttsfamilies.csm.request import (
    END_CODE,
    CsmConfig,
    CsmGeneration,
    CsmPrepared,
    CsmStream,
    load_config,
    load_generation,
    usual_drawing,
)

CODEC: Final = "codec_model."
_DEPTH: Final = "depth_decoder.model."
# Files have one of them or both.
_TABLES: Final = (
    f"{_DEPTH}embed_tokens.weight",
    "backbone_model.embed_tokens.embed_audio_tokens.weight",
)


class CsmDepth(DepthTransformer):
    """codes: [codebooks * vocabulary, backbone dim]; heads: [residuals, dim, vocabulary]."""

    def __init__(self, c: CsmConfig) -> None:
        depth = c.depth_decoder_config
        super().__init__(replace(decoder_config(depth), fp32_qkv=True), c.num_codebooks - 1)
        self.codes = CodesTable(c.num_codebooks, c.vocab_size, c.hidden_size)
        self.project = nn.Linear(c.hidden_size, depth.hidden_size, bias=False)
        self.heads = nn.Parameter(torch.empty(self.residuals, depth.hidden_size, c.vocab_size))

    def table(self, codebook: int) -> Tensor:
        return self.codes.weight[codebook * self.codes.each : (codebook + 1) * self.codes.each]

    def head(self, codebook: int) -> Tensor:
        return self.heads[codebook - 1].T


class CsmNet(BackboneNet):
    """All parts of the talker. Methods work on any leading dimensions unless said otherwise."""

    def __init__(self, config: CsmConfig) -> None:
        super().__init__()
        self.config = config
        self.text = nn.Embedding(config.text_vocab_size, config.hidden_size)
        self.backbone = Decoder(decoder_config(config))
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.depth = CsmDepth(config)

    def embed_frames(self, codes: Tensor) -> Tensor:
        """Frames [..., codebooks] int64 -> the sum of their codes' embeddings [..., dim]."""
        found: Tensor = self.depth.codes(codes)
        return found

    def frames(self, hidden: Tensor, pick: CodeDraw) -> tuple[Tensor, Tensor]:
        """[rows, dim] -> codes [rows, codebooks] int64, finite [rows] bool."""
        logits = self.head(hidden).float()
        code0 = pick(logits, 0)
        residuals = self.depth(hidden, self.depth.embed(code0, 0), pick)
        return torch.cat((code0[:, None], residuals), 1), logits.isfinite().all(-1)


def sources(net: CsmNet, table: str = _TABLES[0]) -> dict[str, Source]:
    """Every parameter's published tensors. table: the name that the embedding of codes has."""
    found = {
        "text.weight": same("embed_text_tokens.weight"),
        "head.weight": same("lm_head.weight"),
        "depth.codes.weight": same(table),
        "depth.project.weight": same(f"{_DEPTH}inputs_embeds_projector.weight"),
        "depth.heads": same("depth_decoder.codebooks_head.weight"),
    }
    found |= decoder_sources(net.backbone.config, "backbone.", "backbone_model.")
    return found | decoder_sources(net.depth.decoder.config, "depth.decoder.", _DEPTH)


def load_net(checkpoint: Path, device: str, dtype: str) -> CsmNet:
    """The talker of a checkpoint folder; raises CheckpointError."""
    shards = Shards.of(checkpoint)
    net = unfilled(CsmNet, load_config(checkpoint)).to(getattr(torch, dtype))
    net.depth.decoder.keep_float32(device)
    table = next((name for name in _TABLES if name in shards.shapes), _TABLES[0])
    stated, others = sources(net, table), (CODEC, *_TABLES)
    return filled(net, stated, shards, others=others, device=device)


def load_encoder(checkpoint: Path, device: str) -> MimiEncoder:
    """What turns recordings into codes; raises CheckpointError."""
    sizes, shards = load_config(checkpoint).codec_config, Shards.of(checkpoint)
    net = unfilled(MimiEncoder, sizes, sizes.num_quantizers, sizes.sliding_window)
    unused = (f"{CODEC}{part}" for part in ("decoder", "upsample.", "quantizer."))
    others = (*unused, *(name for name in shards.shapes if not name.startswith(CODEC)))
    return filled(net, encoder_sources(net, CODEC), shards, others=others, device=device)


def load(name: str, folder: Path, how: ModelOptions = ON_CPU) -> Csm:
    """A checkpoint's folder; raises CheckpointError."""
    tokenizer, defaults = TextTokenizer.load(folder), load_generation(folder)
    net, encoder = load_net(folder, how.where, how.dtype), load_encoder(folder, how.where)
    return Csm(name, net, encoder, tokenizer, defaults)


class Csm(CodesModel):
    """A loaded checkpoint."""

    def __init__(
        self,
        name: str,
        net: CsmNet,
        encoder: MimiEncoder,
        tokenizer: TextTokenizer,
        defaults: CsmGeneration,
    ) -> None:
        self.spec = spec_of(name, net.config)
        self.read_by(net, net.config.hidden_size, net.text.weight.dtype)
        self._net, self._encoder, self._tokenizer = net, encoder, tokenizer
        self._usual = usual_drawing(defaults)
        self.recordings = NetworkRecordings(encoder, self._codes)

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> CsmPrepared:
        drawing = self._usual.with_asked(request.sampling)
        before, c = turns_of(request, derived.reference, derived.turns), self._net.config
        return CsmPrepared(
            request, drawing, before, self._tokenizer, c.num_codebooks, self.positions
        )

    def open(self, prepared: CsmPrepared) -> CsmStream:
        return CsmStream(prepared, self.spec.frame)

    def _codes(self, recording: bytes) -> Arrays:
        """Of a turn's sound: codes [frames, codebooks]."""
        rate = self._net.config.codec_config.sampling_rate
        samples = torch.from_numpy(resampled(*read_recording(recording), rate))
        codes = self._encoder(samples.to(self._net.text.weight.device))
        return {"codes": codes.cpu().numpy().astype(np.int16)}

    def drawn(self, hidden: Tensor, old: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        picks = Picks.of(old, self.noise(old["seed"], old["frame"]))
        codes, finite = self._net.frames(hidden, picks)
        return codes, (codes[:, :-1] == END_CODE).all(-1), finite


def spec_of(name: str, c: CsmConfig) -> ModelSpec:
    """What the engine has to know of a checkpoint. It has no voices but those that it hears."""
    codes, codec = Field((c.num_codebooks,), "i8"), c.codec_config
    return ModelSpec(
        **stated(FAMILY, name, codec.sampling_rate, codec.sampling_rate / codec.frame_samples),
        voices=(),
        frame={"codes": Field((c.num_codebooks,), "i2", c.vocab_size)},
        state={"codes": codes, "frame": NUMBER, **fields_of(LayeredDrawing)},
        inputs={"text": NUMBER, "codes": codes},
        caches={"backbone": c.cache},
        max_positions=c.max_position_embeddings,
    )
