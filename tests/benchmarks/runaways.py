"""Runaways of every family: synthetic checkpoints whose end is starved, with the guard and without.

A table of how many runs were caught, how soon, by which sign, and how much was heard of them.
"""

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final

import msgspec
import torch
from safetensors.torch import load_file, save_file
from structlog.testing import capture_logs

from talker.engine.engine import Engine
from talker.loading import read_family
from talker.settings import TalkerSettings
from talker.synthesis import synthesise
from ttscommon.engine.checkpoint import dump_json
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Arrays, rows
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttsfamilies.base.talker.base import Family
from ttsfamilies.chatterbox import synthetic as chatterbox
from ttsfamilies.cosyvoice import synthetic as cosyvoice
from ttsfamilies.csm import synthetic as csm
from ttsfamilies.higgs_audio import synthetic as higgs_audio
from ttsfamilies.kyutai_tts import synthetic as kyutai_tts
from ttsfamilies.orpheus import synthetic as orpheus
from ttsfamilies.pocket_tts import synthetic as pocket_tts
from ttsfamilies.qwen3_tts import synthetic as qwen3_tts
from ttsfamilies.zonos import synthetic as zonos

TEXT: Final = "It is the end of the world, and one is singing to the user: how odd that is to say!"
_BLOCKS: Final = 4096
_TOGETHER: Final = 4
_FOREVER: Final = 300  # frames of what would not end
# Above any other logit of a voice's moves: its pointer stands still until it has to go on.
_STANDING: Final = 30.0


@dataclass(frozen=True)
class Starved:
    """A family whose end is starved. write: a checkpoint into a folder. voice: to speak with.

    top_k: what it takes to keep the end out of a draw, where that is less than all ids.
    """

    name: str
    write: Callable[[Path], None]
    voice: str
    top_k: int | None = None


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Of `runs` requests: those that were caught, with what showed it, how many redraws there were,
    and how many were left in the end. The others are medians in seconds of sound: made until a
    runaway was caught, heard in the end, and heard without the guard, at most `_FOREVER` frames.
    """

    family: str
    temperature: float | None
    runs: int
    caught: int
    signs: dict[str, int]
    redraws: int
    left: int
    caught_s: float
    heard_s: float
    unguarded_s: float


def starved_voice(folder: Path, voice: Path) -> None:
    """The default voice, whose pointer stands still."""
    made = ("config.json", "talker.safetensors")
    for path in voice.iterdir():
        if path.is_file() and path.name not in made:
            (folder / path.name).symlink_to(path.resolve())
    weights = load_file(voice / "talker.safetensors")
    weights["move_head.bias"][0] += _STANDING
    save_file(weights, folder / "talker.safetensors")
    config = json.loads((voice / "config.json").read_bytes())
    digest = sha256((folder / "talker.safetensors").read_bytes()).hexdigest()
    config["weights"]["talker"]["sha256"] = digest
    dump_json(folder / "config.json", config)


def families(voice: Path) -> Sequence[Starved]:
    """All whose models end by themselves, and Kyutai TTS, which hardly asks for its words."""
    return (
        Starved("vesper", lambda folder: starved_voice(folder, voice), "vesper"),
        Starved("qwen3_tts", lambda f: qwen3_tts.write_checkpoint(f, seed=3, ending=0.0), ""),
        Starved("orpheus", lambda f: orpheus.write_checkpoint(f, seed=3, ending=0.0), "tara"),
        Starved("csm", lambda f: csm.write_checkpoint(f, seed=8, codebooks=4), "default"),
        Starved(
            "pocket_tts", lambda f: pocket_tts.write_checkpoint(f, seed=8, ending=-50.0), "slt"
        ),
        Starved(
            "higgs_audio", lambda f: higgs_audio.write_checkpoint(f, seed=8, ending=0.0), "", 50
        ),
        Starved("zonos", lambda f: zonos.write_checkpoint(f, seed=9, ending=0.0), "default"),
        Starved("chatterbox", lambda f: chatterbox.write_checkpoint(f, seed=3, ending=0.0), ""),
        Starved("cosyvoice", lambda f: cosyvoice.write_checkpoint(f, seed=3, ending=0.0), ""),
        Starved("kyutai_tts", _without_questions, "slt"),
    )


def _without_questions(folder: Path) -> None:
    told = kyutai_tts.config(4, audio_delay=0.16, layers=1)
    kyutai_tts.write_checkpoint(folder, told, seed=8, asking=0.0)


def measure(one: Starved, runs: int, temperatures: Sequence[float | None]) -> Iterator[Found]:
    """Speak the text so often at each temperature, with the guard and without."""
    with guarded(one) as family:
        for temperature in temperatures:
            yield _compared(one, family, runs, temperature)


@contextmanager
def guarded(one: Starved) -> Iterator[Family]:
    """As talkers load it."""
    with tempfile.TemporaryDirectory() as folder:
        one.write(Path(folder))
        yield read_family(TalkerSettings(model=one.name, voice_dir=Path(folder), threads=1))


def _compared(one: Starved, family: Family, runs: int, temperature: float | None) -> Found:
    rate = family.spec.frame_rate_hz
    with capture_logs() as lines:
        guarded = _seconds(family, _requests(one, family, runs, temperature))
    caught = [line for line in lines if line["event"] == "runaway.caught"]
    free = _seconds(family, _requests(one, family, runs, temperature, guard=False))
    first = {line["request_id"]: line["frame"] / rate for line in reversed(caught)}
    return Found(
        family=one.name,
        temperature=temperature,
        runs=runs,
        caught=len(first),
        signs=dict(Counter(line["sign"] for line in caught)),
        redraws=sum(line["redraw"] > 0 for line in caught),
        left=sum(not line["redraw"] for line in caught),
        caught_s=median(first.values()) if first else 0.0,
        heard_s=median(guarded),
        unguarded_s=median(free),
    )


def voice_of(one: Starved, family: Family) -> str:
    """The voice's id; empty where families speak with recordings alone."""
    return one.voice or (family.spec.voices[0].id if family.spec.voices else "")


def reference_of(family: Family) -> Arrays | None:
    """A recording's, where there is no other voice."""
    return None if family.spec.voices else family.example_reference()


def _seconds(family: Family, requests: Sequence[SpeechRequest]) -> list[float]:
    """Sound of each request, for listeners who can wait: hardly any time passes."""
    clock = partial(next, count(step=1e-6))
    engine = Engine(family, slots=_TOGETHER, blocks=_BLOCKS, metrics=Metrics(), clock=clock)
    spoken = synthesise(engine, requests, reference=reference_of(family))
    return [rows(one.arrays) / family.spec.frame_rate_hz for one in spoken]


def _requests(
    one: Starved, family: Family, runs: int, temperature: float | None, *, guard: bool = True
) -> list[SpeechRequest]:
    voice = voice_of(one, family)
    # Frames that are asked for are not a runaway, and bound what goes on without a guard.
    most = None if guard else _FOREVER
    sampling = Sampling(temperature, top_k=one.top_k, max_new_tokens=most)
    return [
        SpeechRequest(f"r{i}", "m", voice, TEXT, seed=i, sampling=sampling, runaway_guard=guard)
        for i in range(runs)
    ]


def _line(found: Found) -> str:
    hot = "default" if found.temperature is None else f"{found.temperature:g}"
    signs = ", ".join(f"{sign} {count}" for sign, count in sorted(found.signs.items()))
    soon = f"{found.caught_s:.1f}" if found.caught else "–"
    return (
        f"| {found.family} | {hot} | {found.caught} of {found.runs} | {signs} | {found.redraws} |"
        f" {found.left} | {soon} | {found.heard_s:.1f} | {found.unguarded_s:.1f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="requests of each row")
    parser.add_argument("--voice", type=Path, default=Path("voices/vesper"), help="its folder")
    parser.add_argument("--families", default="", help="names, separated by commas; all")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("| family | temperature | caught | signs | drawn again | left | s | heard s | free s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for one in families(arguments.voice):
        if one.name in (arguments.families or one.name).split(","):
            for found in measure(one, arguments.runs, (None, 0.0)):
                print(_line(found), flush=True)


if __name__ == "__main__":
    main()
