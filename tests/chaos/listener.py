"""A client that knows what it must hear, and says exactly what it did not."""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
import time
import wave
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from antiphon.client import Audio, Finished, GatewayError, SpeechOptions, Started, speak
from antiphon.say import whole
from ttscommon.bus import Bus
from ttscommon.sound.playback import PlaybackAccount
from ttscommon.wire.messages import CodecChunk
from ttscommon.wire.subjects import CODES

TIMEOUT_S = 90.0
_LOG_TIMEOUT_S = 10.0
_LOOK_S = 0.01
_ONE_STEP = 1
# Refusals that are not about room are failures.
_REFUSALS = ("overloaded", "rate_limit_exceeded", "store_lost", "store_full")
_FLAWS = ("lost", "repeated", "differing", "hung", "errors", "unended")

TEXT = (
    "The tide comes in over the sand, and the boats turn slowly on their chains; "
    "one after another the lamps are lit along the wall, and somebody begins to sing, "
    "very softly, to nobody at all."
)
# Ten minutes of the fake voice, as many characters as a request may have.
LONG_TEXT = (TEXT + " ") * 50
# What a request may take besides, in seconds a character.
_TIMEOUT_A_CHARACTER_S = 0.02


@dataclass
class Heard:
    """One stream as its client got it."""

    seed: int
    asked_s: float
    request_id: str = ""
    sample_rate: int = 0
    outcome: str = ""
    error: str = ""
    hung: bool = False
    refused: int = 0
    refusal: str = ""
    failed_s: float = 0.0
    parts: list[bytes] = field(default_factory=list)
    arrivals: list[tuple[float, int]] = field(default_factory=list)

    @property
    def samples(self) -> npt.NDArray[np.int16]:
        return np.frombuffer(b"".join(self.parts), "<i2")

    @property
    def wait_s(self) -> float:
        """From asking to the first audio, or to the failure."""
        first_s = self.arrivals[0][0] if self.arrivals else self.failed_s
        return first_s - self.asked_s if first_s else 0.0

    @property
    def worst_silence_s(self) -> float:
        """The longest time without audio behind the first, up to a failure."""
        times = [moment for moment, _ in self.arrivals]
        if self.failed_s:
            times.append(self.failed_s)
        return max((b - a for a, b in pairwise(times)), default=0.0)

    @property
    def account(self) -> PlaybackAccount:
        """What a listener got who plays from the first sample on."""
        account = PlaybackAccount(self.sample_rate or 1)
        for moment, samples in self.arrivals:
            if samples:
                account.feed(samples, moment)
        return account


@dataclass(frozen=True)
class Original:
    """What an undisturbed run of a seed gives."""

    codes: npt.NDArray[np.int16]
    samples: npt.NDArray[np.int16]


async def listen(url: str, seed: int, text: str = TEXT, *, patient: bool = True) -> Heard:
    """Have `text` spoken; whatever happens is in the result. `patient`: who is refused asks again
    as soon as it was told to.
    """
    heard = Heard(seed, time.monotonic())
    try:
        async with asyncio.timeout(_timeout_s(text)):
            while (retry_after_s := await _hear(url, heard, text)) is not None:
                heard.refused += 1
                if not patient:
                    break
                await asyncio.sleep(retry_after_s)
                heard.asked_s = time.monotonic()
    except GatewayError as error:
        heard.error = str(error)
    except TimeoutError:
        heard.hung = True
    if heard.outcome != "ok":
        heard.failed_s = time.monotonic()
    return heard


async def _hear(url: str, heard: Heard, text: str) -> float | None:
    """When to ask again, in seconds, if it was refused for now; raises GatewayError."""
    try:
        async for event in speak(url, whole(text), SpeechOptions(seed=heard.seed)):
            match event:
                case Started():
                    heard.request_id = event.request_id
                    heard.sample_rate = event.sample_rate
                case Audio(pcm):
                    heard.parts.append(pcm)
                    heard.arrivals.append((time.monotonic(), len(pcm) // 2))
                case Finished(outcome):
                    heard.outcome = outcome
    except GatewayError as error:
        if heard.parts or error.code not in _REFUSALS or error.retry_after_s is None:
            raise
        heard.refusal = str(error)
        return error.retry_after_s
    return None


def _timeout_s(text: str) -> float:
    return TIMEOUT_S + _TIMEOUT_A_CHARACTER_S * len(text)


async def listen_by_command(url: str, seed: int, text: str) -> Heard:
    """The same through `antiphon say -o`, a process of its own that nobody tells of the fault.

    Its arrivals are those of the file's growth; the wait for the first is not known.
    """
    heard = Heard(seed, time.monotonic())
    with tempfile.TemporaryDirectory(prefix="say-") as folder:
        out = Path(folder) / "out.wav"
        arrivals: list[tuple[float, int]] = []
        watching = asyncio.create_task(_watch(out, arrivals))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "antiphon", "say", text,
            "--url", url, "--seed", str(seed), "-o", str(out),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        try:
            async with asyncio.timeout(_timeout_s(text)):
                said = (await process.communicate())[0].decode()
        except TimeoutError:
            heard.hung = True
            process.kill()
            await process.wait()
            return heard
        finally:
            watching.cancel()
        if process.returncode:
            heard.error = said.strip()
            return heard
        with wave.open(str(out)) as file:
            heard.sample_rate = file.getframerate()
            heard.parts.append(file.readframes(file.getnframes()))
        if found := re.search(r"request\s+([\w-]+)", said):
            heard.request_id = found[1]
    heard.outcome = "ok"
    heard.arrivals = arrivals
    heard.asked_s = arrivals[0][0] if arrivals else heard.asked_s
    return heard


async def _watch(out: Path, arrivals: list[tuple[float, int]]) -> None:
    """Note when the file grows, by how many samples."""
    size = 0
    while True:
        await asyncio.sleep(_LOOK_S)
        now = out.stat().st_size if out.exists() else 0
        if now > size:
            arrivals.append((time.monotonic(), (now - size) // 2))
            size = now


async def logged_codes(bus: Bus, request_id: str) -> npt.NDArray[np.int16]:
    """[frames, codebooks]: what the codec log of a request holds; raises TimeoutError."""
    async with asyncio.timeout(_LOG_TIMEOUT_S), bus.reader(CODES, request_id) as reader:
        records = [record async for record in reader]
    rows = [r.tensors["codes"].array() for r in records if isinstance(r, CodecChunk)]
    return np.concatenate(rows) if rows else np.zeros((0, 1), np.int16)


async def originals(
    url: str, bus: Bus, texts: Mapping[int, str], at_once: int = 1
) -> dict[int, Original]:
    """By seed, what each text sounds like when nobody disturbs it; asked for until it is heard, as
    workers may still be starting.
    """
    places, found = asyncio.Semaphore(at_once), dict[int, Original]()

    async def hear(seed: int, text: str) -> None:
        async with places, asyncio.timeout(_timeout_s(text)):
            while (heard := await listen(url, seed, text)).outcome != "ok":
                print(f"not heard yet: {heard.error or heard.outcome}", flush=True)
                await asyncio.sleep(0.5)
            found[seed] = Original(await logged_codes(bus, heard.request_id), heard.samples)

    await asyncio.gather(*(hear(seed, text) for seed, text in texts.items()))
    return found


@dataclass
class Verdict:
    """Sums over streams; `worst_*` are maxima. `unended`: what the leak check found."""

    streams: int = 0
    worst_wait_s: float = 0.0
    worst_silence_s: float = 0.0
    worst_underrun_s: float = 0.0
    underruns: int = 0
    lost: int = 0
    repeated: int = 0
    differing: int = 0
    hung: int = 0
    errors: int = 0
    refused: int = 0
    unended: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not any(getattr(self, name) for name in _FLAWS)

    def add(self, other: Verdict) -> None:
        self.worst_wait_s = max(self.worst_wait_s, other.worst_wait_s)
        self.worst_silence_s = max(self.worst_silence_s, other.worst_silence_s)
        self.worst_underrun_s = max(self.worst_underrun_s, other.worst_underrun_s)
        for name in ("streams", "underruns", "refused", *_FLAWS):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.notes += other.notes


async def judge(
    bus: Bus, heard: Iterable[Heard], originals: dict[int, Original], *, logged: bool = True
) -> Verdict:
    """Hold every stream against its original, and its codes in the log if they are `logged`."""
    verdict = Verdict()
    for stream in heard:
        verdict.add(await _judge_one(bus, stream, originals[stream.seed], logged))
    return verdict


async def _judge_one(bus: Bus, heard: Heard, original: Original, logged: bool) -> Verdict:
    account = heard.account
    verdict = Verdict(
        streams=1,
        worst_wait_s=heard.wait_s,
        worst_silence_s=heard.worst_silence_s,
        worst_underrun_s=account.longest_underrun_s,
        underruns=account.underruns,
        hung=int(heard.hung),
        refused=heard.refused,
        errors=int(bool(heard.error) or not (heard.hung or heard.outcome == "ok")),
    )
    samples = heard.samples
    common = min(len(samples), len(original.samples))
    steps = np.abs(samples[:common].astype(np.int32) - original.samples[:common])
    verdict.differing = int((steps > _ONE_STEP).sum())
    verdict.lost = len(original.samples) - common
    verdict.repeated = len(samples) - common
    if heard.outcome == "ok" and logged:
        await _compare_codes(bus, heard, original, verdict)
    if not verdict.clean:
        verdict.notes.append(
            f"{heard.request_id or 'unstarted'} seed {heard.seed}: {heard.error or heard.outcome} "
            f"lost {verdict.lost} repeated {verdict.repeated} differing {verdict.differing}"
            f"{' HUNG' if heard.hung else ''}"
        )
    return verdict


async def _compare_codes(bus: Bus, heard: Heard, original: Original, verdict: Verdict) -> None:
    try:
        codes = await logged_codes(bus, heard.request_id)
    except TimeoutError:
        verdict.hung += 1
        verdict.notes.append(f"{heard.request_id}: its codec log has no end")
        return
    if not np.array_equal(codes, original.codes):
        verdict.differing += 1
        verdict.notes.append(f"{heard.request_id}: codes {codes.shape} {original.codes.shape}")
