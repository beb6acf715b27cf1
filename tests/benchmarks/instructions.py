"""Instructions of both engines for a second of sound of the default voice, counted by callgrind.

    python -m tests.benchmarks.instructions --streams 8

They are the same whoever else uses the machine, so builds are compared by them. Needs valgrind,
and some minutes: under it everything takes fifty times as long.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import torch

from talker.engine import stream as talking
from talker.loading import build_engine as build_talker
from talker.settings import TalkerSettings
from ttscommon.engine.runtime import Failed, Finished
from ttscommon.process.metrics import Metrics
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Text
from ttsfamilies.base.talker.streams import Taken
from vocoder.engine import stream as vocoding
from vocoder.service import build_engine as build_vocoder
from vocoder.settings import VocoderSettings

_TEXT: Final = "The harbour was quiet in the early morning, and the fishermen spoke in low voices."
_LIMIT_S: Final = 3600.0
_COUNTED: Final = "--counted"


class Speaking:
    """Talker and vocoder engines in this process, built as the services build theirs, that say
    whole sentences, several at once.
    """

    def __init__(self, voice_dir: Path) -> None:
        self._talker = build_talker(TalkerSettings(voice_dir=voice_dir), Metrics())
        self._vocoder = build_vocoder(VocoderSettings(voice_dir=voice_dir), Metrics())
        self._talker.start()
        self._vocoder.start()
        self._samples = self._unended = 0
        self._over = threading.Event()
        self._vocoder.listen(self._on_samples)
        self._talker.listen(self._on_frames)

    def seconds(self, streams: int, name: str) -> float:
        """Of sound, said in so many streams at once; raises TimeoutError."""
        self._samples, self._unended = 0, streams
        self._over.clear()
        for seed in range(streams):
            self._open(SpeechRequest(f"{name}-{seed}", "vesper", "vesper", _TEXT, seed=seed))
        if not self._over.wait(_LIMIT_S):
            raise TimeoutError("the engines did not end")
        return self._samples / self._vocoder.spec.sample_rate

    def _open(self, request: SpeechRequest) -> None:
        self._vocoder.open(request)
        prepared = self._talker.family.prepare(request)
        units = list(prepared.read([Text(request.text)], final=True))
        self._talker.open(prepared, None, units, final=True)

    def _on_frames(self, events: Sequence[tuple[str, talking.Event]]) -> None:
        for key, event in events:
            if isinstance(event, Taken):
                self._vocoder.feed(key, event.frames)
                self._talker.acknowledge(key)
            elif isinstance(event, Finished | Failed):
                self._vocoder.finish(key)

    def _on_samples(self, events: Sequence[tuple[str, vocoding.Event]]) -> None:
        for _, event in events:
            if isinstance(event, vocoding.DecodedAudio):
                self._samples += len(event.pcm)
            else:
                self._unended -= 1
        if not self._unended:
            self._over.set()


def _speak(voice_dir: Path, streams: int) -> None:
    """Inside callgrind, which counts only what is said behind the first sentence."""
    torch.set_num_threads(1)
    speaking = Speaking(voice_dir)
    speaking.seconds(1, "first")
    control = ("callgrind_control", "-i")
    subprocess.run([*control, "on", str(os.getpid())], check=True, stdout=subprocess.DEVNULL)
    sound_s = speaking.seconds(streams, "counted")
    subprocess.run([*control, "off", str(os.getpid())], check=True, stdout=subprocess.DEVNULL)
    print(f"sound {sound_s:.2f} s", flush=True)
    os._exit(0)  # the engines' threads need no end


def main() -> None:
    """Print millions of instructions for a second of sound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--voice-dir", type=Path, default=Path("voices/vesper"))
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument(_COUNTED, action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.counted:
        _speak(given.voice_dir, given.streams)
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder, "profile")
        valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no"]
        valgrind.append(f"--callgrind-out-file={profile}")
        inside = [sys.executable, "-m", "tests.benchmarks.instructions", *sys.argv[1:], _COUNTED]
        run = subprocess.run([*valgrind, *inside], check=True, capture_output=True, text=True)
    (sound,) = re.findall(r"^sound (\S+) s$", run.stdout, re.MULTILINE)
    (collected,) = re.findall(r"Collected : (\d+)$", run.stderr, re.MULTILINE)
    millions = int(collected) / 1e6 / float(sound)
    print(f"{given.streams} streams, {sound} s of sound: {millions:.0f} million a second of sound")


if __name__ == "__main__":
    main()
