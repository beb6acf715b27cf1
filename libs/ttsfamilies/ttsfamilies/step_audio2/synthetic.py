"""Step-Audio 2: published names, small shapes, weights drawn from a seed.

Of its ids only those of speech are as many as published.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from ttscommon.engine.checkpoint import dump_json
from ttsfamilies.base.s3 import TOKENS
from ttsfamilies.base.s3.synthetic import write_speaker, write_tokens
from ttsfamilies.base.synthetic import SyntheticFamily
from ttsfamilies.base.synthetic.tensors import drawn, save, shapes_of
from ttsfamilies.base.synthetic.tokenizers import vocabulary, write_qwen2_tokenizer
from ttsfamilies.cosyvoice.s3_flow.synthetic import write_codec
from ttsfamilies.cosyvoice.synthetic import write_index
from ttsfamilies.step_audio2.family import StepNet, sources
from ttsfamilies.step_audio2.request import load_config

# (heads, KV heads, head_dim).
SMALL: Final = (4, 2, 8)
PUBLISHED: Final = (28, 4, 128)
SPECIALS: Final = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|EOT|>", "<|BOT|>"),
    *("<audio_start>", "<audio_end>", "<audio_patch>"),
    *("<tts_start>", "<tts_end>", "<tts_pad>", "<audio_0>"),
)
FIRST: Final = len(vocabulary())
"""The first of the special ids, in the order of SPECIALS."""
FIRST_AUDIO: Final = FIRST + len(SPECIALS) - 1
_SPARE: Final = 6


def config(heads: tuple[int, int, int] = SMALL) -> dict[str, Any]:
    """config.json."""
    count, kv_heads, head_dim = heads
    return {
        "architectures": ["StepAudio2ForCausalLM"],
        "model_type": "step_audio_2",
        "audio_encoder_config": {
            "n_mels": 128,
            "n_audio_ctx": 1500,
            "n_audio_state": 32,
            "n_audio_head": 4,
            "n_audio_layer": 2,
            "n_codebook_size": 4096,
            "llm_dim": 32,
            "kernel_size": 3,
            "adapter_stride": 2,
        },
        "text_config": {
            "vocab_size": FIRST_AUDIO + TOKENS + 1 + _SPARE,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": count,
            "num_attention_groups": kv_heads,
            "num_key_value_heads": kv_heads,
            "head_dim": head_dim,
            "max_position_embeddings": 16_384,
            "rms_norm_eps": 1e-6,
            "rope_theta": 1_000_000.0,
            "eos_token_id": FIRST,
        },
        "torch_dtype": "float32",
    }


def write_checkpoint(
    folder: Path,
    *,
    heads: tuple[int, int, int] = SMALL,
    seed: int = 0,
    wording: float = 1.25,
    ending: float = 1.0,
) -> None:
    """Write all but flow and vocoder. wording, ending: how loudly ids of text, and those that end
    an answer, speak among the logits.
    """
    voice = folder / "token2wav"
    voice.mkdir(parents=True, exist_ok=True)
    dump_json(folder / "config.json", config(heads))
    write_qwen2_tokenizer(folder, vocabulary(), SPECIALS)
    write_tokens(voice / "speech_tokenizer_v2_25hz.onnx", version=2, seed=seed)
    write_speaker(voice / "campplus.onnx", seed=seed)
    tensors = dict(drawn(shapes_of(sources, StepNet, load_config(folder)), seed))
    head = tensors["lm_head.weight"]
    head *= 3.0  # draws that mostly lie within the nucleus
    head[:FIRST] *= wording
    for name in ("<|EOT|>", "<tts_end>"):
        head[FIRST + SPECIALS.index(name)] *= ending
    save(folder, tensors.items())


def add_codec(folder: Path, seed: int = 0) -> None:
    """Flow and vocoder, converted: see `antiphon convert`."""
    voice = folder / "token2wav"
    write_codec(voice, "step_audio2", seed=seed)
    (voice / "model.safetensors").rename(voice / "flow.safetensors")
    write_index(voice)


def write_family(folder: Path, size: str, kind: str, seed: int) -> None:
    """A folder that both stages load; it ends its answers by itself."""
    write_checkpoint(folder, seed=seed, ending=2.5)
    add_codec(folder, seed)


FAMILY: Final = SyntheticFamily(write_family, "a talker and its codec")
