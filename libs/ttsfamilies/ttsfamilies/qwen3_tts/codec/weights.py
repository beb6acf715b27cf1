"""Names of the decoder's parameters in speech_tokenizer/model.safetensors."""

from __future__ import annotations

from pathlib import Path

from ttscommon.engine.nn.weights import Shards, Source, decoder_sources, filled, same, unfilled
from ttsfamilies.qwen3_tts.codec.config import load_config
from ttsfamilies.qwen3_tts.codec.net import CodecDecoder

UNUSED = ("encoder.", "decoder.quantizer.rvq_first.input_proj", "decoder.quantizer.rvq_rest.input")


def load_decoder(folder: Path, device: str = "cpu") -> CodecDecoder:
    """The decoder in a codec's own folder, in float32; raises CheckpointError."""
    config = load_config(folder)
    net = unfilled(CodecDecoder, config.decoder_config)
    stated, shards = sources(net), Shards.of(folder)
    filled(net, stated, shards, others=UNUSED, device=device)
    net.quantizer.freeze()
    return net


def sources(net: CodecDecoder) -> dict[str, Source]:
    """Every parameter's published tensors."""
    c = net.config
    found = _pair("before", "decoder.pre_conv.conv") | _quantizer(c.num_quantizers)
    stack = "decoder.pre_transformer."
    found |= _pair("project_in", f"{stack}input_proj") | _pair("project_out", f"{stack}output_proj")
    found |= decoder_sources(net.transformer.config, "transformer.", stack)
    return found | wave_sources(len(c.upsampling_ratios), len(c.upsample_rates), "decoder.")


def wave_sources(ratios: int, rates: int, theirs: str) -> dict[str, Source]:
    """Of a `CausalWave` with so many of either; theirs: what the names begin with."""
    found: dict[str, Source] = {}
    for i in range(ratios):
        found |= _pair(f"stretch.{i}", f"{theirs}upsample.{i}.0.conv")
        found |= _conv_next(f"refine.{i}.", f"{theirs}upsample.{i}.1.")
    found |= _pair("widen", f"{theirs}decoder.0.conv")
    for i in range(rates):
        found |= _upsample(f"ups.{i}.", f"{theirs}decoder.{i + 1}.block.")
    found |= _snake("snake", f"{theirs}decoder.{rates + 1}")
    return found | _pair("out", f"{theirs}decoder.{rates + 2}.conv")


def _pair(ours: str, theirs: str) -> dict[str, Source]:
    return {f"{ours}.{part}": same(f"{theirs}.{part}") for part in ("weight", "bias")}


def _snake(ours: str, theirs: str) -> dict[str, Source]:
    return {f"{ours}.{part}": same(f"{theirs}.{part}") for part in ("alpha", "beta")}


def _quantizer(count: int) -> dict[str, Source]:
    part = "decoder.quantizer."
    books = [f"{part}rvq_first.vq.layers.0._codebook."]
    books += [f"{part}rvq_rest.vq.layers.{i}._codebook." for i in range(count - 1)]
    return {
        "quantizer.sums": Source(tuple(f"{b}embedding_sum" for b in books), stacked=True),
        "quantizer.usage": Source(tuple(f"{b}cluster_usage" for b in books), stacked=True),
        "quantizer.first.weight": same(f"{part}rvq_first.output_proj.weight"),
        "quantizer.rest.weight": same(f"{part}rvq_rest.output_proj.weight"),
    }


def _conv_next(ours: str, theirs: str) -> dict[str, Source]:
    found = _pair(f"{ours}depthwise", f"{theirs}dwconv.conv") | _pair(
        f"{ours}norm", f"{theirs}norm"
    )
    found |= _pair(f"{ours}rise", f"{theirs}pwconv1") | _pair(f"{ours}fall", f"{theirs}pwconv2")
    return found | {f"{ours}scale": same(f"{theirs}gamma")}


def _upsample(ours: str, theirs: str) -> dict[str, Source]:
    found = _snake(f"{ours}snake", f"{theirs}0") | _pair(f"{ours}up", f"{theirs}1.conv")
    for i in range(3):
        unit, published = f"{ours}units.{i}.", f"{theirs}{i + 2}."
        found |= _snake(f"{unit}snake1", f"{published}act1")
        found |= _pair(f"{unit}wide", f"{published}conv1.conv")
        found |= _snake(f"{unit}snake2", f"{published}act2")
        found |= _pair(f"{unit}point", f"{published}conv2.conv")
    return found
