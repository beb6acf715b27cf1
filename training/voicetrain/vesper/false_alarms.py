"""False alarms of the guard against runaways: endings of the default voice, at many settings.

The voice ends all of these texts by itself, so that whatever is caught is a false alarm.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

import torch
from structlog.testing import capture_logs
from torch import Tensor, nn

from talker.engine.draft_lengths import plain
from talker.engine.engine import Engine
from talker.engine.scheduler import StepLimits, offline
from talker.synthesis import SynthesizedSpeech, synthesise
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Arrays, rows
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttsfamilies.base.runners.computation import Attend
from ttsfamilies.base.runners.torch_runner import TorchRunner
from ttsfamilies.base.talker.base import CacheSpec
from ttsfamilies.base.talker.runner import Row
from ttsfamilies.base.talker.served import ServedFamily
from ttsfamilies.base.text.misaki import Tokens
from ttsfamilies.vesper.family import Vesper, load
from ttsfamilies.vesper.stream import Conditioning
from voicetrain.vesper.report import untrained_texts

TEMPERATURES: Final = (0.0, 0.6, None, 1.2)
PACES: Final = (0.7, 1.0, 1.4)
_TOGETHER: Final = 48
_LIMITS: Final = StepLimits(_TOGETHER, 16 * _TOGETHER)
_BLOCKS: Final = 4096
_DEFAULT: Final = "default"


@dataclass(frozen=True, kw_only=True)
class Alarms:
    """Of so many endings at a temperature (None: the voice's own) and a pace, `seconds` of sound in
    all: what was caught, each as its text, the sign and the frame.
    """

    temperature: float | None
    pace: float
    endings: int
    seconds: float
    caught: tuple[tuple[str, str, int], ...]


class _Remembering(Vesper):
    """Reads a text once at a pace, for all temperatures."""

    @cached_property
    def _read(self) -> dict[tuple[Tokens, float], Conditioning]:
        return {}

    def _conditioned(self, tokens: Tokens, pace: float) -> Conditioning:
        if any(known != pace for _, known in list(self._read)[:1]):
            self._read.clear()
        if (tokens, pace) not in self._read:
            self._read[tokens, pace] = super()._conditioned(tokens, pace)
        return self._read[tokens, pace]


class GuardedVoice:
    """The default voice as talkers guard it, spoken many texts at a time."""

    def __init__(self, folder: Path) -> None:
        model = load("m", folder, kind=_Remembering)
        self._family = ServedFamily(model)
        self._runner = RunnerOfMany(model, _TOGETHER)

    def listen(
        self,
        texts: Sequence[str],
        temperatures: Iterable[float | None],
        paces: Iterable[float],
    ) -> Iterator[Alarms]:
        """Speak all texts at each temperature and pace."""
        for pace, temperature in itertools.product(paces, temperatures):
            with capture_logs() as lines:
                spoken = self._speak(texts, temperature, pace)
            caught = (line for line in lines if line["event"] == "runaway.caught")
            frames = sum(rows(one.arrays) for one in spoken)
            yield Alarms(
                temperature=temperature,
                pace=pace,
                endings=len(spoken),
                seconds=frames / self._family.spec.frame_rate_hz,
                caught=tuple(
                    (texts[int(line["request_id"])], line["sign"], line["frame"]) for line in caught
                ),
            )

    def _speak(
        self, texts: Sequence[str], temperature: float | None, pace: float
    ) -> list[SynthesizedSpeech]:
        sampling = Sampling(temperature)
        # Attention is as long as the longest that is spoken.
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        engine = Engine(
            self._family,
            slots=_TOGETHER,
            blocks=_BLOCKS,
            metrics=Metrics(),
            runner=self._runner,
            limits=_LIMITS,
            policy=offline,
            draft_lengths=plain,
            keep=0,
        )
        return synthesise(
            engine,
            [
                SpeechRequest(
                    str(i), "m", "vesper", texts[i], seed=i, speed=pace, sampling=sampling
                )
                for i in order
            ],
        )


def _temperatures(given: str) -> tuple[float | None, ...]:
    return tuple(None if one == _DEFAULT else float(one) for one in given.split(","))


def _paces(given: str) -> tuple[float, ...]:
    return tuple(float(one) for one in given.split(","))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--endings", type=int, default=1000, help="texts at each setting")
    parser.add_argument("--voice", type=Path, default=Path("voices/vesper"), help="its folder")
    parser.add_argument("--temperatures", type=_temperatures, default=TEMPERATURES)
    parser.add_argument("--paces", type=_paces, default=PACES)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    voice, texts = GuardedVoice(arguments.voice), untrained_texts(arguments.endings)
    print("| temperature | pace | endings | minutes | false alarms |")
    print("| --- | --- | --- | --- | --- |", flush=True)
    for found in voice.listen(texts, arguments.temperatures, arguments.paces):
        hot = _DEFAULT if found.temperature is None else f"{found.temperature:g}"
        print(
            f"| {hot} | {found.pace:g} | {found.endings} |"
            f" {found.seconds / 60:.1f} | {len(found.caught)} |",
            flush=True,
        )
        for text, sign, frame in found.caught:
            print(f"{sign} at frame {frame}: {text}", flush=True)


if __name__ == "__main__":
    main()


class RunnerOfMany(TorchRunner):
    """See Runner; `rows`: of the engine's slots."""

    def __init__(self, model: Vesper, rows: int) -> None:
        super().__init__(model, rows, blocks=1, depth=0)
        ((self._name, spec),) = model.spec.caches.items()
        self._dense = _DenseCache(spec, rows, model.spec.max_positions)

    def render(self, raw: Arrays) -> Arrays:
        """No codes, only what chose them."""
        return {"move": raw["move"]}

    def _attend(self, rows: Sequence[Row]) -> dict[str, Attend]:
        return {self._name: _Attending(self._dense, rows)}


class _DenseCache:
    """keys, values: [layers, rows, heads, positions, size]; what is not used takes no memory."""

    def __init__(self, spec: CacheSpec, rows: int, positions: int) -> None:
        shape = (spec.layers, rows, spec.heads, positions, spec.head_dim)
        self.keys, self.values = torch.zeros(shape), torch.zeros(shape)


class _OneEach(NamedTuple):
    """Tokens of a launch of which each stream has one. places: [tokens] in the launch; slots:
    [tokens]; seen: [rows, 1, 1, positions] bool, what the token of each slot attends to.
    """

    places: Tensor
    slots: Tensor
    seen: Tensor


class _Attending:
    """The attention of one launch."""

    def __init__(self, cache: _DenseCache, batch: Sequence[Row]) -> None:
        self._cache = cache
        tokens = [(row.slot, at) for row in batch for at in range(row.plan.start, row.plan.end)]
        self._slots, self._at = torch.tensor(tokens).unbind(1)
        self._end = int(self._at.max()) + 1
        nth = torch.cat([torch.arange(row.plan.count) for row in batch])
        self._tokens = [
            self._one_each((nth == n).nonzero()[:, 0]) for n in range(int(nth.max()) + 1)
        ]

    def _one_each(self, places: Tensor) -> _OneEach:
        slots = self._slots[places]
        own = torch.zeros(self._cache.keys.shape[1], dtype=torch.int64)
        own[slots] = self._at[places]
        return _OneEach(places, slots, (torch.arange(self._end) <= own[:, None])[:, None, None])

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """See Attend; tokens beyond those of the batch are padding."""
        keys, values = self._cache.keys[layer], self._cache.values[layer]
        keys[self._slots, :, self._at] = k[: len(self._at)]
        values[self._slots, :, self._at] = v[: len(self._at)]
        out = torch.zeros_like(q)
        for each in self._tokens:
            asked = q.new_zeros(len(keys), *q.shape[1:])
            asked[each.slots] = q[each.places]
            found = nn.functional.scaled_dot_product_attention(
                asked[:, :, None], keys[:, :, : self._end], values[:, :, : self._end], each.seen
            )
            out[each.places] = found[each.slots, :, 0]
        return out
