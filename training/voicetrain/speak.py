"""The voice spoken offline, one utterance at a time: the reference that evaluation hears."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from talker.models.cantor_net import CONTEXT, CantorConfig, CantorNet
from talker.text.symbols import FLAG_PAUSE, Phone
from ttscommon.voice import load_voice
from vocoder.codecs.cantor_net import CantorCodecConfig, CantorDecoder
from voicetrain.data import Array


class _Cache:
    """Keys and values of one utterance."""

    def __init__(self, config: CantorConfig) -> None:
        shape = (config.layers, config.positions, config.heads, config.head_dim)
        self.keys, self.values = torch.zeros(shape), torch.zeros(shape)
        self.length = 0

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """[tokens, heads, head_dim] -> the same, over everything cached and the new tokens."""
        end = self.length + len(q)
        self.keys[layer, self.length : end], self.values[layer, self.length : end] = k, v
        keys, values = self.keys[layer, :end], self.values[layer, :end]
        scores = torch.einsum("qhd,khd->hqk", q, keys) * q.shape[-1] ** -0.5
        if len(q) > 1:
            future = torch.ones(len(q), end, dtype=torch.bool).triu(self.length + 1)
            scores = scores.masked_fill(future, float("-inf"))
        return torch.einsum("hqk,khd->qhd", scores.softmax(-1), values)


@dataclass(frozen=True)
class Sung:
    """codes: [frames, codebooks] int64; pointer: [frames + 1] phone spoken in each frame.

    runaway: the cap on frames was reached before the last phone was left.
    """

    codes: Tensor
    pointer: Array
    runaway: bool


def _pick(logits: Tensor, temperature: float, top_k: int, generator: torch.Generator) -> Tensor:
    if top_k:
        least = logits.topk(min(top_k, logits.shape[-1])).values[..., -1:]
        logits = logits.masked_fill(logits < least, float("-inf"))
    weights = (logits / temperature).softmax(-1)
    return torch.multinomial(weights, 1, generator=generator)[..., 0]


class Singer:
    """Talker and decoder of a voice, with its sampling defaults."""

    def __init__(self, net: CantorNet, decoder: CantorDecoder, sampling: dict[str, Any]) -> None:
        self.net, self.decoder, self.sampling = net.eval(), decoder.eval(), sampling

    @classmethod
    def load(cls, folder: Path) -> "Singer":
        """Read an exported voice. Raises VoiceError."""
        voice = load_voice(folder)
        net = CantorNet(CantorConfig(**voice.config["talker"]))
        decoder = CantorDecoder(CantorCodecConfig(**voice.config["codec"]))
        for module, path in ((net, voice.talker_weights), (decoder, voice.vocoder_weights)):
            module.load_state_dict({n: w.float() for n, w in load_file(path).items()})
        return cls(net, decoder, dict(voice.config["sampling"]))

    @torch.inference_mode()
    def sing(self, phones: Sequence[Phone], speaker: int, seed: int = 0) -> Sung:
        """Codec frames of one utterance."""
        net, options, count = self.net, self.sampling, len(phones)
        generator = torch.Generator().manual_seed(seed)
        symbols = np.array([0, *(p.symbol_id for p in phones), 0, 0])
        flags = np.array([FLAG_PAUSE, *(p.flag for p in phones), FLAG_PAUSE, FLAG_PAUSE])
        who, cache = torch.tensor(speaker), _Cache(net.config)
        prompt = net.embed_prompt(
            torch.from_numpy(symbols[1:-2]), torch.from_numpy(flags[1:-2]), who
        )
        net.backbone(prompt, torch.arange(count + 1), cache.attend)
        cache.length = count + 1
        pointer, held, code = [0], 0, torch.tensor(net.config.bos)
        hiddens: list[Tensor] = []
        advances: list[Tensor] = []
        codes: list[Tensor] = []
        cap = net.config.positions - count - 1
        while pointer[-1] < count and len(codes) < cap:
            around = slice(pointer[-1], pointer[-1] + CONTEXT)
            x = net.embed_frame(
                code,
                torch.from_numpy(symbols[around]),
                torch.from_numpy(flags[around]),
                torch.tensor(held),
                who,
            )
            hidden = net.backbone(x[None], torch.tensor([cache.length]), cache.attend)[0]
            cache.length += 1
            logits = net.advance_logits(hidden)
            if held + 1 >= options["max_frames_per_phone"]:
                logits[0] = float("-inf")
            advance = _pick(logits, options["advance_temperature"], 0, generator)
            code = _pick(
                net.code0_logits(hidden, advance),
                options["temperature"],
                options["top_k"],
                generator,
            )
            hiddens.append(hidden)
            advances.append(advance)
            codes.append(code)
            held = 0 if int(advance) else held + 1
            pointer.append(min(pointer[-1] + int(advance), count))
        first = torch.stack(codes)

        def residual(logits: Tensor, _codebook: int) -> Tensor:
            return _pick(logits, options["residual_temperature"], options["top_k"], generator)

        rest = net.residuals(torch.stack(hiddens), torch.stack(advances), first, residual)
        together = torch.cat((first[:, None], rest), 1)
        return Sung(together, np.array(pointer), pointer[-1] < count)

    @torch.inference_mode()
    def sound(self, codes: Tensor, seed: int = 0) -> Array:
        """[frames, codebooks] -> [samples] float32."""
        return np.asarray(self.decoder(codes[None], seed)[0].numpy())
