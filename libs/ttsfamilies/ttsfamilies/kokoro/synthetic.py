"""Kokoro: published names, small or published widths, weights drawn from a seed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from ttscommon.engine.checkpoint import VOICES, dump_json
from ttsfamilies.base.synthetic import SyntheticFamily
from ttsfamilies.base.synthetic.tensors import save, shapes_of, spread_out
from ttsfamilies.kokoro import generator as sound
from ttsfamilies.kokoro import net as prosody
from ttsfamilies.kokoro.sizes import SIZES_82M, KokoroConfig, load_config

# The published vocabulary: ids in runs of neighbours.
_RUNS: Final = {
    1: ";:,.!?",
    9: '—…"()“” \u0303ʣʥʦʨᵝ\uab67AI',
    31: "O",
    33: "Q",
    35: "ST",
    39: "W",
    41: "Yᵊabcdef",
    50: "hijklmnopqrstuvwxyzɑɐɒæ",
    75: "βɔɕç",
    80: "ɖðʤə",
    85: "ɚɛɜ",
    90: "ɟ",
    92: "ɡ",
    99: "ɥ",
    101: "ɨɪʝ",
    110: "ɯɰŋɳɲɴø",
    118: "ɸθœ",
    123: "ɹ",
    125: "ɾɻ",
    128: "ʁɽʂʃʈʧ",
    135: "ʊʋ",
    138: "ʌɣɤ",
    142: "χʎ",
    147: "ʒʔ",
    156: "ˈˌː",
    162: "ʰ",
    164: "ʲ",
    169: "↓",
    171: "→↗↘",
    177: "ᵻ",
}
VOCABULARY: Final = {s: first + i for first, run in _RUNS.items() for i, s in enumerate(run)}
PUBLISHED: Final[dict[str, Any]] = {**SIZES_82M, "vocab": VOCABULARY}
# The style's width is the published one, which the package's code has as a number.
TINY: Final[dict[str, Any]] = PUBLISHED | {
    "istftnet": SIZES_82M["istftnet"] | {"upsample_initial_channel": 32},
    "hidden_dim": 32,
    "n_layer": 2,
    "plbert": SIZES_82M["plbert"]
    | {
        "hidden_size": 24,
        "num_attention_heads": 3,
        "intermediate_size": 32,
        "num_hidden_layers": 3,
    },
    "decoder_dim": 24,
    "decoder_residual": 8,
}
SIZES: Final = {"tiny": TINY, "82m": PUBLISHED}
NAMES: Final = ("af_heart", "af_sky", "am_adam", "bf_emma", "ef_dora")
# Standard deviations and means that make speech of a kind: a voice of some 140 Hz, samples within
# -1..1; and some 14 symbols a second, of which each last as long as they will.
_SPREADS: Final = {
    "F0_proj.bias": (1.0, 140.0),
    "F0_proj.weight": (3.0, 0.0),
    "conv_post.bias": (0.2, -2.8),
}


def write_checkpoint(
    folder: Path, *, size: str = "tiny", seed: int = 0, pickles: bool = False
) -> None:
    """A whole checkpoint with NAMES as its voices; with `pickles`, as it is published."""
    dump_json(folder / "config.json", SIZES[size])
    config = load_config(folder)
    tensors, packs = dict(_tensors(config, seed)), dict(_voices(config, seed))
    _pace(config, tensors, packs[NAMES[0]][0, 0, config.style_dim :])
    if pickles:
        _write_pickles(folder, tensors, packs)
        return
    save(folder, tensors.items())
    save_file(packs, folder / VOICES, {"format": "pt"})


def _write_pickles(folder: Path, tensors: dict[str, Tensor], packs: dict[str, Tensor]) -> None:
    networks: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        network, _, inner = name.partition(".")
        networks.setdefault(network, {})[inner] = tensor
    torch.save(networks, folder / "kokoro-v1_0.pth")
    (folder / "voices").mkdir(exist_ok=True)
    for name, pack in packs.items():
        torch.save(pack, folder / "voices" / f"{name}.pt")


def shapes(config: KokoroConfig) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a checkpoint's tensors."""
    pooler, dim = "bert.module.pooler.", config.plbert.hidden_size
    return {
        **shapes_of(prosody.sources, prosody.KokoroProsody, config),
        **shapes_of(sound.sources, sound.KokoroSound, config),
        f"{pooler}weight": (dim, dim),
        f"{pooler}bias": (dim,),
    }


def _tensors(config: KokoroConfig, seed: int) -> Iterator[tuple[str, Tensor]]:
    for name, shape in sorted(shapes(config).items()):
        yield name, spread_out(name, shape, seed, _spread)


_MEAN: Final = -3.0
_DEVIATION: Final = 0.35


def _pace(config: KokoroConfig, tensors: dict[str, Tensor], style: Tensor) -> None:
    """Durations follow what varies most from symbol to symbol; random ones would all be alike."""
    net = prosody.KokoroProsody(config)
    for key, source in prosody.sources(net).items():
        net.get_parameter(key).data = source.join([tensors[name] for name in source.names])
    drawn = np.random.Generator(np.random.PCG64(0)).choice(list(VOCABULARY.values()), 120)
    ids = torch.tensor([0, *drawn.tolist(), 0])
    with torch.inference_mode():
        rows = net.predictor.text_encoder(net.bert_encoder(net.bert(ids)), style)
        states = net.predictor.lstm(rows)[0].double()
    main = torch.linalg.svd(states - states.mean(0)).Vh[0]
    main *= main[main.abs().argmax()].sign()
    projected = states @ main
    scale = _DEVIATION / projected.std()
    place = "predictor.module.duration_proj.linear_layer."
    # Rounded: the same file wherever it is written.
    weight = (main * scale).round(decimals=3).float()
    offset = (_MEAN - scale * projected.mean()).round(decimals=2).float()
    tensors[f"{place}weight"] = weight.repeat(config.max_dur, 1)
    tensors[f"{place}bias"] = offset + 0.1 * tensors[f"{place}bias"]


def _spread(name: str, shape: tuple[int, ...]) -> tuple[float, float]:
    """Standard deviation and mean that keep signals of about unit size."""
    for end, spread in _SPREADS.items():
        if name.endswith(end):
            return spread
    if name.endswith("weight_v"):
        return 1.0, 0.0
    if name.endswith("weight_g"):
        return 0.05, 0.4 if "pool" in name or shape[0] == 1 else 0.7
    if name.endswith("bias"):
        return 0.05, 0.0
    if "alpha" in name or (len(shape) == 1 and not name.endswith("beta")):
        return 0.1, 1.0
    if len(shape) == 1:
        return 0.05, 0.0
    return (0.1 if ".fc." in name else 1.0) * float(np.prod(shape[1:])) ** -0.5, 0.0


def _voices(config: KokoroConfig, seed: int) -> Iterator[tuple[str, Tensor]]:
    for number, name in enumerate(NAMES):
        random = np.random.Generator(np.random.PCG64([seed, 1000 + number]))
        pack = random.standard_normal((config.most_symbols, 1, 2 * config.style_dim), np.float32)
        yield name, torch.from_numpy(pack * np.float32(0.1))


FAMILY: Final = SyntheticFamily(
    lambda folder, size, kind, seed: write_checkpoint(folder, size=size, seed=seed),
    "a talker and its codec, with voices",
    tuple(SIZES),
)
