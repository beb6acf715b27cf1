"""A Higgs Audio checkpoint's config.json and generation_config.json. No torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ttscommon.engine.checkpoint import CheckpointError, read_json
from ttscommon.engine.delay_pattern import DelayPattern
from ttsfamilies.base.lm.llama import LlamaSizes

V2: Final = "higgs_audio_v2"
# By the authors' own names.
AUTHORS: Final = "higgs_audio"
V3: Final = "higgs_multimodal_qwen3"
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
    if kind == V3:
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
