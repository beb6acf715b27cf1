"""The Qwen3-TTS talker: text and codec ids to codec frames.

A position's input is the sum of what is said (a text token, projected) and what was heard (a
control id, a speaker, or the 16 codes of a frame). The backbone gives codebook 0 of the next
frame, the code predictor the other 15.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.engine.kernels.few_rows import multiply
from ttscommon.engine.nn import Attend, Decoder, DecoderConfig
from ttscommon.engine.nn.mimi import encoder_sources
from ttscommon.engine.nn.weights import (
    Shards,
    Source,
    decoder_sources,
    filled,
    named,
    same,
    unfilled,
)
from ttsfamilies.base.kernels.slots import embed_codes
from ttsfamilies.base.lm.codes import CodeDraw, DepthTransformer, decoder_config
from ttsfamilies.qwen3_tts.cloning import (
    FOLDER,
    CodecEncoder,
    EncoderConfig,
    SpeakerEncoder,
    load_encoder_config,
    log_mel,
)
from ttsfamilies.qwen3_tts.config import BackboneConfig, TalkerConfig, load_config
from ttsfamilies.qwen3_tts.prompt import NO_TEXT, Heard
from ttsfamilies.qwen3_tts.stream import Prohibitions


class CodePredictor(DepthTransformer):
    """Decoder, one embedding table and one head for each residual codebook.

    codes: [residual codebooks * vocabulary, talker dim]; heads: [residuals, vocabulary, dim].
    """

    def __init__(self, c: BackboneConfig) -> None:
        p = c.code_predictor_config
        decoder = replace(decoder_config(p), qk_norm=True, fp32_qkv=True)
        super().__init__(decoder, c.codebooks - 1)
        self.size = p.vocab_size
        self.codes = nn.Embedding(self.residuals * p.vocab_size, c.hidden_size)
        same = c.hidden_size == p.hidden_size
        self.project = nn.Identity() if same else nn.Linear(c.hidden_size, p.hidden_size)
        self.heads = nn.Parameter(torch.empty(self.residuals, p.vocab_size, p.hidden_size))

    def table(self, codebook: int) -> Tensor:
        return self.codes.weight[(codebook - 1) * self.size : codebook * self.size]

    def head(self, codebook: int) -> Tensor:
        return self.heads[codebook - 1]


def backbone_config(c: BackboneConfig) -> DecoderConfig:
    """The talker's decoder. Its multimodal rotation is plain: all three positions are equal."""
    return replace(decoder_config(c), qk_norm=True)


class TextProjection(nn.Module):
    """Two layers from the text embedding's width to the talker's."""

    def __init__(self, text_dim: int, dim: int, inner: int | None = None) -> None:
        super().__init__()
        inner = text_dim if inner is None else inner
        self.first = nn.Linear(text_dim, inner)
        self.second = nn.Linear(inner, dim)

    def forward(self, x: Tensor) -> Tensor:
        """[..., text_dim] -> [..., dim]."""
        return self.second(nn.functional.silu(self.first(x)))


class FrameNet(nn.Module):
    """What makes frames, whatever says the text: codec ids, backbone, code predictor.

    Methods work on any leading dimensions unless said otherwise.
    """

    def add_frame_parts(self, config: TalkerConfig, backbone: Decoder) -> None:
        """Behind the parts of the text, whose parameters come first."""
        c = config.talker_config
        self.config = config
        self.codec = nn.Embedding(c.vocab_size, c.hidden_size)
        self.backbone = backbone
        self.codec_head = nn.Linear(c.hidden_size, c.vocab_size, bias=False)
        self.predictor = CodePredictor(c)

    def keep_float32(self, where: torch.device | str = "cpu") -> None:
        """After the model was cast to a narrower type: put back what must stay exact there."""
        self.predictor.decoder.keep_float32(where)

    def embed_frame(self, codes: Tensor, slots: Tensor | None = None) -> Tensor:
        """Frames [..., codebooks] int64 -> the sum of their codes' embeddings [..., dim].

        slots: see embed_codes.
        """
        return embed_codes(codes, self.codec.weight, self.predictor.codes.weight, slots)

    def embed_sound(self, heard: Tensor, codes: Tensor) -> Tensor:
        """The codec side of positions that have no speaker's embedding.

        heard: [tokens] int64, see prompt.Heard; codes: [tokens, codebooks] int64. Returns
        [tokens, dim], of NOTHING whatever the first code is.
        """
        kind = heard[:, None]
        frame = torch.where(kind == Heard.FRAME, codes, 0)
        return torch.where(kind == Heard.FRAME, self.embed_frame(frame), self.codec(codes[:, 0]))

    def code0_logits(self, hidden: Tensor) -> Tensor:
        """[..., dim] -> [..., codec vocabulary] float32, unconstrained."""
        head = self.codec_head
        if self.backbone.multiplies(hidden[..., 0], head):
            return multiply(hidden, head.weight, dtype=torch.float32)
        return head(hidden).float()

    def residuals(self, hidden: Tensor, code0: Tensor, pick: CodeDraw) -> Tensor:
        """Codebooks 1.. of frames: [rows, dim], [rows] -> [rows, codebooks - 1] int64."""
        return self.predictor(hidden, self.codec(code0), pick)


class TalkerNet(FrameNet):
    """All parts of the talker, of which the text is ids."""

    def __init__(self, config: TalkerConfig) -> None:
        super().__init__()
        c = config.talker_config
        self.text = nn.Embedding(c.text_vocab_size, c.text_hidden_size)
        self.text_projection = TextProjection(c.text_hidden_size, c.hidden_size)
        self.add_frame_parts(config, Decoder(backbone_config(c)))

    def embed_text(self, ids: Tensor) -> Tensor:
        """Text ids [...] -> [..., dim]."""
        return self.text_projection(self.text(ids))

    def step_input(self, heard: Tensor, text: Tensor) -> Tensor:
        """What the backbone hears at a decode step.

        heard: [rows, dim], the frame before, embedded; text: [rows] int64, the text token of this
        step, or the id of end or pad. Returns [rows, dim].
        """
        first, second = self.text_projection.first, self.text_projection.second
        if not self.backbone.multiplies(text, first, second):
            return heard + self.embed_text(text)
        inner = multiply(self.text.weight, first.weight, first.bias, ids=text)
        inner = nn.functional.silu(inner)
        return multiply(inner, second.weight, second.bias, added=heard)

    def hidden(self, x: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Backbone states [tokens, dim] of inputs [tokens, dim] at positions [tokens]."""
        return self.backbone(x, positions, attend)


# A decode step as functions of tensors with a row a stream: what a graph can capture.
#
# Nothing here reads a value on the host or gives a shape that depends on one. How an id is drawn
# is handed in.


def embed_positions(
    net: TalkerNet, text: Tensor, heard: Tensor, codes: Tensor, speaker: Tensor
) -> Tensor:
    """Inputs of prompt positions and of frames already made.

    text: [tokens] int64, NO_TEXT for none; heard: [tokens] int64, see prompt.Heard;
    codes: [tokens, codebooks] int64; speaker: [tokens, dim], read where heard is SPEAKER.
    Returns [tokens, dim].
    """
    said = net.embed_text(text.clamp(min=0))
    said = torch.where((text != NO_TEXT)[:, None], said, 0)
    kind, sound = heard[:, None], net.embed_sound(heard, codes)
    sound = torch.where(kind == Heard.SPEAKER, speaker.to(sound.dtype), sound)
    return said + torch.where(kind == Heard.NOTHING, 0, sound)


def choose_codes(
    net: FrameNet,
    never: Prohibitions,
    hidden: Tensor,
    seen: Tensor,
    made: Tensor,
    penalty: Tensor,
    pick: CodeDraw,
) -> tuple[Tensor, Tensor]:
    """The next frame's codes from the backbone's state [rows, dim].

    seen: [rows, codec vocabulary] bool, ids of codebook 0 chosen so far; made: [rows] int64, frames
    so far; penalty: [rows] float32. Returns logits of codebook 0 [rows, vocabulary], and codes
    [rows, codebooks] int64, of no frame where the first is the end.
    """
    logits = net.code0_logits(hidden)
    code0 = pick(logits, 0, never.rules(seen, made, penalty))
    return logits, torch.cat((code0[:, None], net.residuals(hidden, code0, pick)), 1)


_SPEAKER = "speaker_encoder."


# Of what every talker has in front of its frames and behind its backbone.
FRAME_NAMES: Final = {
    "codec": "model.codec_embedding",
    "codec_head": "codec_head",
    "text_projection.first": "text_projection.linear_fc1",
    "text_projection.second": "text_projection.linear_fc2",
}


def talker_sources(net: TalkerNet) -> dict[str, Source]:
    """Every parameter's published tensors."""
    found = named(net, {"text": "model.text_embedding", **FRAME_NAMES}, theirs="talker.")
    found |= decoder_sources(net.backbone.config, "backbone.", "talker.model.")
    return found | predictor_sources(net.predictor)


def predictor_sources(predictor: CodePredictor) -> dict[str, Source]:
    """The code predictor's."""
    part = "talker.code_predictor."
    rows = (predictor.size,) * predictor.residuals
    books = tuple(f"{part}model.codec_embedding.{i}.weight" for i in range(predictor.residuals))
    heads = tuple(f"{part}lm_head.{i}.weight" for i in range(predictor.residuals))
    found = {
        "predictor.codes.weight": Source(books, rows),
        "predictor.heads": Source(heads, stacked=True),
    }
    found |= named(predictor, {"project": f"{part}small_to_mtp_projection"}, "predictor.")
    return found | decoder_sources(predictor.decoder.config, "predictor.decoder.", f"{part}model.")


def speaker_sources(net: SpeakerEncoder) -> dict[str, Source]:
    """The published names are the network's own."""
    return {name: same(f"{_SPEAKER}{name}") for name in net.state_dict()}


def unused_by_encoder(config: EncoderConfig) -> tuple[str, ...]:
    """Beginnings of names in the codec's file that encoding has no use for."""
    c, part = config.encoder_config, "encoder.quantizer."
    quantizers = [f"{part}{kind}_residual_vector_quantizer." for kind in ("semantic", "acoustic")]
    valid = config.encoder_valid_num_quantizers - 1
    beyond = range(valid, c.num_quantizers - c.num_semantic_quantizers)
    flags = [f"{q}layers.{i}.codebook.initialized" for q in quantizers for i in range(valid)]
    return (
        "decoder.",
        *(f"{quantizer}output_proj" for quantizer in quantizers),
        *(f"{quantizers[1]}layers.{i}." for i in beyond),
        *flags,
    )


def load_talker(checkpoint: Path, *, device: str = "cpu", dtype: str = "float32") -> TalkerNet:
    """The talker of a checkpoint folder; raises CheckpointError."""
    config = load_config(checkpoint)
    net = unfilled(TalkerNet, config).to(getattr(torch, dtype))
    net.keep_float32(device)
    others = (_SPEAKER,) if config.tts_model_type == "base" else ()
    return filled(net, talker_sources(net), Shards.of(checkpoint), others=others, device=device)


def load_encoders(checkpoint: Path, *, device: str = "cpu") -> tuple[SpeakerEncoder, CodecEncoder]:
    """What turns references into prompts, of a Base checkpoint; raises CheckpointError."""
    config = load_config(checkpoint)
    if config.tts_model_type != "base":
        raise CheckpointError(
            f"{checkpoint} is a {config.tts_model_type} model: it clones no voices"
        )
    return _speaker(checkpoint, config, device), _codec_encoder(checkpoint, device)


def _speaker(checkpoint: Path, config: TalkerConfig, device: str) -> SpeakerEncoder:
    net, shards = unfilled(SpeakerEncoder, config.speaker_encoder_config), Shards.of(checkpoint)
    filled(net, speaker_sources(net), shards, others=("talker.",), device=device)
    net.mels = log_mel(config.speaker_encoder_config).to(device)
    return net


def _codec_encoder(checkpoint: Path, device: str) -> CodecEncoder:
    config, shards = load_encoder_config(checkpoint), Shards.of(checkpoint / FOLDER)
    net, others = unfilled(CodecEncoder, config), unused_by_encoder(config)
    return filled(net, encoder_sources(net, "encoder."), shards, others=others, device=device)
