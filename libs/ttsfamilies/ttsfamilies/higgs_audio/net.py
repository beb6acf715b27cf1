"""The network of Higgs Audio: text ids and rows of codes to logits of every codebook.

In the second version a position of sound has norms and a feed-forward network of its own in each
layer; attention is shared, and so is the norm at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from ttscommon.engine.checkpoint import CheckpointError, read_json
from ttscommon.engine.delay_pattern import DelayPattern
from ttscommon.engine.nn import Attend, Decoder, DecoderBlock, DecoderConfig
from ttscommon.engine.nn.weights import Source, decoder_sources, filled, same, unfilled
from ttsfamilies.base.lm.codes import CodesTable, decoder_config, text_or_frames
from ttsfamilies.base.lm.llama import LlamaSizes
from ttsfamilies.base.lm.turns import FRAME
from ttsfamilies.higgs_audio.sizes import THIRD_KIND, tensors_of

V2: Final = "higgs_audio_v2"
# By the authors' own names.
AUTHORS: Final = "higgs_audio"
# Sequences of the third version are served no longer by those who published it.
_MOST_POSITIONS: Final = 8192
# Ids of a codebook that are no codes: it has not begun, and it is over.
_SPECIALS: Final = 2


@dataclass(frozen=True)
class _SecondFile(LlamaSizes):
    num_codebooks: int = 8
    codebook_size: int = 1026
    audio_stream_bos_id: int = 1024
    audio_stream_eos_id: int = 1025


@dataclass(frozen=True)
class _AuthorsFile:
    text_config: LlamaSizes
    audio_num_codebooks: int = 8
    audio_codebook_size: int = 1024
    audio_stream_bos_id: int = 1024
    audio_stream_eos_id: int = 1025
    audio_adapter_type: str = "dual_ffn_fast_forward"
    audio_dual_ffn_layers: tuple[int, ...] = ()

    def problems(self) -> list[str]:
        """Kinds of it that are not served."""
        layers = range(self.text_config.num_hidden_layers)
        if "dual_ffn" in self.audio_adapter_type and set(self.audio_dual_ffn_layers) == {*layers}:
            return []
        return ["layers without a feed-forward network for sound are not served"]


@dataclass(frozen=True)
class _Codebooks:
    num_codebooks: int = 8
    vocab_size: int = 1026
    tie_word_embeddings: bool = True


@dataclass(frozen=True)
class _ThirdFile:
    text_config: LlamaSizes
    audio_encoder_config: _Codebooks = field(default_factory=_Codebooks)


@dataclass(frozen=True)
class HiggsConfig:
    """What both versions say. ids: of a codebook, the last two of which are no codes.

    third: Qwen3's blocks, the table of codes is the head as well, and codebook 0 alone ends speech.
    Otherwise Llama's, with a second feed-forward network for positions of sound.
    """

    sizes: LlamaSizes
    codebooks: int
    ids: int
    third: bool

    @property
    def begin(self) -> int:
        """The id where a codebook has not begun."""
        return self.ids - 2

    @property
    def end(self) -> int:
        """The id where a codebook is over."""
        return self.ids - 1

    @property
    def delay_pattern(self) -> DelayPattern:
        return DelayPattern.even(self.codebooks)

    @property
    def positions(self) -> int:
        """Of a prompt and its speech."""
        return min(self.sizes.max_position_embeddings, _MOST_POSITIONS)


@dataclass(frozen=True)
class HiggsDefaults:
    """How codes are drawn where a request says nothing.

    ras_win_len, ras_win_max_num_repeat: see request.HiggsDrawing.
    """

    temperature: float = 0.7
    top_k: int = 0
    top_p: float = 0.95
    ras_win_len: int = 7
    ras_win_max_num_repeat: int = 2


_THIRD_DEFAULTS: Final = HiggsDefaults(1.0, 50, 0.95, 0)


def load_config(folder: Path) -> HiggsConfig:
    """Read and check a checkpoint's config.json; raises CheckpointError."""
    path = folder / "config.json"
    kind = read_json(path, dict[str, Any]).get("model_type")
    if kind == THIRD_KIND:
        third = read_json(path, _ThirdFile)
        codes = third.audio_encoder_config
        config = HiggsConfig(third.text_config, codes.num_codebooks, codes.vocab_size, True)
        wrong = [] if codes.tie_word_embeddings else ["a head of its own is not served"]
    elif kind == AUTHORS:
        theirs = read_json(path, _AuthorsFile)
        ids = theirs.audio_codebook_size + _SPECIALS
        config = HiggsConfig(theirs.text_config, theirs.audio_num_codebooks, ids, False)
        specials = (theirs.audio_stream_bos_id, theirs.audio_stream_eos_id)
        wrong = theirs.problems()
        if specials != (config.begin, config.end):
            wrong.append(f"control ids {specials} of {ids} are not served")
    else:
        second = read_json(path, _SecondFile)
        config = HiggsConfig(second, second.num_codebooks, second.codebook_size, False)
        specials = (second.audio_stream_bos_id, second.audio_stream_eos_id)
        fits = specials == (config.begin, config.end)
        wrong = [] if fits else [f"control ids {specials} of {config.ids} are not served"]
    for problem in (*wrong, *_problems(config)):
        raise CheckpointError(f"{path}: {problem}")
    return config


def _problems(c: HiggsConfig) -> list[str]:
    found = c.sizes.problems()
    if c.codebooks < _SPECIALS or c.ids <= _SPECIALS:
        found.append(f"{c.codebooks} codebooks of {c.ids} ids are not served")
    return found


def load_defaults(folder: Path, config: HiggsConfig) -> HiggsDefaults:
    """Read generation_config.json, if there is one; raises CheckpointError."""
    path = folder / "generation_config.json"
    if config.third or not path.exists():
        return _THIRD_DEFAULTS if config.third else HiggsDefaults()
    return read_json(path, HiggsDefaults)


_SOUND: Final = "audio_"
_TEXT_ALONE: Final = ("text_lm_head.", "audio_decoder_proj.")
_CODES: Final = "tied.embedding.modality_embeddings.0."
_THIRD_OTHERS: Final = (f"{_CODES}model.", f"{_CODES}projection", "tied.head.")


class TwoExperts(nn.Module):
    """Two stacks of blocks with one attention: one for text, and one for sound."""

    def __init__(self, c: DecoderConfig) -> None:
        super().__init__()
        self.text, self.sound = Decoder(c), Decoder(c)
        self.sound.norm = self.text.norm
        for mine, other in self._pairs():
            other.attention = mine.attention

    def _pairs(self) -> list[tuple[DecoderBlock, DecoderBlock]]:
        pairs = zip(self.text.blocks, self.sound.blocks, strict=True)
        return [
            (mine, other)
            for mine, other in pairs
            if isinstance(mine, DecoderBlock) and isinstance(other, DecoderBlock)
        ]

    def forward(self, x: Tensor, positions: Tensor, attend: Attend, sounds: Tensor) -> Tensor:
        """[tokens, dim] -> the same; sounds: [tokens] bool. Both experts see all positions, so that
        shapes are fixed; a step, which is of sound alone, is `sound`'s.
        """
        angles, of_sound = self.text.rope.angles(positions), sounds[:, None]
        for layer, (text, sound) in enumerate(self._pairs()):
            normed = torch.where(of_sound, sound.attention_norm(x), text.attention_norm(x))
            attended = attend(layer, *text.attention.queries(normed, angles))
            x = x + text.attention.finish(attended)
            heard, read = (block.mlp(block.mlp_norm(x)) for block in (sound, text))
            x = x + torch.where(of_sound, heard, read)
        return self.text.norm(x)


class HiggsNet(nn.Module):
    """All parts of the talker."""

    def __init__(self, config: HiggsConfig) -> None:
        super().__init__()
        self.config = config
        dim = config.sizes.hidden_size
        self.text = nn.Embedding(config.sizes.vocab_size, dim)
        self.codes = CodesTable(config.codebooks, config.ids, dim)
        stack = decoder_config(config.sizes)
        if config.third:
            self.backbone: nn.Module = Decoder(replace(stack, qk_norm=True))
        else:
            self.backbone = TwoExperts(stack)
            self.head = nn.Linear(dim, self.codes.num_embeddings, bias=False)

    def prompt(self, text: Tensor, codes: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Text ids [tokens] int64, FRAME where rows [tokens, codebooks] stand -> [tokens, dim]."""
        told = (text_or_frames(text, codes, self.text, self.codes), positions, attend)
        return self.backbone(*told) if self.config.third else self.backbone(*told, text == FRAME)

    def step(self, codes: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Rows [rows, codebooks] int64 -> [rows, dim]."""
        both = self.backbone
        of_sound = both.sound if isinstance(both, TwoExperts) else both
        return of_sound(self.codes(codes), positions, attend)

    def logits(self, hidden: Tensor) -> Tensor:
        """[rows, dim] -> [rows, codebooks, ids] float32."""
        weight = self.codes.weight if self.config.third else self.head.weight
        found = nn.functional.linear(hidden, weight).float()
        return found.view(len(hidden), self.config.codebooks, self.config.ids)


def sources(net: HiggsNet) -> dict[str, Source]:
    """Every parameter's published tensors."""
    if net.config.third:
        assert isinstance(net.backbone, Decoder)
        found = {
            "text.weight": same("tied.embedding.text_embedding.weight"),
            "codes.weight": same(f"{_CODES}embedding.weight"),
        }
        return found | decoder_sources(net.backbone.config, "backbone.", "body.")
    assert isinstance(net.backbone, TwoExperts)
    c = net.backbone.text.config
    found = {
        "text.weight": same("model.embed_tokens.weight"),
        "codes.weight": same("model.embed_audio_tokens.embed_audio_tokens.weight"),
        "head.weight": same("audio_lm_head.weight"),
    }
    found |= decoder_sources(c, "backbone.text.", "model.")
    of_sound = decoder_sources(c, "backbone.sound.", "model.")
    return found | {name: _of_sound(source) for name, source in of_sound.items()}


def _of_sound(source: Source) -> Source:
    """The source of a block for sound, where that has tensors of its own."""
    names = source.names
    for own in ("input_layernorm", "post_attention_layernorm", "mlp"):
        names = tuple(name.replace(f".{own}.", f".{_SOUND}{own}.") for name in names)
    return replace(source, names=names)


def load_net(checkpoint: Path, device: str, dtype: str) -> HiggsNet:
    """The talker of a checkpoint folder; raises CheckpointError."""
    config, shards = load_config(checkpoint), tensors_of(checkpoint)
    net = unfilled(HiggsNet, config).to(getattr(torch, dtype))
    others = _THIRD_OTHERS if config.third else _TEXT_ALONE
    return filled(net, sources(net), shards, others=others, device=device)
