"""Common parts of Pocket TTS's talker and codec: Kyutai's own names of tensors."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor, nn

from ttscommon.engine.mimi import MimiSizes
from ttscommon.engine.nn.decoder import DecoderConfig
from ttscommon.engine.nn.mimi import LatentEncoder, transformer_config
from ttscommon.engine.nn.rope import RopeConfig
from ttscommon.engine.nn.weights import Source, same
from ttsfamilies.pocket_tts.sizes import LatentMimi, PocketBackbone

FLOW_LM, MIMI = "flow_lm.", "mimi."
_SCALES = (("attention", 1), ("mlp", 2))


def backbone_config(c: PocketBackbone) -> DecoderConfig:
    """The transformer over voice, text and latents; its last norm is `out_norm`."""
    return DecoderConfig(
        dim=c.d_model,
        layers=c.num_layers,
        heads=c.num_heads,
        kv_heads=c.kv_heads,
        head_dim=c.head_dim,
        hidden=c.hidden,
        eps=1e-5,
        rope=RopeConfig(theta=float(c.max_period), interleaved=True),
        norm="layer",
        mlp="gelu_tanh",
    )


def window_config(c: MimiSizes) -> DecoderConfig:
    """A transformer of the codec."""
    rope = RopeConfig(theta=c.theta, interleaved=True)
    return replace(transformer_config(c), mlp="gelu_tanh", rope=rope)


def stack_sources(
    c: DecoderConfig, ours: str, theirs: str, qkv: str = "in_proj.weight"
) -> dict[str, Source]:
    """The blocks of a stack; names begin with `ours` and `theirs`, dot included. qkv: what the
    product to queries, keys and values is called.
    """
    parts = {
        "attention_norm.weight": "norm1.weight",
        "attention_norm.bias": "norm1.bias",
        "attention.qkv.weight": f"self_attn.{qkv}",
        "attention.out.weight": "self_attn.out_proj.weight",
        "mlp_norm.weight": "norm2.weight",
        "mlp_norm.bias": "norm2.bias",
        "mlp.up.weight": "linear1.weight",
        "mlp.down.weight": "linear2.weight",
    }
    if c.layer_scale:
        parts |= {f"{kind}_scale.weight": f"layer_scale_{i}.scale" for kind, i in _SCALES}
    return {
        f"{ours}blocks.{layer}.{name}": same(f"{theirs}layers.{layer}.{their_name}")
        for layer in range(c.layers)
        for name, their_name in parts.items()
    }


class PocketEncoder(LatentEncoder):
    """Recordings to the latents that a voice is made of."""

    def __init__(self, c: LatentMimi) -> None:
        sizes = c.encoder_sizes
        super().__init__(sizes, window_config(sizes), sizes.sliding_window, c.heard)
        self.frame_samples = sizes.frame_samples

    def forward(self, wav: Tensor) -> Tensor:
        """[samples] float32 -> [frames, latent]; silence fills up the last frame."""
        whole = nn.functional.pad(wav, (0, -len(wav) % self.frame_samples))
        return self.latents(whole)[0].T


def encoder_sources(net: PocketEncoder) -> dict[str, Source]:
    """Every parameter's published tensors."""
    found = {"slow_down.weight": same(f"{MIMI}downsample.conv.conv.weight")}
    for name in net.convolutions.state_dict():
        module, part = name.rsplit(".", 1)
        found[f"convolutions.{name}"] = same(f"{MIMI}encoder.model.{module}.conv.{part}")
    stack = f"{MIMI}encoder_transformer.transformer."
    return found | stack_sources(net.transformer.config, "transformer.", stack)
