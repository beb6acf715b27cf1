"""Kyutai TTS: published names, small or published sizes, weights drawn from a seed."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import torch
from safetensors.torch import save_file
from torch import Tensor

from ttscommon.engine.checkpoint import dump_json
from ttsfamilies.base.synthetic import SyntheticFamily
from ttsfamilies.base.synthetic.tensors import drawn, shapes_of
from ttsfamilies.base.synthetic.tokenizers import BEGINS, LETTERS, words_in_pieces
from ttsfamilies.csm.mimi.codec import kyutai_sources, load_kyutai_sizes
from ttsfamilies.csm.mimi.net import MimiDecoder
from ttsfamilies.csm.mimi.synthetic import drawn as codec_drawn
from ttsfamilies.kyutai_tts.config import NEW_WORD, KyutaiConfig, load_config
from ttsfamilies.kyutai_tts.net import KyutaiNet, sources
from ttsfamilies.kyutai_tts.voices import FOLDER

_MARKS: Final = ".,!?;'\"-"
_SPECIALS: Final = (("<unk>", 2), ("<s>", 3), ("</s>", 3), ("<pad>", 3))
_VOICE_POSITIONS: Final = 5
TALKER, CODEC, TOKENIZER = "model.safetensors", "mimi.safetensors", "tokenizer.model"
GUIDANCES: Final = [f"{1 + i / 2:.1f}" for i in range(7)]
# Heads of the backbone and of the depth transformer, and the size of a head.
SMALL: Final = (4, 2, 8)
PUBLISHED_HEADS: Final = (16, 16, 128)
_MIMI: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "sample_rate": 24_000,
        "channels": 1,
        "frame_rate": 12.5,
        "seanet": {
            "channels": 1,
            "dimension": 32,
            "causal": True,
            "n_filters": 4,
            "n_residual_layers": 1,
            "activation": "ELU",
            "compress": 2,
            "dilation_base": 2,
            "disable_norm_outer_blocks": 0,
            "kernel_size": 7,
            "residual_kernel_size": 3,
            "last_kernel_size": 3,
            "norm": "none",
            "pad_mode": "constant",
            "ratios": [8, 6, 5, 4],
            "true_skip": True,
        },
        "transformer": {
            "d_model": 32,
            "num_heads": 4,
            "num_layers": 2,
            "causal": True,
            "layer_scale": 0.01,
            "context": 6,
            "conv_layout": True,
            "max_period": 10_000,
            "gating": "none",
            "norm": "layer_norm",
            "positional_embedding": "rope",
            "dim_feedforward": 64,
            "input_dimension": 32,
            "output_dimensions": [32],
        },
    }
)


def config(
    codebooks: int = 32,
    heads: tuple[int, int, int] = SMALL,
    *,
    audio_delay: float = 1.28,
    context: int = 500,
    layers: int = 2,
    words: Sequence[str] = (),
    **changes: Any,
) -> dict[str, Any]:
    """A config.json of small sizes. layers: of either network. words: see `pieces`."""
    many, few, size = heads
    dim = many * size
    depth = dim if heads == PUBLISHED_HEADS else few * 16
    schedule = [min(i, 8 + (i > 15) + (i > 23)) for i in range(codebooks)]
    return {
        "card": 2048 if codebooks == 32 else 64,
        "n_q": codebooks,
        "dep_q": codebooks,
        "delays": [0, 0, *[2] * (codebooks - 1)],
        "dim": dim,
        "text_card": len(pieces(words)),
        "existing_text_padding_id": 3,
        "num_heads": many,
        "num_layers": layers,
        "hidden_scale": 1.5,
        "causal": True,
        "layer_scale": None,
        "context": context,
        "max_period": 10_000,
        "gating": "silu",
        "norm": "rms_norm_f32",
        "positional_embedding": "rope",
        "depformer_dim": depth,
        "depformer_num_heads": few,
        "depformer_num_layers": layers,
        "depformer_dim_feedforward": 48,
        "depformer_multi_linear": True,
        "depformer_pos_emb": "none",
        "depformer_weights_per_step": True,
        "depformer_low_rank_embeddings": 16,
        "depformer_weights_per_step_schedule": schedule,
        "demux_second_stream": True,
        "text_card_out": None,
        "conditioners": {
            "speaker_wavs": {"type": "tensor", "tensor": {"dim": 16}},
            "cfg": _table(GUIDANCES),
            "control": _table(["ok"]),
        },
        "fuser": {
            "cross_attention_pos_emb": True,
            "cross_attention_pos_emb_scale": 1,
            "sum": ["control", "cfg"],
            "prepend": [],
            "cross": ["speaker_wavs"],
        },
        "cross_attention": True,
        "tts_config": {"audio_delay": audio_delay, "second_stream_ahead": 2},
        "model_id": {"sig": "5ea1", "epoch": 7},
        "model_type": "tts",
        "lm_gen_config": {"temp": 0.6, "temp_text": 0.6, "top_k": 250, "top_k_text": 50},
        "tokenizer_name": TOKENIZER,
        "mimi_name": CODEC,
        "mimi_config_name": "mimi.json",
    } | changes


def _table(values: Sequence[str]) -> dict[str, Any]:
    sizes = {"n_bins": len(values), "dim": 8, "tokenizer": "noop"}
    return {"type": "lut", "lut": {**sizes, "possible_values": list(values)}}


def published() -> dict[str, Any]:
    """The sizes of kyutai/tts-1.6b-en_fr."""
    found = config(heads=PUBLISHED_HEADS)
    found["conditioners"] = {
        "speaker_wavs": {"type": "tensor", "tensor": {"dim": 512}},
        "cfg": {**_table(GUIDANCES), "lut": {**_table(GUIDANCES)["lut"], "dim": 16}},
        "control": {**_table(["ok"]), "lut": {**_table(["ok"])["lut"], "dim": 16}},
    }
    del found["mimi_config_name"]
    return found | {
        "text_card": 8000,
        "num_layers": 16,
        "hidden_scale": 4.125,
        "depformer_dim": 1024,
        "depformer_num_layers": 4,
        "depformer_dim_feedforward": 3072,
        "depformer_low_rank_embeddings": 128,
    }


def write_checkpoint(
    folder: Path,
    told: Mapping[str, Any] | None = None,
    *,
    seed: int = 0,
    asking: float = 1.0,
    voices: Sequence[str] = ("slt",),
    words: Sequence[str] = (),
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write the talker, its tokenizer and voices, and the codec's decoder.

    asking: times what is drawn, how loudly the text asks for new words; negative ones are its
    opposite. words: see `pieces`.
    """
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    dump_json(folder / "config.json", dict(told or config()))
    c = load_config(folder)
    (folder / TOKENIZER).write_bytes(tokenizer(words))
    shapes = shapes_of(sources, KyutaiNet, c)
    shapes["depformer_text_emb.low_rank.weight"] = (
        c.depformer_dim,
        c.depformer_low_rank_embeddings,
    )
    tensors = {name: _placed(name, each) for name, each in drawn(shapes, seed)}
    tensors["text_linear.weight"][NEW_WORD] *= asking
    named = (told or {}).get("moshi_name", TALKER)
    save_file({name: each.to(dtype) for name, each in tensors.items()}, folder / str(named))
    for voice in voices:
        write_voice(folder, voice, c, seed)
    _write_codec(folder, c, seed)


def _placed(name: str, values: Tensor) -> Tensor:
    """Norms near 1, and embeddings as loud as other inputs."""
    if name.endswith(".alpha"):
        return values * 0.5 + 1.0
    if name.startswith(("emb.", "depformer_emb.", "text_emb.", "depformer_text_emb.")):
        return values * (0.5 * values.shape[1] ** 0.5) if values.shape[0] > 50 else values
    return values


def write_voice(
    folder: Path, name: str, c: KyutaiConfig, seed: int, positions: int = _VOICE_POSITIONS
) -> Path:
    """A voice as it is published, by its name."""
    run = c.model_id
    path = folder / FOLDER / f"{name}.{run.sig}@{run.epoch}.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = {f"{name} speaker_wavs embed": (1, c.voice_values, positions)}
    ((_, values),) = drawn(shape, seed)
    save_file({"speaker_wavs": values}, path)
    return path


def _write_codec(folder: Path, c: KyutaiConfig, seed: int) -> None:
    """The decoder of the codec; small sizes are in a file that the folder's config.json names."""
    books = {"dimension": 16, "n_q": c.n_q, "bins": c.card}
    outer = {"input_dimension": 32, "output_dimension": 32}
    dump_json(folder / "mimi.json", {**_MIMI, "quantizer": {**books, **outer}})
    sizes = load_kyutai_sizes(folder)
    shapes = shapes_of(kyutai_sources, MimiDecoder, sizes, interleaved=True)
    save_file(
        {name: codec_drawn(name, shapes[name], seed) for name in sorted(shapes)}, folder / CODEC
    )


def pieces(whole: Sequence[str] = ()) -> list[str]:
    """Of the small tokenizer: specials, some words, single characters, and these words as well."""
    specials = [name for name, _ in _SPECIALS]
    rest = [*f"{BEGINS}{LETTERS}{_MARKS}", *(f"{BEGINS}{word}" for word in whole)]
    return list(dict.fromkeys([*specials, *words_in_pieces(), *rest]))


def tokenizer(words: Sequence[str] = ()) -> bytes:
    """A sentencepiece model: its pieces, and nothing to normalise."""
    kinds = dict(_SPECIALS)
    found = b""
    for piece in pieces(words):
        name, score = piece.encode(), -1.0 - 8.0 * (len(piece) == 1)
        inner = b"\x0a" + _length(name) + b"\x15" + struct.pack("<f", score)
        inner += b"\x18" + bytes([kinds.get(piece, 1)])
        found += b"\x0a" + _length(inner)
    return found + b"\x12\x00\x1a\x00"


def _length(data: bytes) -> bytes:
    assert len(data) < 128
    return bytes([len(data)]) + data


def write_family(folder: Path, size: str, kind: str, seed: int) -> None:
    """A folder that both stages load."""
    write_checkpoint(folder, config() if size == "tiny" else published(), seed=seed)


FAMILY: Final = SyntheticFamily(
    write_family, "a talker, its codec and a voice", sizes=("tiny", "1.6b")
)
