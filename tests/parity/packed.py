"""What language models say with packed weights, beside what they say with float32: a table.

Greedy cases of the goldens: python -m tests.parity.packed [FAMILY...]. Weights are drawn from a
seed, so that logits lie closer together than a trained model's.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import numpy as np
import torch

from tests.parity.families import FAMILIES
from tests.parity.runner import Loaded, Run
from ttscommon.engine.nn.packed import Weights, packing
from ttscommon.wire.fields import Arrays, cut, rows

KINDS: Final[tuple[Weights, ...]] = ("bfloat16", "int8")
PLACES: Final = 6
# Of real numbers, beside a frame's largest.
_CLOSE: Final = 0.05
_MOST_STEPS: Final = 500


class Agreement(NamedTuple):
    """frames: of greedy cases. asked: places at which float32's frames were told and the next one
    was asked for; alike: how many of those are the same, numbers: the share of theirs. until:
    frames that come before a first difference of speech that goes on by itself. layers: packed.
    """

    layers: int
    frames: int
    until: int
    asked: int
    alike: int
    numbers: float


def spoken(loaded: Loaded[Any], cases: Sequence[Any]) -> Mapping[str, Arrays]:
    run = Run(loaded)
    for case in cases:
        run.open(case)
    return run.finish()


def next_frame(run: Run[Any], case: Any, told: Arrays) -> Arrays:
    """What is said behind frames; empty if the speech ends there."""
    run.open(case, restored=told)
    for _ in range(_MOST_STEPS):
        run.step()
        later = run._chunks[case.name][1:]
        if later or case.name not in run._running:
            run.engine.cancel(case.name)
            run._running.discard(case.name)
            return cut(later[0], 0, 1) if later else {}
    raise AssertionError(f"{case.name} says nothing")


def share(found: Arrays, wanted: Arrays, fields: Sequence[str]) -> float:
    """How much of a frame's numbers are alike."""
    if not found or not rows(wanted):
        return float(not found and not rows(wanted))
    alike = []
    for name in fields:
        one, other = np.asarray(found[name]), np.asarray(wanted[name])
        close = _CLOSE * (np.abs(other).max() or 1.0) if other.dtype.kind == "f" else 0.0
        alike.append((np.abs(one.astype(float) - other) <= close).reshape(-1))
    return float(np.concatenate(alike).mean())


def until_differs(found: Arrays, wanted: Arrays, fields: Sequence[str]) -> int:
    most = min(rows(found), rows(wanted))
    for at in range(most):
        if share(cut(found, at, at + 1), cut(wanted, at, at + 1), fields) < 1:
            return at
    return most


def agreement(family: str, weights: Weights, checkpoint: str, folder: Path) -> Agreement | None:
    """Of one checkpoint; None where it has no greedy case, or nothing is packed."""
    subject = FAMILIES[family]
    cases = [c for c in subject.of(checkpoint) if subject.request(c).sampling.temperature == 0]
    with packing(weights) as packed:
        loaded = Loaded(subject, folder / weights, checkpoint)
    if packed is None or not packed.layers or not cases:
        return None
    wanted = spoken(Loaded(subject, folder / "plain", checkpoint), cases)
    found, fields = spoken(loaded, cases), tuple(loaded.model.spec.frame)
    run, shares = Run(loaded), []
    for case in cases:
        whole = wanted[case.name]
        for at in sorted({rows(whole) * place // PLACES for place in range(PLACES)}):
            told = cut(whole, 0, at) if at else None
            got = next_frame(run, case, told) if told else cut(found[case.name], 0, 1)
            shares.append(share(got, cut(whole, at, at + 1), fields))
    until = [until_differs(found[c.name], wanted[c.name], fields) for c in cases]
    frames = sum(map(rows, wanted.values()))
    alike = sum(one == 1 for one in shares)
    return Agreement(packed.layers, frames, sum(until), len(shares), alike, sum(shares))


def of_family(family: str, weights: Weights) -> Iterator[Agreement]:
    """Of every checkpoint."""
    for checkpoint in FAMILIES[family].checkpoints:
        with TemporaryDirectory() as folder, torch.inference_mode():
            if found := agreement(family, weights, checkpoint, Path(folder)):
                yield found


def main(families: Sequence[str]) -> None:
    torch.set_num_threads(1)
    print("| family | weights | layers | next frame alike | numbers of it | before a difference |")
    for family in families or list(FAMILIES):
        for weights in KINDS:
            if all_ := list(of_family(family, weights)):
                layers, frames, until, asked, alike, numbers = map(sum, zip(*all_, strict=True))
                print(
                    f"| {family} | {weights} | {layers} | {alike} of {asked}"
                    f" | {numbers / asked:.1%} | {until} of {frames} |",
                    flush=True,
                )


if __name__ == "__main__":
    main(sys.argv[1:])
