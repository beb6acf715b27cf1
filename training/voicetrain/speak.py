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


class _Prompt:
    """The phones of one utterance, and what each frame is told of them."""

    def __init__(self, net: CantorNet, phones: Sequence[Phone], speaker: int) -> None:
        after = CONTEXT - 2
        symbols = [0, *(p.symbol_id for p in phones), *[0] * after]
        flags = [FLAG_PAUSE, *(p.flag for p in phones), *[FLAG_PAUSE] * after]
        self.net, self.after = net, after
        self.symbols, self.flags = torch.tensor(symbols), torch.tensor(flags)
        self.speaker = torch.tensor(speaker)

    def embedded(self) -> Tensor:
        """[phones + 1, dim]: the positions before the frames."""
        phones = slice(1, -self.after)
        return self.net.embed_prompt(self.symbols[phones], self.flags[phones], self.speaker)

    def frame(self, previous: Tensor, pointer: int, held: int) -> Tensor:
        """[dim]: the input of a frame whose pointer has stood `held` frames on its phone."""
        around = slice(pointer, pointer + CONTEXT)
        symbols, flags = self.symbols[around], self.flags[around]
        return self.net.embed_frame(previous, symbols, flags, torch.tensor(held), self.speaker)


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
        net, count = self.net, len(phones)
        generator = torch.Generator().manual_seed(seed)
        prompt, cache = _Prompt(net, phones, speaker), _Cache(net.config)
        net.backbone(prompt.embedded(), torch.arange(count + 1), cache.attend)
        cache.length = count + 1
        pointer, held, code = [0], 0, torch.tensor(net.config.bos)
        hiddens: list[Tensor] = []
        advances: list[Tensor] = []
        codes: list[Tensor] = []
        cap = net.config.positions - count - 1
        while pointer[-1] < count and len(codes) < cap:
            x = prompt.frame(code, pointer[-1], held)
            hidden = net.backbone(x[None], torch.tensor([cache.length]), cache.attend)[0]
            cache.length += 1
            advance, code = self._choose(hidden, held, generator)
            hiddens.append(hidden)
            advances.append(advance)
            codes.append(code)
            held = 0 if int(advance) else held + 1
            pointer.append(min(pointer[-1] + int(advance), count))
        first, options = torch.stack(codes), self.sampling

        def residual(logits: Tensor, _codebook: int) -> Tensor:
            return _pick(logits, options["residual_temperature"], options["top_k"], generator)

        rest = net.residuals(torch.stack(hiddens), torch.stack(advances), first, residual)
        together = torch.cat((first[:, None], rest), 1)
        return Sung(together, np.array(pointer), pointer[-1] < count)

    def _choose(
        self, hidden: Tensor, held: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Advance and codebook 0 of one frame."""
        options = self.sampling
        logits = self.net.advance_logits(hidden)
        if held + 1 >= options["max_frames_per_phone"]:
            logits[0] = float("-inf")
        advance = _pick(logits, options["advance_temperature"], 0, generator)
        logits = self.net.code0_logits(hidden, advance)
        return advance, _pick(logits, options["temperature"], options["top_k"], generator)

    @torch.inference_mode()
    def sound(self, codes: Tensor, seed: int = 0) -> Array:
        """[frames, codebooks] -> [samples] float32."""
        return np.asarray(self.decoder(codes[None], seed)[0].numpy())
