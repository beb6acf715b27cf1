"""The voice spoken offline, many utterances at a time: what evaluation hears."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ttscommon.wire.fields import Array
from ttsfamilies.vesper.codec.net import VesperDecoder
from ttsfamilies.vesper.net import VesperNet, moved, token_contexts
from ttsfamilies.vesper.stream import VesperSampling
from ttsfamilies.vesper.text import TextCodes

_FRAMES_PER_TOKEN = 6.0
"""So many for each token of the longest text at most, and some more."""


@dataclass(frozen=True)
class Spoken:
    """codes [frames, 4] int64; pointer [frames] token of each frame's first unit.

    units [tokens]: how long each token lasted. runaway: the cap on frames ended the utterance.
    """

    codes: Tensor
    pointer: Array
    units: Array
    runaway: bool


class Cache:
    """Keys and values of a batch of utterances, each as long as it is."""

    def __init__(self, net: VesperNet, rows: int, positions: int) -> None:
        c = net.config
        shape = (c.layers, rows, positions, c.heads, c.head_dim)
        self.keys, self.values = torch.zeros(shape), torch.zeros(shape)
        self.lengths = torch.zeros(rows, dtype=torch.int64)

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """One new position of every row: [rows, heads, head_dim] -> the same."""
        row = torch.arange(len(q))
        self.keys[layer, row, self.lengths] = k
        self.values[layer, row, self.lengths] = v
        end = int(self.lengths.max()) + 1
        keys, values = self.keys[layer, :, :end], self.values[layer, :, :end]
        scores = torch.einsum("bhd,bkhd->bhk", q, keys) * q.shape[-1] ** -0.5
        late = torch.arange(end) > self.lengths[:, None]
        weights = scores.masked_fill(late[:, None], float("-inf")).softmax(-1)
        return torch.einsum("bhk,bkhd->bhd", weights, values)


def _draw(logits: Tensor, temperature: float, top_k: int, generator: torch.Generator) -> Tensor:
    if temperature <= 0:
        return logits.argmax(-1)
    if 0 < top_k < logits.shape[-1]:
        least = logits.topk(top_k).values[..., -1:]
        logits = logits.masked_fill(logits < least, float("-inf"))
    return torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)[:, 0]


@torch.inference_mode()
def speak(
    net: VesperNet,
    texts: Sequence[Sequence[int]],
    sampling: VesperSampling,
    pace: float = 1.0,
    seed: int = 0,
) -> list[Spoken]:
    """Codes of several utterances, each given as tokens."""
    generator = torch.Generator().manual_seed(seed)
    rows, counts = len(texts), torch.tensor([len(text) for text in texts])
    tokens = torch.zeros(rows, int(counts.max()), dtype=torch.int64)
    for row, text in zip(tokens, texts, strict=True):
        row[: len(text)] = torch.tensor(text)
    real = torch.arange(tokens.shape[1]) < counts[:, None]
    told = net.embed_pace(torch.full((rows,), pace))
    prosody = net.prosody(tokens, real) * real[..., None]
    contexts = token_contexts(net, tokens, prosody)
    cap = min(int(_FRAMES_PER_TOKEN * counts.max() / pace) + 20, net.config.positions - 1)
    cache = Cache(net, rows, 1 + cap)
    net.backbone(net.embed_begin(told), cache.lengths, cache.attend)
    cache.lengths = cache.lengths + 1
    pointer, held = torch.zeros(2, rows, dtype=torch.int64)
    code, made = torch.full((rows,), net.config.bos), []
    for _ in range(cap):
        context = contexts[torch.arange(rows), pointer.clamp(max=contexts.shape[1] - 1)]
        x = net.embed_frame(code, context, held, told)
        hidden = net.backbone(x, cache.lengths, cache.attend)
        cache.lengths = cache.lengths + 1
        logits = net.move_logits(hidden)
        logits = _allowed(logits, pointer, held, counts, sampling.longest_units)
        move = _draw(logits, sampling.move_temperature, 0, generator)
        code = _draw(
            net.code0_logits(hidden, move), sampling.temperature, sampling.top_k, generator
        )
        energy = _draw(
            net.energy_logits(hidden, move, code), sampling.energy_temperature, 50, generator
        )
        made.append(torch.stack((pointer, move, code, energy), -1))
        pointer, held = moved(pointer, held, move)
        if bool((pointer >= counts).all()):
            break
    frames = torch.stack(made, 1)
    text_codes = TextCodes(net.text_table)
    return [_spoken(net, text_codes, *each) for each in zip(texts, frames, strict=True)]


def _allowed(logits: Tensor, pointer: Tensor, held: Tensor, counts: Tensor, longest: int) -> Tensor:
    """Moves that stay within the utterance, and leave a token that has lasted too long."""
    logits = logits.clone()
    last = pointer >= counts - 1
    logits[last, 1], logits[last, 3] = float("-inf"), float("-inf")
    stuck = held >= longest
    logits[stuck, 0] = float("-inf")
    return logits


def _spoken(net: VesperNet, text_codes: TextCodes, text: Sequence[int], row: Tensor) -> Spoken:
    """One utterance of what a batch made, cut where its pointer left the last token."""
    pointer, move, code, energy = row.unbind(-1)
    inside = pointer < len(text)
    pointer, move, code, energy = (x[inside] for x in (pointer, move, code, energy))
    units = torch.stack((pointer, (pointer + (move & 1)).clamp(max=len(text) - 1)), -1)
    told = text_codes(net.text(torch.tensor(text)[None])[0][units])
    codes = torch.cat((torch.stack((code, energy), -1), told), -1)
    owner = torch.stack((pointer, pointer + (move & 1)), -1).flatten()
    units = torch.bincount(owner, minlength=len(text))
    after, _ = moved(pointer[-1], torch.tensor(0), move[-1])
    return Spoken(codes, pointer.numpy(), units.numpy(), bool(after < len(text)))


@torch.inference_mode()
def sound(decoder: VesperDecoder, codes: Tensor, level: float = 0.0, span: float = 1.0) -> Array:
    """[frames, 4] -> [samples] float32 at 24 kHz."""
    return np.asarray(decoder(codes[None], level, span)[0].numpy())
