"""VoxCPM2: published names, small or published sizes, weights drawn from a seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec
import torch
from safetensors.torch import save_file
from torch import Tensor

from ttscommon.engine.checkpoint import VAE, dump_json
from ttsfamilies.base.synthetic import SyntheticFamily
from ttsfamilies.base.synthetic.tensors import drawn, save, shapes_of, spread_out
from ttsfamilies.base.synthetic.tokenizers import BEGINS, LETTERS, words_in_pieces, write_pieces
from ttsfamilies.voxcpm2.blocks import HEARS, SOUNDS, VaeEncoder, encoder_sources
from ttsfamilies.voxcpm2.codec import VaeDecoder
from ttsfamilies.voxcpm2.codec import sources as decoder_sources
from ttsfamilies.voxcpm2.facts import ARCHITECTURE, VoxcpmConfig
from ttsfamilies.voxcpm2.net import VoxcpmNet, sources

_MARKS: Final = ".,!?;:'\"-()\u2026"
_MODEL: Final = f"{SOUNDS}model."
_CHINESE: Final = ("\u4f60", "\u597d", "\u4f60\u597d", f"{BEGINS}\u4f60\u597d")
_CONTROLS: Final = ("<|audio_start|>", "<|audio_end|>", "<|ref_start|>", "<|ref_end|>")
_FIRST_CONTROL: Final = 101
_IDS: Final = 160
# The published sizes, of which those of the VAE are the package's defaults.
PUBLISHED: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "hidden": (2048, 6144, 28, 8),
        "local": (1024, 4096, 12),
        "heads": (16, 2, 128),
        "local_heads": 16,
        "ids": 73_448,
        "values": 64,
        "inner": 512,
        "vae": {},
    }
)
_NARROW: Final[Mapping[str, Any]] = MappingProxyType(
    {"encoder_dim": 2, "latent_dim": 8, "decoder_dim": 64}
)
# A patch of 48 samples.
SHORT_VAE: Final[Mapping[str, Any]] = MappingProxyType(
    {**_NARROW, "decoder_dim": 16, "encoder_rates": [2, 2], "decoder_rates": [3, 4]}
)


def config(
    *,
    hidden: tuple[int, int, int, int] = (32, 64, 2, 2),
    local: tuple[int, int, int] = (32, 64, 2),
    heads: tuple[int, int, int] = (4, 2, 16),
    local_heads: int = 2,
    ids: int = _IDS,
    values: int = 8,
    inner: int = 32,
    vae: Mapping[str, Any] = _NARROW,
    **changes: Any,
) -> dict[str, Any]:
    """A config.json. hidden: width, inner width and layers of both language models. local: width,
    inner width and layers within a patch. heads: with KV heads and head_dim. inner: of the lattice.
    """
    width, ffn, layers, residual = hidden
    pairs, (many, few, size) = heads[2] // 2, heads
    within = {"hidden_dim": local[0], "ffn_dim": local[1], "num_layers": local[2]}
    within |= {"num_heads": local_heads, "kv_channels": size}
    return {
        "architecture": ARCHITECTURE,
        "lm_config": {
            "bos_token_id": 1,
            "eos_token_id": 2,
            "vocab_size": ids,
            "hidden_size": width,
            "intermediate_size": ffn,
            "num_hidden_layers": layers,
            "num_attention_heads": many,
            "num_key_value_heads": few,
            "kv_channels": size,
            "max_position_embeddings": 4096,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10_000.0,
            "rope_scaling": {
                "type": "longrope",
                "long_factor": [1 + 0.25 * pair for pair in range(pairs)],
                "short_factor": [1.0] * pairs,
                "original_max_position_embeddings": 256,
            },
            "use_mup": False,
            "scale_emb": 12,
            "dim_model_base": 256,
            "scale_depth": 1.4,
        },
        "patch_size": 4,
        "feat_dim": values,
        "residual_lm_num_layers": residual,
        "residual_lm_no_rope": True,
        "scalar_quantization_latent_dim": inner,
        "scalar_quantization_scale": 9,
        "encoder_config": within,
        "dit_config": {**within, "dit_mean_mode": False, "cfm_config": {}},
        "audio_vae_config": {**vae, "sample_rate": 16_000, "out_sample_rate": 48_000},
        "max_length": 2048,
        "device": "cpu",
        "dtype": "float32",
        **changes,
    }


def write_checkpoint(
    folder: Path, told: Mapping[str, Any] | None = None, *, seed: int = 0, going: float = 1.5
) -> None:
    """Write tensors of both stages, tokenizer and configuration.

    going: how much louder it is said that speech goes on than that it stops.
    """
    folder.mkdir(parents=True, exist_ok=True)
    told = dict(told or config())
    dump_json(folder / "config.json", told)
    c = msgspec.convert(told, VoxcpmConfig)
    _write_tokenizer(folder)
    save(folder, _stopping(drawn(shapes_of(sources, VoxcpmNet, c), seed), going))
    save_file(dict(_vae(c, seed)), folder / VAE, {"format": "pt"})


def _stopping(tensors: Iterator[tuple[str, Tensor]], going: float) -> Iterator[tuple[str, Tensor]]:
    for name, tensor in tensors:
        if name == "stop_proj.bias":
            tensor += 1.0
        elif name == "stop_head.weight":
            tensor[0] += going / tensor.shape[1]
        yield name, tensor


def _vae(c: VoxcpmConfig, seed: int) -> Iterator[tuple[str, Tensor]]:
    shapes = shapes_of(encoder_sources, VaeEncoder, c.audio_vae_config)
    shapes |= shapes_of(decoder_sources, VaeDecoder, c)
    mean = [name for name in shapes if name.startswith(f"{HEARS}fc_mu")]
    shapes |= {name.replace("fc_mu", "fc_logvar"): shapes[name] for name in mean}
    for name, shape in sorted(shapes.items()):
        yield name, spread_out(name, shape, seed, _loudness)
    boundaries = torch.tensor(c.audio_vae_config.sr_bin_boundaries, dtype=torch.int32)
    yield f"{SOUNDS}sr_bin_boundaries", boundaries


def _loudness(name: str, shape: tuple[int, ...]) -> tuple[float, float]:
    """Standard deviation and mean that keep sound of about half of its range."""
    if name.endswith((".alpha", "scale_embed.weight")):
        return 0.1, 1.0
    if name.endswith((".bias", "bias_embed.weight")):
        return 0.05, 0.0
    if name.endswith("weight_g") and "block" not in name and name.startswith(_MODEL):
        return 0.02, 0.25
    if name.endswith("weight_g"):
        return (0.05, 0.3) if ".block.3." in name else (0.1, 1.0)
    return 1.0, 0.0


def _write_tokenizer(folder: Path) -> None:
    words = (*words_in_pieces(("end",)), *_CHINESE)
    known = ["<unk>", "<s>", "</s>", *dict.fromkeys((*words, *f"{BEGINS}{LETTERS}{_MARKS}"))]
    known[_FIRST_CONTROL:_FIRST_CONTROL] = _CONTROLS
    write_pieces(folder, known)


def write_family(folder: Path, size: str, kind: str, seed: int) -> None:
    """A folder that both stages load, of small or of published sizes."""
    told = config() if size == "tiny" else config(**PUBLISHED)
    write_checkpoint(folder, told, seed=seed)


FAMILY: Final = SyntheticFamily(write_family, "a talker and its codec", sizes=("tiny", "published"))
