"""Synthetic checkpoints: published names and shapes, weights drawn from a stated seed.

Every tensor has its own generator, keyed by seed and name, so that neither order nor company
changes it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import save_file
from torch import Tensor

from talker.models.qwen3_tts.synthetic.shapes import codec_shapes, model_shapes
from talker.models.qwen3_tts.synthetic.sizes import (
    GENERATION,
    PREPROCESSOR,
    PUBLISHED_TEXT_VOCABULARY,
    Kind,
    Size,
    codec_config,
    model_config,
)
from talker.models.qwen3_tts.synthetic.tokenizer import vocabulary, write_tokenizer
from ttscommon.engine.checkpoint import dump_json

_SHARD_BYTES: Final = 2_000_000_000
_DTYPES: Final = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
Floats = npt.NDArray[np.float32]


def write_checkpoint(
    folder: Path,
    size: Size = "tiny",
    kind: Kind = "custom_voice",
    *,
    seed: int = 0,
    small: bool = False,
    published_heads: bool = False,
    ending: float = 1.0,
    shard_bytes: int = _SHARD_BYTES,
    dtype: str = "",
    transformers_version: str | None = "",
) -> None:
    """Write a whole checkpoint. ending: how loudly the end of speech speaks among the logits.
    published_heads: see model_config.

    dtype: of the talker's tensors; by default tiny ones are float32, the others as published:
    bfloat16, and float32 for the codec. transformers_version: what config.json names as its
    writer, None for nothing; by default the version of the published form.
    """
    vocab = vocabulary(0 if size == "tiny" else PUBLISHED_TEXT_VOCABULARY)
    config = model_config(size, kind, len(vocab), small=small, published_heads=published_heads)
    codec = codec_config(size)
    if transformers_version is None:
        config.pop("transformers_version")
    elif transformers_version:
        config["transformers_version"] = transformers_version
    stored = _DTYPES[dtype or ("float32" if size == "tiny" else "bfloat16")]
    (folder / "speech_tokenizer").mkdir(parents=True, exist_ok=True)
    dump_json(folder / "config.json", config)
    dump_json(folder / "generation_config.json", GENERATION)
    dump_json(folder / "speech_tokenizer" / "config.json", codec)
    for place in (folder, folder / "speech_tokenizer"):
        dump_json(place / "preprocessor_config.json", PREPROCESSOR)
    write_tokenizer(folder, vocab)
    eos = config["talker_config"]["codec_eos_token_id"]
    tensors = drawn(model_shapes(config), seed, {"talker.codec_head.weight": (eos, ending)})
    save(folder, ((name, tensor.to(stored)) for name, tensor in tensors), shard_bytes)
    save(folder / "speech_tokenizer", drawn(codec_shapes(codec), seed), shard_bytes)


def drawn(
    shapes: Mapping[str, tuple[int, ...]],
    seed: int,
    louder: Mapping[str, tuple[int, float]] | None = None,
) -> Iterator[tuple[str, Tensor]]:
    """Tensors by name, float32. louder: rows to multiply, by name."""
    for name in sorted(shapes):
        values = _draw(name, shapes[name], seed)
        if louder and name in louder:
            row, factor = louder[name]
            values[row] *= factor
        yield name, torch.from_numpy(values)


def _draw(name: str, shape: tuple[int, ...], seed: int) -> Floats:
    random = np.random.Generator(np.random.PCG64([seed, zlib.crc32(name.encode())]))
    if name.endswith("initialized"):
        return np.ones(shape, np.float32)
    if name.endswith("cluster_usage"):
        return random.uniform(0.5, 2.0, shape).astype(np.float32)
    values = random.standard_normal(shape, np.float32)
    scale, offset = _spread(name, shape)
    return values * np.float32(scale) + np.float32(offset)


def _spread(name: str, shape: tuple[int, ...]) -> tuple[float, float]:
    """Standard deviation and mean that keep signals of about unit size."""
    if "norm" in name and name.endswith("weight"):
        return 0.1, 1.0
    if name.endswith((".scale", "gamma")):
        return 0.05, 0.3
    if name.endswith((".alpha", ".beta")):
        return 0.2, 0.0
    if name.endswith("bias"):
        return 0.05, 0.0
    if "embed" in name:
        return 0.5, 0.0
    fan_in = int(np.prod(shape[1:]))
    if not name.startswith("decoder.decoder"):
        return fan_in**-0.5, 0.0
    # The waveform decoder only ever adds: kept quiet, so that its samples stay within -1..1.
    transposed, last = ".block.1.conv" in name, shape[0] == 1
    return (1.0 if last else 0.56) * (2 * shape[0] if transposed else fan_in) ** -0.5, 0.0


def save(folder: Path, tensors: Iterator[tuple[str, Tensor]], shard_bytes: int) -> None:
    """model.safetensors, or shards and their index where it grows beyond `shard_bytes`."""
    shards: list[dict[str, Tensor]] = [{}]
    for name, tensor in tensors:
        if _bytes(shards[-1]) > shard_bytes:
            shards.append({})
        shards[-1][name] = tensor.contiguous()
    if len(shards) == 1:
        save_file(shards[0], folder / "model.safetensors", {"format": "pt"})
        return
    weight_map: dict[str, Any] = {}
    for i, shard in enumerate(shards, 1):
        file = f"model-{i:05}-of-{len(shards):05}.safetensors"
        save_file(shard, folder / file, {"format": "pt"})
        weight_map |= dict.fromkeys(shard, file)
    total = sum(_bytes(shard) for shard in shards)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    dump_json(folder / "model.safetensors.index.json", index)


def _bytes(shard: Mapping[str, Tensor]) -> int:
    return sum(tensor.nbytes for tensor in shard.values())
