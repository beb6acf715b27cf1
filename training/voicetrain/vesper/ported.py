"""The teacher's weights in our own modules: text encoders and decoder."""

from collections.abc import Mapping

import torch
from torch import Tensor

from ttsfamilies.vesper.codec.layers import BINS
from ttsfamilies.vesper.codec.net import VesperDecoder
from ttsfamilies.vesper.net import VesperNet
from voicetrain.vesper.teacher import weights

# Where the graph keeps an encoder's matrices: its suffix, then its attention's first products.
_TEXT_NAMES = ("", "/Transpose_2", "/out_proj", "/linear1", "/linear2")
_PROSODY_NAMES = ("_1", "/Transpose_25", "/out_proj_4", "/linear1_4", "/linear2_4")


def port_text_encoders(net: VesperNet) -> None:
    """Load both text encoders of a talker from the teacher, and freeze them."""
    found = weights()
    for encoder, prefix, names in (
        (net.text, "m.text.", _TEXT_NAMES),
        (net.prosody, "pn.text.", _PROSODY_NAMES),
    ):
        encoder.load_state_dict(encoder_weights(found, prefix, names))
        encoder.requires_grad_(False)


def encoder_weights(
    found: Mapping[str, Tensor], prefix: str, names: tuple[str, str, str, str, str]
) -> dict[str, Tensor]:
    """The state of a `TextEncoder` from the graph's tensors."""
    suffix, qkv, out, rise, fall = names

    def matrix(name: str) -> Tensor:
        return found[name + "/Transpose_output_0"].T

    state = {
        "embedding.weight": found[prefix + "emb.weight"],
        "layer.qkv.weight": found[qkv + "_output_0"].T,
        "layer.qkv.bias": found[prefix + "attn.self_attn.in_proj_bias"],
        "layer.out.weight": matrix(out),
        "layer.out.bias": found[prefix + "attn.self_attn.out_proj.bias"],
        "layer.rise.weight": matrix(rise),
        "layer.rise.bias": found[prefix + "attn.linear1.bias"],
        "layer.fall.weight": matrix(fall),
        "layer.fall.bias": found[prefix + "attn.linear2.bias"],
        "norm.weight": found[prefix + "norm.weight"],
        "norm.bias": found[prefix + "norm.bias"],
    }
    for ours, theirs in (("attention_norm", "norm1"), ("mlp_norm", "norm2")):
        for part in ("weight", "bias"):
            state[f"layer.{ours}.{part}"] = found[f"{prefix}attn.{theirs}.{part}"]
    for index in (0, 1):
        theirs, ours = f"{prefix}convs.{index}.", f"convolutions.{index}."
        state[ours + "depthwise.weight"] = found[theirs + "dw.weight"]
        state[ours + "depthwise.bias"] = found[theirs + "dw.bias"]
        state[ours + "norm.weight"] = found[theirs + "norm.weight"]
        state[ours + "norm.bias"] = found[theirs + "norm.bias"]
        state[ours + "rise.weight"] = matrix(f"/convs.{index}/pw1{suffix}")
        state[ours + "rise.bias"] = found[theirs + "pw1.bias"]
        state[ours + "fall.weight"] = matrix(f"/convs.{index}/pw2{suffix}")
        state[ours + "fall.bias"] = found[theirs + "pw2.bias"]
        state[ours + "scale"] = found[theirs + "gamma"]
    return state


def port_decoder(decoder: VesperDecoder) -> None:
    """Load the teacher's decoder: as it is where a layer looks 3 hops ahead, else cut short.

    The head's noise branch (its third part) is inaudible and left out.
    """
    found = weights()
    state = decoder.state_dict()
    taps = cut(found["m.dec_in.weight"], decoder.config.ahead[0])
    state["first.weight"], state["first.bias"] = taps.flatten(1), found["m.dec_in.bias"]
    for index, ahead in enumerate(decoder.config.ahead[1:]):
        theirs, ours, matrix = f"m.dec.{index}.", f"blocks.{index}.", f"/dec.{index}/"
        state[ours + "depthwise.weight"] = cut(found[theirs + "dw.weight"], ahead)
        state[ours + "depthwise.bias"] = found[theirs + "dw.bias"]
        state[ours + "scale"] = found[theirs + "gamma"]
        for part in ("weight", "bias"):
            state[f"{ours}norm.{part}"] = found[f"{theirs}norm.{part}"]
        for name, their_name in (("rise", "pw1"), ("fall", "pw2")):
            state[f"{ours}{name}.weight"] = found[f"{matrix}{their_name}/Transpose_output_0"].T
            state[f"{ours}{name}.bias"] = found[f"{theirs}{their_name}.bias"]
    state["norm.weight"], state["norm.bias"] = found["m.dec_norm.weight"], found["m.dec_norm.bias"]
    heard = torch.cat((torch.arange(2 * BINS), torch.arange(3 * BINS, 5 * BINS)))
    state["head.weight"] = found["/head/Transpose_output_0"].T[heard]
    state["head.bias"] = found["m.head.bias"][heard]
    decoder.load_state_dict(state)


def cut(taps: Tensor, ahead: int) -> Tensor:
    """Seven taps for offsets ahead - 6 ... ahead from the teacher's for -3 ... 3."""
    return torch.cat((torch.zeros_like(taps[..., : 3 - ahead]), taps[..., : 4 + ahead]), -1)
