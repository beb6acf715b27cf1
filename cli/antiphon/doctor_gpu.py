"""`antiphon doctor --gpu`: whether engines would speak on this GPU, how fast, and what to set."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import torch

from antiphon.printing import Finding, Grade, needs_bench
from ttscommon.engine.device.device import Cuda, Device, NotRecorded
from ttscommon.engine.device.needs import compiling
from ttscommon.engine.device.present import NoDevice, device_title
from ttscommon.engine.inflight import DeviceError, reason
from ttscommon.engine.kernels.choice import settle
from ttscommon.engine.kernels.trial import BLOCKS, problems_of
from ttsfamilies.base.codec.kernels.trials import TRIALS as OF_CODECS
from ttsfamilies.base.kernels.trials import TRIALS as OF_TALKERS
from ttsfamilies.qwen3_tts.sizes import Size

_DRIVER: Final = Path("/proc/driver/nvidia/version")
_SMI_S: Final = 10.0
_TRIALS: Final = (*BLOCKS, *OF_TALKERS, *OF_CODECS)
# Of Qwen3-TTS 0.6B: a stream's cache of 512 positions, 40 s of speech, in bfloat16.
_STREAM_BYTES: Final = 512 * 28 * 2 * 8 * 128 * 2
_CACHE_SHARE: Final = 0.5  # weights, states of the vocoder and graphs have the rest
_SLOTS: Final = 256
# Longer than this many times what was predicted, and something is amiss.
_MUCH: Final = 2.0
_TRY: Final = (
    "antiphon up --pair \\\n  --model qwen=Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice,device=cuda"
)


def findings() -> Iterator[Finding]:
    """One after the other, as soon as each is known."""
    yield driver()
    yield software()
    try:
        yield Finding("GPU", Grade.GOOD, _title())
        device: Device = Cuda()
    except (NoDevice, DeviceError) as error:
        yield Finding("GPU", Grade.BAD, reason(error))
        return
    yield mig(_smi("mig.mode.current"))
    yield compiler()
    yield from speaking(device, step)


def speaking(device: Device, measured: Callable[[Device], Finding]) -> Iterator[Finding]:
    """What is found by having the device compute."""
    found = kernels(device)
    if found.state is not Grade.GOOD:
        settle("torch")  # as engines do
    yield found
    yield graphs(device)
    yield measured(device)
    yield advice(device.free_bytes())


def driver() -> Finding:
    """The kernel module's."""
    if not _DRIVER.is_file():
        return Finding("driver", Grade.BAD, f"no NVIDIA driver: {_DRIVER} is not there")
    said = _DRIVER.read_text("utf-8", "replace").splitlines()[0]
    return Finding("driver", Grade.GOOD, " ".join(said.removeprefix("NVRM version:").split()))


def software() -> Finding:
    """What computes."""
    triton = f"Triton {_triton()}" if _triton() else "no Triton"
    text = f"torch {torch.__version__}, {triton}"
    if torch.version.cuda is None:
        more = "this torch was built without CUDA; `make serve` installs one for the GPU it finds"
        return Finding("software", Grade.BAD, f"{text}: {more}")
    return Finding("software", Grade.GOOD, f"{text}, CUDA {torch.version.cuda}")


def _triton() -> str | None:
    try:
        return version("triton")
    except PackageNotFoundError:
        return None


def _title() -> str:
    free, _ = torch.cuda.mem_get_info() if torch.cuda.is_available() else (0, 0)
    return f"{device_title('cuda')}, {free / (1 << 30):.0f} GiB of it free"


def _smi(field: str) -> str | None:
    """What the driver's own tool says of the first GPU; None if there is no such tool."""
    if shutil.which("nvidia-smi") is None:
        return None
    command = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader", "--id=0"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=_SMI_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return told.stdout.strip()


def mig(mode: str | None) -> Finding:
    """Whether this is a part of a GPU. mode: as nvidia-smi says it."""
    if mode is None:
        return Finding("MIG", Grade.NOTE, "nvidia-smi does not say")
    if mode.lower() == "enabled":
        text = "on: this is a slice, and figures of the whole GPU do not hold for it"
        return Finding("MIG", Grade.NOTE, text)
    return Finding("MIG", Grade.GOOD, "off")


def compiler() -> Finding:
    """What Triton compiles with."""
    missing = compiling()
    if missing:
        text = f"{' '.join(missing)} Engines compute without kernels."
        return Finding("compiler", Grade.NOTE, text)
    return Finding("compiler", Grade.GOOD, "a C compiler and Python.h are here")


def kernels(device: Device) -> Finding:
    """Each beside its twin."""
    if compiling():
        return Finding("kernels", Grade.NOTE, "none can be compiled")
    problems = problems_of(_TRIALS, device.where)
    if problems:
        text = f"engines compute without kernels, slower, as {len(problems)} of {len(_TRIALS)} fail"
        return Finding("kernels", Grade.NOTE, "\n".join([f"{text}:", *problems]))
    names = ", ".join(trial.name for trial in _TRIALS)
    return Finding("kernels", Grade.GOOD, f"{len(_TRIALS)} agree with their twins: {names}")


def graphs(device: Device) -> Finding:
    """Whether steps can be replayed."""
    x = torch.ones(4, device=device.where)
    try:
        device.record(lambda: x * 2)
    except NotRecorded as error:
        text = f"refused ({error}): engines launch operation by operation, which takes longer"
        return Finding("graphs", Grade.NOTE, text)
    return Finding("graphs", Grade.GOOD, "launches are recorded and replayed")


def step(device: Device, size: Size = "0.6b", batch: int = 64, runs: int = 20) -> Finding:
    """A talker's decode step, weights drawn, beside what count and bandwidth predict."""
    try:
        from antiphon_bench.gpu.engines import measured_step
    except ImportError:
        text = f"not measured: it {needs_bench()}"
        return Finding("step", Grade.NOTE, text)
    try:
        took_s, predicted_s = measured_step(device, size, batch, runs)
    except (DeviceError, NotRecorded, torch.OutOfMemoryError) as error:
        return Finding("step", Grade.BAD, f"failed: {reason(error)}")
    text = (
        f"{1000 * took_s:.1f} ms for {batch} streams of Qwen3-TTS {size.upper()}; predicted"
        f" {1000 * predicted_s:.1f} ms, of the 80 ms that a frame sounds"
    )
    if took_s > _MUCH * predicted_s:
        more = "more than twice what was predicted: `antiphon bench gpu profile` says where"
        return Finding("step", Grade.NOTE, f"{text}\n{more}")
    return Finding("step", Grade.GOOD, text)


def advice(free: int | None) -> Finding:
    """A command that speaks, with settings that fit this memory."""
    fit = _SLOTS if free is None else int(_CACHE_SHARE * free / _STREAM_BYTES)
    if fit >= _SLOTS:
        return Finding("start", Grade.GOOD, f"with the defaults, {_SLOTS} streams:\n{_TRY}")
    slots = 1 << max(0, fit.bit_length() - 1)
    text = f"memory holds {slots} streams of 40 s:\n{_TRY} \\\n  --set talker.slots={slots}"
    return Finding("start", Grade.GOOD if slots > 1 else Grade.NOTE, text)
