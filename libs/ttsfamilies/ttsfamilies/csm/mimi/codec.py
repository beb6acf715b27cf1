"""Mimi in the engine: each stream carries exact state from its first frame to its last."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ttscommon.engine.checkpoint import CODEC_FILE, CheckpointError, named_file, read_json
from ttscommon.engine.codec_sizes import MimiSizes
from ttscommon.engine.nn.weights import Shards, Source, filled, named, unfilled
from ttscommon.wire.fields import Field
from ttsfamilies.base.codec.base import CodecSpec
from ttsfamilies.base.codec.causal import quantizer_sources
from ttsfamilies.base.codec.options import ON_CPU, CodecOptions
from ttsfamilies.base.codec.stateful import TOLERANCE, CausalCodec
from ttsfamilies.csm.mimi.net import UNUSED, MimiDecoder, context_frames, layers, load_decoder
from ttsfamilies.pocket_tts.net import stack_sources
from ttsfamilies.pocket_tts.sizes import Latent, LatentMimi, Seanet, Window

# A file of Kyutai's own: other names than transformers', and neighbours are rotated.


_SIZES: Final = "mimi_config_name"
_FIRST, _REST = "quantizer.rvq_first.", "quantizer.rvq_rest."


@dataclass(frozen=True)
class Books:
    """dimension: values of an entry. bins: entries."""

    dimension: int
    n_q: int
    bins: int
    input_dimension: int
    output_dimension: int


@dataclass(frozen=True)
class Description:
    """The file that `mimi_config_name` names; without one the sizes are the published ones."""

    sample_rate: int
    frame_rate: float
    seanet: Seanet
    transformer: Window
    quantizer: Books
    channels: int = 1

    def sizes(self) -> MimiSizes:
        books = self.quantizer
        outer = Latent(books.dimension, books.output_dimension)
        plain = LatentMimi(
            *(self.sample_rate, self.frame_rate, self.seanet, self.transformer, outer),
            channels=self.channels,
        )
        size, dim = books.bins, books.dimension
        return replace(plain.decoder_sizes, codebook_size=size, codebook_dim=dim)


def holds_kyutai(folder: Path) -> bool:
    """Whether a folder's config.json names such a file."""
    config = folder / "config.json"
    return config.exists() and CODEC_FILE in read_json(config, dict[str, Any])


def load_kyutai_sizes(folder: Path) -> MimiSizes:
    """With as many codebooks as the talker has; raises CheckpointError."""
    config = read_json(folder / "config.json", dict[str, Any])
    sizes = MimiSizes()
    if named := config.get(_SIZES):
        if Path(str(named)).name != named:
            raise CheckpointError(f"{folder}: {_SIZES} {named!r} is no file here")
        sizes = read_json(folder / named, Description).sizes()
    codebooks = config.get("n_q")
    if not isinstance(codebooks, int) or isinstance(codebooks, bool) or codebooks < 2:
        raise CheckpointError(f"{folder / 'config.json'} is not as expected: n_q {codebooks!r}")
    for wrong in sizes.problems():
        raise CheckpointError(f"{folder}: {wrong}")
    return replace(sizes, num_quantizers=codebooks)


def load_kyutai_decoder(folder: Path, device: str = "cpu") -> MimiDecoder:
    """The decoder in a folder, in float32; raises CheckpointError."""
    net = unfilled(MimiDecoder, load_kyutai_sizes(folder), interleaved=True)
    path = folder / named_file(folder / "config.json", CODEC_FILE)
    if not path.exists():
        raise CheckpointError(f"{path} is missing: download the checkpoint again")
    filled(net, kyutai_sources(net), Shards((path,)), others=UNUSED, device=device)
    net.quantizer.freeze()
    return net


def kyutai_sources(net: MimiDecoder) -> dict[str, Source]:
    """Every parameter's published tensors."""
    found = quantizer_sources(net.sizes.num_quantizers, _FIRST, _REST)
    stack = "decoder_transformer.transformer."
    found |= stack_sources(net.transformer, "transformer.", stack, "in_proj_weight")
    places = {"stretch": "upsample.convtr.convtr.convtr"}
    for ours, layer in layers(net.sizes):
        kind = "convtr.convtr" if ours.endswith(".up") else "conv.conv"
        places[ours] = f"decoder.model.{layer}.{kind}"
    return found | named(net, places)


def load(name: str, folder: Path, how: CodecOptions = ON_CPU) -> CausalCodec:
    """The codec that a folder is, or of the talker that holds it; raises CheckpointError."""
    read = load_kyutai_decoder if holds_kyutai(folder) else load_decoder
    return codec_of(name, read(folder, how.where), how)


def codec_of(name: str, net: MimiDecoder, how: CodecOptions = ON_CPU) -> CausalCodec:
    """A loaded decoder. Talkers have ids of their own beyond its codes."""
    c = net.sizes
    spec = CodecSpec(
        *(name, "mimi", c.sampling_rate, c.frame_samples),
        {"codes": Field((c.num_quantizers,), "i2")},
        context_frames=context_frames(c),
        tolerance=TOLERANCE,
    )
    return CausalCodec(net, spec, how)
