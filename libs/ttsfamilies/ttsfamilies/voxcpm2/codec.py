"""VoxCPM2's decoder in the engine: exact state, which a few patches build anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from torch import Tensor, nn

from ttscommon.engine.nn import CausalConv1d, CausalUpsample1d
from ttscommon.engine.nn.weights import PAIRS, Source, filled, folded, named, unfilled
from ttscommon.wire.fields import Arrays, Field
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import CodecSpec
from ttsfamilies.base.codec.causal import CausalState, Tails, convolved_state
from ttsfamilies.base.codec.dac import KERNEL, Snake, UpsampleBlock
from ttsfamilies.base.codec.options import ON_CPU, CodecOptions
from ttsfamilies.base.codec.stateful import TOLERANCE, CausalCodec
from ttsfamilies.voxcpm2.blocks import HEARS, SOUNDS, UNIT, vae_shards
from ttsfamilies.voxcpm2.facts import VoxcpmConfig, load_config

# Of the boundaries between output rates: an integer tensor, which config.json says as well.
_BOUNDARIES: Final = f"{SOUNDS}sr_bin_boundaries"


class Widening(UpsampleBlock):
    """A scale and a bias for the output's rate in front of the block."""

    def __init__(self, channels: int, rate: int, rates: int) -> None:
        """rates: that the model tells apart, of which the last is the highest."""
        super().__init__(channels, channels // 2, rate, Snake, depthwise=True)
        self.scale, self.bias = nn.Embedding(rates, channels), nn.Embedding(rates, channels)

    def forward(self, x: Tensor, tails: Tails) -> Tensor:
        """[batch, channels, steps] -> [batch, channels / 2, steps * rate]."""
        x = x * self.scale.weight[-1][:, None] + self.bias.weight[-1][:, None]
        return super().forward(x, tails)


class VaeDecoder(nn.Module):
    """Patches of a batch of streams to samples."""

    def __init__(self, c: VoxcpmConfig) -> None:
        super().__init__()
        self.config, vae = c, c.audio_vae_config
        self.first = CausalConv1d(c.feat_dim, c.feat_dim, KERNEL, groups=c.feat_dim)
        self.widen = nn.Conv1d(c.feat_dim, vae.decoder_dim, 1)
        rates, dim = len(vae.sr_bin_boundaries) + 1, vae.decoder_dim
        self.blocks = nn.ModuleList(
            Widening(dim >> i, rate, rates) for i, rate in enumerate(vae.decoder_rates)
        )
        last = dim >> len(vae.decoder_rates)
        self.before, self.last = Snake(last), CausalConv1d(last, 1, KERNEL)

    def convolutions(self) -> Iterator[CausalConv1d | CausalUpsample1d]:
        """Those that carry a tail, in the order in which sound passes them."""
        yield self.first
        for block in self.blocks:
            assert isinstance(block, Widening)
            yield from block.convolutions()
        yield self.last

    def new_state(self, batch: int = 1) -> CausalState:
        """Streams of which nothing was decoded yet."""
        return convolved_state(self.convolutions(), batch, self.last.weight)

    def step(
        self, frames: Tensor, lengths: Tensor, state: CausalState, begin: Tensor | None = None
    ) -> tuple[Tensor, CausalState]:
        """See CausalNet; frames: patches [batch, frames, latents, values]."""
        tails = Tails(state.tails, lengths * self.config.patch_size)
        x = frames.to(self.last.weight.dtype).flatten(1, 2).transpose(1, 2)
        x = self.widen(tails.through(self.first, x))
        for block in self.blocks:
            x = block(x, tails)
        samples = tails.through(self.last, self.before(x))[:, 0].tanh()
        position = state.position + lengths
        return samples, CausalState(position, state.keys, state.values, tails.done())


def sources(net: VaeDecoder) -> dict[str, Source]:
    """Every parameter's published tensors."""
    last = len(net.blocks) + 2
    scales = {f"blocks.*.{part}": f"sr_cond_model.*+2.{part}_embed" for part in ("scale", "bias")}
    ends = {"before": f"model.{last}", "last": f"model.{last + 1}"}
    found = folded(named(net, ends | _CONVOLUTIONS, theirs=SOUNDS), PAIRS[1])
    return found | named(net, scales, theirs=SOUNDS)


_CONVOLUTIONS: Final = {
    "first": "model.0",
    "widen": "model.1",
    "blocks.*.snake": "model.*+2.block.0",
    "blocks.*.up": "model.*+2.block.1",
    **{
        f"blocks.*.units.*.{ours}": f"model.*+2.block.*+2.{theirs}" for ours, theirs in UNIT.items()
    },
}


def load_decoder(folder: Path, device: str = "cpu") -> VaeDecoder:
    """The decoder in a checkpoint's folder, in float32; raises CheckpointError."""
    net, others = unfilled(VaeDecoder, load_config(folder)), (HEARS, _BOUNDARIES)
    return filled(net, sources(net), vae_shards(folder), others=others, device=device)


def load(name: str, folder: Path, how: CodecOptions = ON_CPU) -> VoxcpmCodec:
    """A checkpoint's codec; raises CheckpointError."""
    return VoxcpmCodec(name, load_decoder(folder, how.where), how)


class VoxcpmCodec(CausalCodec):
    """A loaded decoder."""

    def __init__(self, name: str, net: VaeDecoder, how: CodecOptions = ON_CPU) -> None:
        c = net.config
        spec = CodecSpec(
            *(name, "voxcpm2", c.audio_vae_config.out_sample_rate, c.frame_samples),
            {"patch": Field((c.patch_size, c.feat_dim), "f4")},
            context_frames=c.context_frames,
            tolerance=TOLERANCE,
        )
        super().__init__(net, spec, how)

    def prefix(self, request: SpeechRequest, reference: Arrays | None = None) -> Arrays | None:
        """As many of a recording's last patches as samples depend on, where speech goes on."""
        asked = request.reference
        if reference is None or asked is None or asked.x_vector_only or not asked.text:
            return None
        assert self.spec.context_frames is not None
        return {"patch": reference["prompt"][-self.spec.context_frames :]}
