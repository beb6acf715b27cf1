"""Names and shapes of every tensor in a published checkpoint, from its config alone. No torch.

Stated apart from the networks on purpose: both are held to the official package's own list.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

Shapes = dict[str, tuple[int, ...]]
Section = Mapping[str, Any]


def model_shapes(config: Section) -> Shapes:
    """model.safetensors: talker, code predictor, and the speaker encoder of Base models."""
    talker = config["talker_config"]
    found = _under("talker.", _talker(talker))
    if config["tts_model_type"] == "base":
        found |= _under("speaker_encoder.", _speaker(config["speaker_encoder_config"]))
    return found


def codec_shapes(config: Section) -> Shapes:
    """speech_tokenizer/model.safetensors: the codec's encoder and decoder."""
    encoder, decoder = config["encoder_config"], config["decoder_config"]
    return _under("encoder.", _encoder(encoder)) | _under("decoder.", _decoder(decoder))


def _under(prefix: str, shapes: Shapes) -> Shapes:
    return {prefix + name: shape for name, shape in shapes.items()}


def _layer(name: str, *weight: int, bias: bool = True) -> Shapes:
    shapes: Shapes = {f"{name}.weight": weight}
    return shapes | ({f"{name}.bias": weight[:1]} if bias else {})


def _talker(c: Section) -> Shapes:
    predictor, dim, wide = c["code_predictor_config"], c["hidden_size"], c["text_hidden_size"]
    found: Shapes = {
        "codec_head.weight": (c["vocab_size"], dim),
        "model.codec_embedding.weight": (c["vocab_size"], dim),
        "model.text_embedding.weight": (c["text_vocab_size"], wide),
    }
    found |= _layer("text_projection.linear_fc1", wide, wide)
    found |= _layer("text_projection.linear_fc2", dim, wide)
    found |= _under("model.", _stack(c))
    return found | _under("code_predictor.", _predictor(predictor, dim))


def _predictor(c: Section, outer: int) -> Shapes:
    found = _under("model.", _stack(c))
    for i in range(c["num_code_groups"] - 1):
        found[f"lm_head.{i}.weight"] = (c["vocab_size"], c["hidden_size"])
        found[f"model.codec_embedding.{i}.weight"] = (c["vocab_size"], outer)
    if c["hidden_size"] != outer:
        found |= _layer("small_to_mtp_projection", c["hidden_size"], outer)
    return found


def _stack(c: Section, *, qk_norm: bool = True, layer_scale: bool = False) -> Shapes:
    found: Shapes = {"norm.weight": (c["hidden_size"],)}
    for i in range(c["num_hidden_layers"]):
        found |= _under(f"layers.{i}.", _block(c, qk_norm, layer_scale))
    return found


def _block(c: Section, qk_norm: bool, layer_scale: bool) -> Shapes:
    dim, hidden = c["hidden_size"], c["intermediate_size"]
    found: Shapes = {
        "input_layernorm.weight": (dim,),
        "post_attention_layernorm.weight": (dim,),
        "mlp.gate_proj.weight": (hidden, dim),
        "mlp.up_proj.weight": (hidden, dim),
        "mlp.down_proj.weight": (dim, hidden),
    }
    found |= _attention(c, dim)
    if qk_norm:
        for which in "qk":
            found[f"self_attn.{which}_norm.weight"] = (c["head_dim"],)
    return found | (_scales(dim) if layer_scale else {})


def _attention(c: Section, dim: int) -> Shapes:
    queries = c["num_attention_heads"] * c["head_dim"]
    keys = c["num_key_value_heads"] * c["head_dim"]
    return {
        "self_attn.q_proj.weight": (queries, dim),
        "self_attn.k_proj.weight": (keys, dim),
        "self_attn.v_proj.weight": (keys, dim),
        "self_attn.o_proj.weight": (dim, queries),
    }


def _scales(dim: int) -> Shapes:
    return {"self_attn_layer_scale.scale": (dim,), "mlp_layer_scale.scale": (dim,)}


def _speaker(c: Section) -> Shapes:
    channels, kernels = c["enc_channels"], c["enc_kernel_sizes"]
    found = _layer("blocks.0.conv", channels[0], c["mel_dim"], kernels[0])
    for i, (inner, outer) in enumerate(pairwise(channels[:-1]), 1):
        found |= _under(f"blocks.{i}.", _res2net(c, inner, outer, kernels[i]))
    last, attention = channels[-1], c["enc_attention_channels"]
    found |= _layer("mfa.conv", last, last, kernels[-1])
    found |= _layer("asp.tdnn.conv", attention, 3 * last, 1)
    found |= _layer("asp.conv", last, attention, 1)
    return found | _layer("fc", c["enc_dim"], 2 * last, 1)


def _res2net(c: Section, inner: int, outer: int, kernel: int) -> Shapes:
    part = outer // c["enc_res2net_scale"]
    found = _layer("tdnn1.conv", outer, inner, 1) | _layer("tdnn2.conv", outer, outer, 1)
    for i in range(c["enc_res2net_scale"] - 1):
        found |= _layer(f"res2net_block.blocks.{i}.conv", part, part, kernel)
    found |= _layer("se_block.conv1", c["enc_se_channels"], outer, 1)
    return found | _layer("se_block.conv2", outer, c["enc_se_channels"], 1)


def _decoder(c: Section) -> Shapes:
    latent, dim = c["latent_dim"], c["hidden_size"]
    found = _layer("pre_conv.conv", latent, c["codebook_dim"], 3)
    found |= _under("quantizer.", _decoder_quantizer(c))
    stack = _stack(c, qk_norm=False, layer_scale=True)
    stack |= _layer("input_proj", dim, latent) | _layer("output_proj", latent, dim)
    found |= _under("pre_transformer.", stack)
    for i, factor in enumerate(c["upsampling_ratios"]):
        found |= _layer(f"upsample.{i}.0.conv", latent, latent, factor)
        found |= _under(f"upsample.{i}.1.", _conv_next(latent))
    return found | _under("decoder.", _waveform(c))


def _decoder_quantizer(c: Section) -> Shapes:
    outer, inner = c["codebook_dim"], c["codebook_dim"] // 2
    found: Shapes = {}
    for name, count in (("rvq_first", 1), ("rvq_rest", c["num_quantizers"] - 1)):
        found[f"{name}.input_proj.weight"] = (inner, outer, 1)
        found[f"{name}.output_proj.weight"] = (outer, inner, 1)
        for i in range(count):
            book = f"{name}.vq.layers.{i}._codebook."
            found[f"{book}cluster_usage"] = (c["codebook_size"],)
            found[f"{book}embedding_sum"] = (c["codebook_size"], inner)
    return found


def _conv_next(dim: int) -> Shapes:
    found = _layer("dwconv.conv", dim, 1, 7) | {"gamma": (dim,)}
    found |= {"norm.weight": (dim,), "norm.bias": (dim,)}
    return found | _layer("pwconv1", 4 * dim, dim) | _layer("pwconv2", dim, 4 * dim)


def _waveform(c: Section) -> Shapes:
    widths = [c["decoder_dim"] >> i for i in range(len(c["upsample_rates"]) + 1)]
    found = _layer("0.conv", widths[0], c["latent_dim"], 7)
    for i, rate in enumerate(c["upsample_rates"], 1):
        found |= _under(f"{i}.block.", _upsampler(widths[i - 1], widths[i], rate))
    last = len(widths)
    found |= _snake(f"{last}", widths[-1])
    return found | _layer(f"{last + 1}.conv", 1, widths[-1], 7)


def _upsampler(inner: int, outer: int, rate: int) -> Shapes:
    found = _snake("0", inner)
    found |= {"1.conv.weight": (inner, outer, 2 * rate), "1.conv.bias": (outer,)}
    for i in (2, 3, 4):
        found |= _snake(f"{i}.act1", outer) | _snake(f"{i}.act2", outer)
        found |= _layer(f"{i}.conv1.conv", outer, outer, 7)
        found |= _layer(f"{i}.conv2.conv", outer, outer, 1)
    return found


def _snake(name: str, dim: int) -> Shapes:
    return {f"{name}.alpha": (dim,), f"{name}.beta": (dim,)}


def _encoder(c: Section) -> Shapes:
    dim = c["hidden_size"]
    found: Shapes = {"downsample.conv.weight": (dim, dim, 4)}
    found |= _under("encoder.", _seanet(c))
    for i in range(c["num_hidden_layers"]):
        found |= _under(f"encoder_transformer.layers.{i}.", _encoder_block(c))
    acoustic = c["num_quantizers"] - c["num_semantic_quantizers"]
    counts = {"semantic": c["num_semantic_quantizers"], "acoustic": acoustic}
    for name, count in counts.items():
        part = f"quantizer.{name}_residual_vector_quantizer."
        found |= _under(part, _encoder_quantizer(c, count))
    return found


def _seanet(c: Section) -> Shapes:
    width, index = c["num_filters"], 1
    found = _layer("layers.0.conv", width, c["audio_channels"], c["kernel_size"])
    for rate in reversed(c["upsampling_ratios"]):
        for _ in range(c["num_residual_layers"]):
            inner, block = width // c["compress"], f"layers.{index}.block."
            found |= _layer(f"{block}1.conv", inner, width, c["residual_kernel_size"])
            found |= _layer(f"{block}3.conv", width, inner, 1)
            index += 1
        found |= _layer(f"layers.{index + 1}.conv", 2 * width, width, 2 * rate)
        width, index = 2 * width, index + 2
    return found | _layer(
        f"layers.{index + 1}.conv", c["hidden_size"], width, c["last_kernel_size"]
    )


def _encoder_block(c: Section) -> Shapes:
    dim, hidden = c["hidden_size"], c["intermediate_size"]
    found: Shapes = {"mlp.fc1.weight": (hidden, dim), "mlp.fc2.weight": (dim, hidden)}
    for name in ("input_layernorm", "post_attention_layernorm"):
        found |= {f"{name}.weight": (dim,), f"{name}.bias": (dim,)}
    return found | _attention(c, dim) | _scales(dim)


def _encoder_quantizer(c: Section, count: int) -> Shapes:
    outer, inner = c["hidden_size"], c["codebook_dim"]
    found: Shapes = {
        "input_proj.weight": (inner, outer, 1),
        "output_proj.weight": (outer, inner, 1),
    }
    for i in range(count):
        book = f"layers.{i}.codebook."
        found[f"{book}initialized"] = (1,)
        found[f"{book}cluster_usage"] = (c["codebook_size"],)
        found[f"{book}embed_sum"] = (c["codebook_size"], inner)
    return found
