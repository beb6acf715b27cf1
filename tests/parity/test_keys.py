"""Synthetic checkpoints and our networks agree with the official classes on every tensor."""

from typing import Any

import msgspec
import pytest
import torch

from tests.parity.cases import PUBLISHED
from tests.parity.material import pattern, said
from ttscommon.engine.nn.mimi import encoder_sources
from ttscommon.engine.nn.weights import published_shapes
from ttsfamilies.qwen3_tts.cloning import CodecEncoder, EncoderConfig
from ttsfamilies.qwen3_tts.codec import UNUSED as UNUSED_BY_DECODER
from ttsfamilies.qwen3_tts.codec import sources as codec_sources
from ttsfamilies.qwen3_tts.codec_net import CodecConfig, CodecDecoder
from ttsfamilies.qwen3_tts.net import unused_by_encoder
from ttsfamilies.qwen3_tts.sizes import PUBLISHED_TEXT_VOCABULARY, codec_config, model_config
from ttsfamilies.qwen3_tts.synthetic import Shapes, codec_shapes, model_shapes

WANTED = said("keys")


def config_of(name: str) -> dict[str, Any]:
    if name == "codec":
        return codec_config("1.7b")
    return model_config(*PUBLISHED[name], PUBLISHED_TEXT_VOCABULARY)


def shapes_of(name: str) -> Shapes:
    return codec_shapes(config_of(name)) if name == "codec" else model_shapes(config_of(name))


@pytest.mark.parametrize("name", [*PUBLISHED, "codec"])
def test_a_synthetic_checkpoint_has_the_published_names_and_shapes(name: str) -> None:
    shapes = shapes_of(name)
    assert len(shapes) == WANTED[name]["tensors"]
    assert pattern(shapes) == WANTED[name]["shapes"]


def test_the_sizes_are_those_of_the_published_models() -> None:
    """Counts read off published files."""
    assert {name: WANTED[name]["tensors"] for name in PUBLISHED} == {
        "0.6B-CustomVoice": 402,
        "0.6B-Base": 478,
        "1.7B-CustomVoice": 404,
        "1.7B-VoiceDesign": 404,
        "1.7B-Base": 480,
    }
    assert WANTED["1.7B-Base"]["parameters"] == 1_928_677_440


def test_the_codecs_networks_take_every_published_tensor_but_the_training_ones() -> None:
    config = config_of("codec")
    encoding = msgspec.convert(config, EncoderConfig)
    decoding = msgspec.convert(config, CodecConfig)
    with torch.device("meta"):
        encoder, decoder = CodecEncoder(encoding), CodecDecoder(decoding.decoder_config)
    taken = published_shapes(encoder, encoder_sources(encoder, "encoder."))
    taken |= published_shapes(decoder, codec_sources(decoder))
    left = {k: v for k, v in shapes_of("codec").items() if k not in taken}
    assert taken == {k: v for k, v in shapes_of("codec").items() if k in taken}
    unused = {*unused_by_encoder(encoding), *UNUSED_BY_DECODER} - {"encoder.", "decoder."}
    assert [name for name in left if not name.startswith(tuple(unused))] == []
