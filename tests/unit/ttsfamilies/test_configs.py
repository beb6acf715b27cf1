"""Configurations of other models of a kind: what is not served is named, family by family."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ttscommon.engine.checkpoint import CheckpointError, dump_json
from ttsfamilies.csm import synthetic as csm
from ttsfamilies.csm.mimi import synthetic as mimi
from ttsfamilies.csm.mimi.net import load_sizes as load_mimi
from ttsfamilies.csm.request import load_config as load_csm
from ttsfamilies.higgs_audio import synthetic as higgs_audio
from ttsfamilies.higgs_audio.net import load_config as load_higgs_audio
from ttsfamilies.kokoro import synthetic as kokoro
from ttsfamilies.kokoro.sizes import load_config as load_kokoro
from ttsfamilies.kyutai_tts import synthetic as kyutai_tts
from ttsfamilies.kyutai_tts.config import load_config as load_kyutai_tts
from ttsfamilies.orpheus import synthetic as orpheus
from ttsfamilies.orpheus.family import load_config as load_orpheus
from ttsfamilies.pocket_tts import synthetic as pocket_tts
from ttsfamilies.pocket_tts.sizes import load_config as load_pocket_tts
from ttsfamilies.qwen3_omni import synthetic as qwen3_omni
from ttsfamilies.qwen3_omni.config import load_config as load_qwen3_omni
from ttsfamilies.qwen3_tts.config import load_config as load_qwen3_tts
from ttsfamilies.qwen3_tts.sizes import model_config
from ttsfamilies.voxcpm2 import synthetic as voxcpm2
from ttsfamilies.voxcpm2.facts import load_config as load_voxcpm2
from ttsfamilies.zonos import synthetic as zonos
from ttsfamilies.zonos.facts import load_config as load_zonos

# What is served, and what reads it.
SERVED: Mapping[str, tuple[Callable[[], Mapping[str, Any]], Callable[[Path], object]]] = {
    "csm": (partial(csm.config, 4), load_csm),
    "mimi": (lambda: mimi.TINY, load_mimi),
    "higgs 2": (partial(higgs_audio.config, higgs_audio.SECOND, 3), load_higgs_audio),
    "higgs 3": (partial(higgs_audio.config, higgs_audio.THIRD, 3), load_higgs_audio),
    "kokoro": (lambda: kokoro.TINY, load_kokoro),
    "kyutai": (partial(kyutai_tts.config, 3, kyutai_tts.SMALL, layers=1), load_kyutai_tts),
    "orpheus": (lambda: orpheus.TINY, load_orpheus),
    "pocket": (pocket_tts.tiny, load_pocket_tts),
    "omni": (partial(qwen3_omni.config, 500), load_qwen3_omni),
    "qwen3": (partial(model_config, "tiny", "custom_voice", 500), load_qwen3_tts),
    "qwen3 base": (partial(model_config, "tiny", "base", 500), load_qwen3_tts),
    "voxcpm2": (voxcpm2.config, load_voxcpm2),
    "zonos": (lambda: zonos.TINY, load_zonos),
}
MOSHI_DELAY = {"audio_delay": 2.8, "second_stream_ahead": 2}
QWEN = "talker_config"
ENCODER = "speaker_encoder_config"
YARN = {"type": "yarn", "rope_type": "default"}
OMNI = "talker_config.text_config"
CONDITION = "prefix_conditioner.conditioners.2"


@pytest.mark.parametrize("family", SERVED)
def test_what_is_served_is_read(family: str, tmp_path: Path) -> None:
    config, load = SERVED[family]
    dump_json(tmp_path / "config.json", config())
    load(tmp_path)


@pytest.mark.parametrize(
    ("family", "name", "value", "said"),
    [
        ("csm", "tie_codebooks_embeddings", False, "not tied"),
        ("csm", "codebook_eos_token_id", 1, "control ids"),
        ("csm", "text_vocab_size", 128_000, "none for a turn's end"),
        ("csm", "num_codebooks", 5, "disagree on num_codebooks"),
        ("csm", "hidden_size", 36, "disagree on vocab_size or hidden_size"),
        ("csm", "num_key_value_heads", 3, "no multiple of 3"),
        ("csm", "rope_scaling", {"rope_type": "yarn"}, "yarn"),
        ("csm", "codec_config.trim_right_ratio", 0.5, "kind of Mimi"),
        ("csm", "codec_config.codebook_size", 4096, "than the codec's codes"),
        ("mimi", "use_causal_conv", False, "kind of Mimi"),
        ("mimi", "num_semantic_quantizers", 2, "kind of Mimi"),
        ("mimi", "head_dim", 7, "odd"),
        ("mimi", "sliding_window", 0, "sliding_window is 0"),
        ("higgs 2", "audio_stream_bos_id", 7, "control ids"),
        ("higgs 2", "codebook_size", 2, "control ids"),
        ("higgs 2", "num_key_value_heads", 3, "no multiple of 3"),
        ("higgs 3", "audio_encoder_config", {"tie_word_embeddings": False}, "head of its own"),
        ("higgs 3", "audio_encoder_config", {"num_codebooks": 1}, "1 codebooks"),
        ("kokoro", "vocab", {"a": 178}, "not within 1 .. 177"),
        ("kokoro", "n_layer", 0, "n_layer is 0"),
        ("kyutai", "demux_second_stream", False, "second text stream"),
        ("kyutai", "cross_attention", False, "beginning of the sound"),
        ("kyutai", "dep_q", 2, "several streams"),
        ("kyutai", "delays", [0, 0, 2], "none of a text and 3 codebooks"),
        ("kyutai", "tts_config", MOSHI_DELAY, "2.8 s behind"),
        ("kyutai", "depformer_weights_per_step_schedule", [0, 2, 2], "names no weights"),
        ("kyutai", "norm", "layer_norm", "kind of network"),
        ("kyutai", "conditioners", {}, "no fuser|not served"),
        ("kyutai", "dim", 0, "dim is 0"),
        ("orpheus", "vocab_size", 128_256, "no place for seven codebooks"),
        ("orpheus", "rope_theta", None, "rope_theta is missing"),
        ("orpheus", "rope_scaling", {"rope_type": "yarn"}, "yarn"),
        ("orpheus", "attention_bias", True, "biases"),
        ("pocket", "flow_lm.transformer.num_kv_heads", 3, "no multiple of 3"),
        ("pocket", "flow_lm.transformer.d_model", 0, "d_model is 0"),
        ("pocket", "flow_lm.lookup_table.dim", 16, "does not fit a width of 32"),
        ("pocket", "flow_lm.lookup_table.tokenizer", "words", "'words' is not served"),
        ("pocket", "flow_lm.flow.type", "diffusion", "diffusion"),
        ("pocket", "mimi.transformer.d_model", 8, "other widths"),
        ("pocket", "mimi.quantizer.output_dimension", 4, "another width"),
        ("pocket", "mimi.frame_rate", 13.0, "do not fit the frame rate"),
        ("pocket", "mimi.channels", 2, "kind of Mimi"),
        ("pocket", "mimi.seanet.pad_mode", "reflect", "reflect"),
        ("pocket", "default_temperature", -1.0, "no usable number"),
        ("pocket", "replace_characters", {"ab": "c"}, "single characters"),
        ("omni", "enable_audio_output", False, "no talker"),
        ("omni", "model_type", "qwen2_5_omni", "model_type"),
        ("omni", f"{OMNI}.num_experts_per_tok", 9, "9 experts a token, of 8"),
        ("omni", f"{OMNI}.mlp_only_layers", [0], "without experts"),
        ("omni", f"{OMNI}.decoder_sparse_step", 2, "without experts"),
        ("omni", f"{OMNI}.rope_scaling", {"mrope_section": [2, 2, 2]}, "mrope_section"),
        ("omni", f"{OMNI}.rope_theta", None, "rope_theta"),
        ("omni", f"{OMNI}.vocab_size", 4096, "vocab_size"),
        ("omni", f"{OMNI}.hidden_act", "gelu", "hidden_act"),
        ("qwen3", "model_type", "qwen3", "model_type is 'qwen3'"),
        ("qwen3", "tokenizer_type", "qwen3_tts_tokenizer_25hz", "only the 12 Hz one"),
        ("qwen3", "tts_model_type", "singer", "singer"),
        ("qwen3", f"{QWEN}.hidden_act", "gelu", "hidden_act 'gelu'"),
        ("qwen3", f"{QWEN}.use_sliding_window", True, "sliding windows"),
        ("qwen3", f"{QWEN}.rope_scaling", {"rope_type": "yarn"}, "yarn"),
        ("qwen3", f"{QWEN}.rope_scaling", YARN, "yarn"),
        ("qwen3", f"{QWEN}.rope_theta", 0.0, "rope_theta is 0.0, not a positive number"),
        ("qwen3", f"{QWEN}.rms_norm_eps", -1e-6, "rms_norm_eps is -1e-06"),
        ("qwen3", f"{QWEN}.num_hidden_layers", 10**9, "is 1000000000, not from 1 to 512"),
        ("qwen3", f"{QWEN}.hidden_size", 0, "hidden_size is 0"),
        ("qwen3", f"{QWEN}.head_dim", 33, "head_dim 33 is odd"),
        ("qwen3", f"{QWEN}.num_key_value_heads", 3, "no multiple of 3 KV heads"),
        ("qwen3", f"{QWEN}.vocab_size", 4096, "vocab_size 4096"),
        ("qwen3", f"{QWEN}.codec_bos_id", 3072, "id 'codec_bos_id' is 3072, not one of 3072"),
        ("qwen3", f"{QWEN}.codec_language_id", {"english": -1}, "language 'english' is -1"),
        ("qwen3", f"{QWEN}.spk_id", {"mira": 5000}, "speaker 'mira' is 5000"),
        ("qwen3", f"{QWEN}.spk_id", {"mira": 3000, "Mira": 3001}, "two speakers are called 'mira'"),
        ("qwen3", f"{QWEN}.spk_is_dialect.eric", "klingon", "'klingon', which has no id"),
        ("qwen3", "tts_pad_token_id", 10**7, "text id 10000000 is not one of"),
        ("qwen3", f"{QWEN}.num_code_groups", 8, "disagree on num_code_groups"),
        ("qwen3", f"{QWEN}.hidden_size", "48", "talker_config.hidden_size"),
        ("qwen3 base", f"{ENCODER}.enc_dim", 49, "enc_dim 49 is not the talker's hidden_size"),
        ("qwen3 base", f"{ENCODER}.enc_res2net_scale", 7, "enc_res2net_scale 7"),
        ("voxcpm2", "lm_config.use_mup", True, "use_mup"),
        ("voxcpm2", "lm_config.kv_channels", 8, "do not rotate"),
        ("voxcpm2", "dit_config.dit_mean_mode", True, "dit_mean_mode"),
        ("voxcpm2", "dit_config.kv_channels", 8, "share their rotations"),
        ("voxcpm2", "audio_vae_config.depthwise", False, "kind of VAE"),
        ("voxcpm2", "audio_vae_config.latent_dim", 4, "no patches"),
        ("voxcpm2", "audio_vae_config.encoder_rates", [2, 5], "how long a latent lasts"),
        ("zonos", "backbone.ssm_cfg", {"layer": "Mamba2"}, "the hybrid of Zonos"),
        ("zonos", f"{CONDITION}.uncond_type", "none", "every prompt must have"),
        ("zonos", f"{CONDITION}.input_dim", 7, "takes 7 values, not 8"),
        ("zonos", f"{CONDITION}.max_val", 0.0, "range"),
    ],
)
def test_what_is_not_served_is_named(
    family: str, name: str, value: object, said: str, tmp_path: Path
) -> None:
    config, load = SERVED[family]
    told = part = json.loads(json.dumps(config()))
    *path, last = name.split(".")
    for step in path:
        part = part[int(step) if isinstance(part, list) else step]
    part[last] = value
    dump_json(tmp_path / "config.json", told)
    with pytest.raises(CheckpointError, match=said):
        load(tmp_path)
