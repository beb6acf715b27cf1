"""How far a codec's samples are off where tensor cores multiply, computed on a CPU.

python -m tests.benchmarks.tensor_cores [--size tiny] [--frames 8]: Qwen3-TTS's codec with drawn
weights. Operands of products and convolutions are rounded as tensor cores round them, sums are
float32. tf32x3 multiplies each operand's rounded part and its rest, but for the rests.
"""

import argparse
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

import msgspec
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ttsfamilies.qwen3_tts.codec import load_decoder
from ttsfamilies.qwen3_tts.codec_net import CodecDecoder
from ttsfamilies.qwen3_tts.sizes import Size
from ttsfamilies.qwen3_tts.synthetic import write_checkpoint

Round = Callable[[Tensor], Tensor]

_PRODUCTS: Final = {
    torch.nn.functional.linear,
    torch.conv1d,
    torch.nn.functional.conv1d,
    torch.conv_transpose1d,
    torch.nn.functional.conv_transpose1d,
    torch.matmul,
}
_TF32_BITS: Final = 13  # of float32 that TF32 lacks
_INT16: Final = 32768


def tf32(x: Tensor) -> Tensor:
    """To the nearest with ten bits."""
    bits = x.contiguous().view(torch.int32)
    half = 1 << (_TF32_BITS - 1)
    return ((bits + half) & ~((1 << _TF32_BITS) - 1)).view(torch.float32)


def bf16(x: Tensor) -> Tensor:
    return x.bfloat16().float()


class Rounded(TorchFunctionMode):
    """Products inside are of rounded operands; parts: of each operand, 1 or 2."""

    def __init__(self, rounded: Round, parts: int) -> None:
        super().__init__()
        self._round, self._parts = rounded, parts

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func not in _PRODUCTS:
            return func(*args, **kwargs)
        x, weight, *more = args
        high, mine = self._round(x), self._round(weight)
        out = func(high, mine, *more, **kwargs)
        if self._parts > 1:
            unbiased = [None, *more[1:]] if more else more
            told = {name: value for name, value in kwargs.items() if name != "bias"}
            out = out + func(high, self._round(weight - mine), *unbiased, **told)
            out = out + func(self._round(x - high), mine, *unbiased, **told)
        return out


WAYS: Final[dict[str, tuple[Round, int]]] = {
    "tf32x3": (tf32, 2),
    "tf32": (tf32, 1),
    "bf16": (bf16, 1),
}


def net(size: Size) -> CodecDecoder:
    """Of a synthetic checkpoint."""
    with TemporaryDirectory() as folder:
        write_checkpoint(Path(folder), size, "custom_voice", seed=1)
        return load_decoder(Path(folder) / "speech_tokenizer")


@torch.inference_mode()
def judged(size: Size, frames: int) -> dict[str, dict[str, float]]:
    """By way: the largest difference and the root mean square one, in steps of int16, and the
    signal above it in dB; samples are as loud as int16 holds.
    """
    codec = net(size)
    g = torch.Generator().manual_seed(1)
    c = codec.config
    codes = torch.randint(0, c.codebook_size, (1, frames, c.num_quantizers), generator=g)
    ways: dict[str, AbstractContextManager[object]] = {"float32": nullcontext()}
    ways |= {name: Rounded(*how) for name, how in WAYS.items()}
    exact = deepcopy(codec).double()(codes)
    loud = _INT16 / float(exact.abs().max())
    found = {}
    for name, way in ways.items():
        with way:
            off = (codec(codes).double() - exact) * loud
        rms = float(off.square().mean().sqrt())
        signal = float((exact * loud).square().mean().sqrt())
        found[name] = {
            "most": float(off.abs().max()),
            "rms": rms,
            "db": 20 * float(torch.tensor(signal / max(rms, 1e-9)).log10()),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="tiny", choices=["tiny", "0.6b", "1.7b"])
    parser.add_argument("--frames", type=int, default=8)
    told = parser.parse_args()
    found = judged(cast(Size, told.size), told.frames)
    print(msgspec.json.format(msgspec.json.encode(found)).decode())


if __name__ == "__main__":
    main()
