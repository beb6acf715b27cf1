"""GLM-4-Voice in three folders: published names, small shapes, weights drawn from a seed."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ttscommon.engine.checkpoint import dump_json
from ttscommon.engine.nn.weights import unfilled
from ttsfamilies.base.lm.tokenizer import BYTES
from ttsfamilies.base.synthetic import SyntheticFamily
from ttsfamilies.base.synthetic.tensors import drawn, save, shapes_of
from ttsfamilies.base.synthetic.tokenizers import vocabulary
from ttsfamilies.cosyvoice.s3_flow.hift import Hift
from ttsfamilies.cosyvoice.s3_flow.sizes import EncoderSizes, FlowSizes, HiftSizes, UNetSizes
from ttsfamilies.cosyvoice.s3_flow.synthetic import published_tensors
from ttsfamilies.glm_voice.facts import FAMILY as FACTS
from ttsfamilies.glm_voice.family import GlmNet, WhisperVQ, hearing_sources, sources
from ttsfamilies.glm_voice.flow import GlmFlow
from ttsfamilies.glm_voice.request import TOKENIZER, load_config, load_hearing_config

_SPACE: Final = "\u0120"
CODES: Final = 256
# Of the published instruction, which would be many positions otherwise.
_WORDS: Final = tuple(
    f"{_SPACE}{word}"
    for word in (
        *("will", "provide", "with", "speech", "text", "instruction", "Do", "it", "step", "by"),
        *("First,", "think", "about", "respond", "in", "interleaved", "manner", "token"),
        *("followed", "audio"),
    )
)
_MELS: Final = 80
_WIDTH: Final = 32
SPECIALS: Final = (
    *("<|endoftext|>", "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>", "<|system|>", "<|user|>"),
    *("<|assistant|>", "<|observation|>", "<|begin_of_audio|>", "<|end_of_audio|>"),
)
HEADS: Final = MappingProxyType(
    {"num_attention_heads": 4, "multi_query_group_num": 2, "kv_channels": 16}
)
PUBLISHED_HEADS: Final = MappingProxyType(
    {"num_attention_heads": 32, "multi_query_group_num": 2, "kv_channels": 128}
)
HEARING: Final[dict[str, Any]] = {
    "model_type": "whisper",
    "num_mel_bins": 128,
    "d_model": 32,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "encoder_layers": 2,
    "max_source_positions": 1500,
    "pooling_kernel_size": 4,
    "pooling_position": 2,
    "pooling_type": "avg",
    "quantize_vocab_size": CODES,
    "quantize_position": 2,
    "quantize_causal_block_size": 200,
    "quantize_encoder_only": True,
    "encoder_causal_convolution": True,
}


def config(heads: Mapping[str, int] = HEADS) -> dict[str, Any]:
    """config.json of the language model."""
    return {
        "model_type": "chatglm",
        "num_layers": 2,
        "hidden_size": _WIDTH,
        "ffn_hidden_size": 48,
        **heads,
        "layernorm_epsilon": 3.90625e-8,
        "padded_vocab_size": len(_known()) + len(SPECIALS) + CODES + 8,
        "seq_length": 8192,
        "rope_ratio": 1,
        "rmsnorm": True,
        "post_layer_norm": True,
        "add_qkv_bias": True,
        "add_bias_linear": False,
        "multi_query_attention": True,
        "original_rope": True,
        "apply_residual_connection_post_layernorm": False,
        "tie_word_embeddings": False,
    }


def _known() -> dict[str, int]:
    return vocabulary(more=_WORDS)


def specials() -> dict[str, int]:
    """Ids of the added tokens, codes of sound included."""
    names = (*SPECIALS, *(f"<|audio_{code}|>" for code in range(CODES)))
    return {name: len(_known()) + i for i, name in enumerate(names)}


def write_tokenizer(folder: Path) -> None:
    """tokenizer.model and tokenizer_config.json."""
    tokens = (bytes(BYTES[char] for char in name) for name in _known())
    lines = [f"{base64.b64encode(token).decode()} {i}" for i, token in enumerate(tokens)]
    (folder / "tokenizer.model").write_text("\n".join(lines) + "\n", "utf-8")
    added = {str(id): {"content": name, "special": True} for name, id in specials().items()}
    dump_json(folder / "tokenizer_config.json", {"added_tokens_decoder": added})


def write_checkpoint(
    folder: Path,
    *,
    seed: int = 0,
    ending: float = 1.0,
    wordy: float = 0.8,
    heads: Mapping[str, int] = HEADS,
) -> None:
    """Write the language model and what hears. ending: how loudly the head asks for the end; wordy:
    for ids of text, of which there are few.
    """
    dump_json(folder / "config.json", config(heads))
    write_tokenizer(folder)
    tensors = dict(drawn(shapes_of(sources, GlmNet, load_config(folder)), seed))
    head, known = tensors["transformer.output_layer.weight"], specials()
    head[: known["<|audio_0|>"]] *= wordy
    for name in ("<|endoftext|>", "<|user|>", "<|observation|>"):
        head[known[name]] *= ending / wordy
    save(folder, tensors.items())
    write_hearing(folder, seed=seed)


def write_hearing(folder: Path, *, seed: int = 0) -> None:
    """The folder of what hears."""
    (folder / TOKENIZER).mkdir(exist_ok=True)
    dump_json(folder / TOKENIZER / "config.json", HEARING)
    shapes = shapes_of(hearing_sources, WhisperVQ, load_hearing_config(folder))
    tensors = dict(drawn(shapes, seed))
    tensors["codebook.weight"] *= 2.0
    save(folder / TOKENIZER, tensors.items())


def flow_sizes() -> FlowSizes:
    """Widths for tests."""
    unet = UNetSizes(4 * _MELS, _MELS, _WIDTH, 64, 4 * _WIDTH, 4 * _WIDTH, 1, 1, meanflow=False)
    encoder = EncoderSizes(_WIDTH, 2, 48, 2, 0)
    return FlowSizes(CODES, _WIDTH, 192, _MELS, encoder, _WIDTH, unet)


def hift_sizes() -> HiftSizes:
    """As above, with the published kernels."""
    return HiftSizes(_MELS, 16, 16, 9, False, 16, (16, 16), (3, 7, 11), (7, 11))


def write_codec(folder: Path, *, seed: int = 0) -> None:
    """The decoder's folder, converted."""
    folder.mkdir(parents=True, exist_ok=True)
    nets = unfilled(GlmFlow, flow_sizes()), unfilled(Hift, hift_sizes())
    tensors = {name: one for net in nets for name, one in published_tensors(net, "", seed)}
    save(folder, tensors.items())


def write_family(folder: Path, size: str, kind: str, seed: int) -> None:
    """A folder that both stages load; it ends its answers by itself."""
    write_checkpoint(folder, seed=seed, ending=1.3)
    write_codec(folder / FACTS.codec.inside, seed=seed)


FAMILY: Final = SyntheticFamily(write_family, "a talker, what hears, and its codec")
