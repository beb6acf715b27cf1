"""A decoder small enough for tests, every part of which matters."""

from functools import cache

import torch

from ttscommon.engine.device.device import Device
from ttsfamilies.base.codec.options import CodecOptions, DeviceLimits
from ttsfamilies.qwen3_tts.codec import Qwen3Codec
from ttsfamilies.qwen3_tts.codec_net import CodecDecoder, DecoderSizes

SIZES = DecoderSizes(
    codebook_dim=16,
    codebook_size=32,
    num_quantizers=4,
    latent_dim=24,
    hidden_size=16,
    intermediate_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=2,
    head_dim=8,
    sliding_window=5,
    rms_norm_eps=1e-5,
    rope_theta=10_000.0,
    decoder_dim=32,
    upsample_rates=(8, 5, 4, 3),
    upsampling_ratios=(2, 2),
)


def drawn(dtype: torch.dtype, sizes: DecoderSizes = SIZES) -> CodecDecoder:
    """A decoder whose every part matters, from a fixed seed."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = CodecDecoder(sizes)
    for name, parameter in net.named_parameters():
        if name.endswith(("scale.weight", "scale")):
            torch.nn.init.uniform_(parameter, 0.3, 0.6)
        elif name.endswith("usage"):
            torch.nn.init.uniform_(parameter, 0.5, 2.0)
        elif name.endswith("sums"):
            torch.nn.init.normal_(parameter)
    net = net.to(dtype).eval().requires_grad_(False)
    net.quantizer.freeze()
    return net


@cache
def tiny(size: int = 0, context: int = 0) -> Qwen3Codec:
    """In the engine, on the CPU; windowed if a size is given."""
    return Qwen3Codec("m", drawn(torch.float32), 24_000, CodecOptions(_windows(size, context)))


def tiny_on(device: Device, limits: DeviceLimits, size: int = 0, context: int = 0) -> Qwen3Codec:
    """In the engine, on a device; windowed if a size is given."""
    how = CodecOptions(_windows(size, context), device, limits)
    return Qwen3Codec("m", drawn(torch.float32), 24_000, how)


def _windows(size: int, context: int) -> tuple[int, int] | None:
    return (size, context) if size else None
