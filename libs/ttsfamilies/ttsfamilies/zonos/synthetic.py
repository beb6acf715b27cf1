"""Zonos: published names and conditions, small widths, weights drawn from a seed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ttscommon.engine.checkpoint import dump_json
from ttscommon.engine.nn.weights import unfilled
from ttsfamilies.base.synthetic import SyntheticFamily, of_parts
from ttsfamilies.base.synthetic.tensors import drawn, save, shapes_of
from ttsfamilies.zonos.facts import END, PHONES, SPEAKER, load_config
from ttsfamilies.zonos.net import Conditions, ZonosNet, condition_sources, sources
from ttsfamilies.zonos.recordings import SpeakerNet
from ttsfamilies.zonos.synthetic_dac import write_codec

_LEARNED: Final = {"uncond_type": "learned"}
CONDITIONERS: Final[list[dict[str, Any]]] = [
    {"type": "EspeakPhonemeConditioner", "name": PHONES},
    {
        "type": "PassthroughConditioner",
        "name": "speaker",
        "cond_dim": SPEAKER,
        "projection": "linear",
        **_LEARNED,
    },
    {"type": "FourierConditioner", "name": "emotion", "input_dim": 8, **_LEARNED},
    *(
        {"type": "FourierConditioner", "name": name, "min_val": 0, "max_val": most, **_LEARNED}
        for name, most in (("fmax", 24_000), ("pitch_std", 400), ("speaking_rate", 40))
    ),
    {
        "type": "IntegerConditioner",
        "name": "language_id",
        "min_val": -1,
        "max_val": 126,
        **_LEARNED,
    },
]
TINY: Final[dict[str, Any]] = {
    "backbone": {
        "d_model": 64,
        "d_intermediate": 0,
        "attn_mlp_d_intermediate": 96,
        "n_layer": 2,
        "ssm_cfg": {},
        "attn_layer_idx": [0, 1],
        "attn_cfg": {"num_heads": 4, "num_heads_kv": 2, "causal": True},
        "rms_norm": False,
        "norm_epsilon": 1e-5,
    },
    "prefix_conditioner": {"conditioners": CONDITIONERS, "projection": "linear"},
    "eos_token_id": 1024,
    "masked_token_id": 1025,
}
# The published heads: width follows from them.
PUBLISHED_HEADS: Final = MappingProxyType(
    {"d_model": 2048, "attn_cfg": {"num_heads": 16, "num_heads_kv": 4}, "n_layer": 1}
)
_PLANES, _BLOCKS, _INNER, _OUTER = 2, (1, 1, 1, 1), 4, 8


def write_checkpoint(
    folder: Path,
    *,
    seed: int = 0,
    ending: float = 1.0,
    backbone: Mapping[str, Any] = MappingProxyType({}),
    encoders: bool = True,
) -> None:
    """Write a whole talker. ending: how loudly the end of speech speaks in the first codebook.

    backbone: in place of TINY's, such as PUBLISHED_HEADS. encoders: with those of recordings.
    """
    dump_json(folder / "config.json", TINY | {"backbone": {**TINY["backbone"], **backbone}})
    config = load_config(folder)
    every = config.prefix_conditioner.conditioners
    places = [place for place, one in enumerate(every) if one.name != PHONES]
    told = config.prefix_conditioner.rows, config.backbone.d_model
    shapes = shapes_of(sources, ZonosNet, config)
    shapes |= shapes_of(partial(condition_sources, places=places), Conditions, *told)
    save(folder, drawn(shapes, seed, {"heads.0.weight": (END, ending)}))
    if encoders:
        write_speaker(folder, seed)
        write_codec(folder / "dac", seed=seed)


def write_speaker(folder: Path, seed: int) -> None:
    """The speaker encoder and its projection, narrow and shallow."""
    net = unfilled(SpeakerNet, _PLANES, _BLOCKS, _INNER, _OUTER)
    shapes = {name: tuple(tensor.shape) for name, tensor in net.state_dict().items()}
    found = dict(drawn(shapes, seed))
    for name in found:
        if name.endswith("running_var"):
            found[name] = found[name].abs() + 0.5
    (folder / "speaker").mkdir(exist_ok=True)
    save(folder / "speaker", found.items())
    (folder / "lda").mkdir(exist_ok=True)
    projection = {"weight": (SPEAKER, _OUTER), "bias": (SPEAKER,)}
    save(folder / "lda", drawn(projection, seed))


FAMILY: Final = SyntheticFamily(
    of_parts(write_checkpoint),
    "a talker with encoders of recordings; its codec is a dac",
)
