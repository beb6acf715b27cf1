"""Points of the engines called directly: kernels, steps, prompts, the predictor, the codec."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from antiphon_bench.gpu import both
from antiphon_bench.gpu.both import Both
from antiphon_bench.gpu.codecs import Codecs
from antiphon_bench.gpu.records import Point
from antiphon_bench.gpu.subject import Subject, bandwidth, parameter_bytes, seconds
from talker.engine.sizing import block_bytes
from ttscommon.engine.device.device import Device, Work
from ttscommon.engine.kernels.choice import only, use_triton
from ttscommon.engine.kernels.few_rows import none_are_few
from ttscommon.engine.kernels.trial import BLOCKS, problems_of
from ttsfamilies.base.codec.kernels.trials import CONVOLUTION
from ttsfamilies.base.codec.kernels.trials import TRIALS as OF_CODECS
from ttsfamilies.base.kernels.attention import prompt_tiles
from ttsfamilies.base.kernels.trials import TRIALS as OF_TALKERS
from ttsfamilies.base.lm.codes import Picks
from ttsfamilies.base.runners.device_runner import DeviceRunner
from ttsfamilies.base.runners.launches import TABLE, Shape
from ttsfamilies.base.sampling import Noise, Rules, Settings
from ttsfamilies.base.talker.blocks import blocks_for
from ttsfamilies.qwen3_tts.family import Qwen3Tts
from ttsfamilies.qwen3_tts.sizes import Size

BATCHES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_POSITION: Final = 300  # of a decode step: half a minute of speech behind its text
_RUNS: Final = 20
# Of a step of 64 streams of Qwen3-TTS, as tests count them without a GPU.
STEP_LAUNCHES: Final = 579
# Of one launch within a graph that waits for the one before: its start, its end, and the little
# that most of them compute.
LAUNCH_S: Final = 2.3e-6
_KERNELS: Final = 25  # of a profile
_LOOP_S: Final = 15.0
_LENGTHS: Final = (25, 50, 75, 100)  # frames of a request: 2 to 8 s


class Engines:
    """Measures points, a family and a runner at a time."""

    def __init__(self, subject: Subject, rows: int, runs: int = _RUNS) -> None:
        """rows: the largest batch."""
        self.subject, self.rows, self.runs = subject, rows, runs
        self.codecs = Codecs(subject, rows, runs)
        self.duration_s, self.lengths = _LOOP_S, _LENGTHS

    @cached_property
    def family(self) -> Qwen3Tts:
        return self.subject.talker()

    @cached_property
    def runner(self) -> DeviceRunner:
        return self.subject.runner(self.family, self.rows)

    # what there is to measure

    def batches(self) -> Iterator[Point]:
        yield from ({"batch": size} for size in BATCHES if size <= self.rows)

    def loops(self) -> Iterator[Point]:
        yield from ({"streams": size} for size in (1, 64, 256) if size <= self.rows)

    def prompts(self) -> Iterator[Point]:
        for batch in (1, 4, 16):
            for tokens in (32, 128, 512):
                if batch <= self.rows:
                    yield {"batch": batch, "tokens": tokens}

    # points

    def bandwidth(self, _: Point) -> Point:
        size = 1 << 30 if self.subject.device.where.type == "cuda" else 1 << 20
        return {"bytes_per_s": bandwidth(self.subject.device, size)}

    @torch.inference_mode()
    def step(self, point: Point) -> Point:
        """One recorded frame of a batch: seconds, and the bytes that it cannot but read."""
        batch = point["batch"]
        work = self.steps(batch)
        took_s = seconds(self.subject.device, work, self.runs)
        return {"seconds": took_s, "least_bytes": self._least_bytes(batch)}

    def steps(self, batch: int) -> Work:
        """A recorded frame of `batch` streams, each behind half a minute of speech."""
        state, per_row = self.runner.state, blocks_for(_POSITION + 1)
        for slot in range(batch):
            state.write(slot, TABLE, np.arange(per_row) + slot * per_row)
        state.flush()
        prepared = self.runner.decodes.prepared(Shape(batch, batch, 512))
        told = {"slots": np.arange(batch), "positions": np.full(batch, _POSITION)}
        prepared.inputs.fill(told)
        return prepared.run

    def _least_bytes(self, batch: int) -> int:
        net, spec = self.family._net, self.family.spec
        predictor, size = net.predictor, self.subject.dtype.itemsize
        once = parameter_bytes(net.backbone, net.codec_head, predictor.heads, most=size)
        each_frame = predictor.residuals * parameter_bytes(predictor.decoder, most=size)
        cached = batch * blocks_for(_POSITION) * block_bytes(spec.caches, size)
        return once + each_frame + cached

    def host(self, point: Point) -> Point:
        """Host time of a whole turn of the talker's engine: see `turns`."""
        return both.measured(self.family, self.runner, point["batch"], self.runs)

    def engine(self, point: Point) -> Point:
        """Both engines without a bus: see Both."""
        streams = point["streams"]
        codec = self.codecs.for_streams(streams)
        return Both(self.family, self.ready_runner, codec, streams, self.lengths).measured(
            self.duration_s
        )

    @cached_property
    def ready_runner(self) -> DeviceRunner:
        """With all recorded that turns of the engine come to."""
        self.runner.record(self.rows, 512)
        return self.runner

    @torch.inference_mode()
    def prefill(self, point: Point) -> Point:
        """The backbone of one launch of `batch` prompts of `tokens` tokens each, recorded."""
        batch, tokens = point["batch"], point["tokens"]
        whole = 1 << (batch * tokens - 1).bit_length()
        assert self.runner.mixed is not None
        prompts = self.runner.mixed.prompts
        prepared = prompts.prepared(Shape(batch, whole, 512))
        counts = [tokens] * batch
        told = {
            **{name: np.zeros((0, *f.shape)) for name, f in self.family.spec.inputs.items()},
            "slots": np.arange(batch),
            "positions": np.tile(np.arange(tokens), batch),
            "places": np.full(whole, prompts.reserved_row),
            "last": np.cumsum(counts) - 1,
            "samples": np.ones(batch),
            "tiles": np.array(prompt_tiles([0] * batch, counts)).reshape(-1, 4),
        }
        prepared.inputs.fill(told)
        return {"seconds": seconds(self.subject.device, prepared.run, max(1, self.runs // 4))}

    @torch.inference_mode()
    def predictor(self, point: Point) -> Point:
        """The residual codebooks of a frame, recorded: by kernels, by those and a library's
        products, and by their twins.
        """
        batch, net, device = point["batch"], self.family._net, self.subject.device
        dim = net.config.talker_config.hidden_size
        hidden = torch.randn(batch, dim, dtype=net.codec.weight.dtype, device=device.where)
        first = torch.zeros(batch, dtype=torch.int64, device=device.where)
        numbers = torch.zeros(batch, dtype=torch.int64, device=device.where)
        noise, warmth = Noise(numbers, numbers), torch.full((batch,), 0.9, device=device.where)
        top_k = torch.full_like(numbers, 50)

        settings = Settings(warmth, top_k)
        pick = Picks(settings, settings, noise)
        recorded = device.record(lambda: net.residuals(hidden, first, pick))
        with none_are_few():
            apart = device.record(lambda: net.residuals(hidden, first, pick))
        with only("torch"):
            plain = device.record(lambda: net.residuals(hidden, first, pick))
            plain_s = seconds(device, plain.run, self.runs)
        apart_s = seconds(device, apart.run, self.runs)
        took_s = seconds(device, recorded.run, self.runs)
        return {"seconds": took_s, "apart_seconds": apart_s, "plain_seconds": plain_s}

    @torch.inference_mode()
    def codec(self, point: Point) -> Point:
        """See Codecs."""
        return self.codecs.measured(point)

    @torch.inference_mode()
    def check(self, point: Point) -> Point:
        """Kernels against their twins, or a recorded step against the same step run at once."""
        return {"worst": self.checks[point["what"]]()}

    @property
    def checks(self) -> dict[str, Callable[[], float]]:
        """By what they are called."""
        return {
            "kernels": self._kernels_off,
            "predictor": self._codes_off,
            "recorded": self._recorded_off,
            "codec": self.codecs.difference,
            "codec against the CPU": self.codecs.from_the_cpu,
            "codec across shapes": self.codecs.across_shapes,
        }

    def _kernels_off(self) -> float:
        """How many are off their twins, which the log names; none where twins compute."""
        where = self.subject.device.where
        if not use_triton(torch.empty(0, device=where)):
            return 0.0
        problems = problems_of((*BLOCKS, *OF_TALKERS, *OF_CODECS, CONVOLUTION), where)
        print(*problems, sep="\n")
        return float(len(problems))

    def _codes_off(self) -> float:
        """Share of residual codes that kernels choose otherwise than their twins, greedily."""
        net, where = self.family._net, self.subject.device.where
        dim, g = net.config.talker_config.hidden_size, torch.Generator(where).manual_seed(0)
        hidden = torch.randn(32, dim, generator=g, dtype=self.subject.dtype, device=where)
        first = torch.arange(32, device=where)

        def greedy(logits: torch.Tensor, codebook: int, rules: Rules | None = None) -> torch.Tensor:
            del codebook, rules
            return logits.argmax(-1)

        codes = net.residuals(hidden, first, greedy)
        with only("torch"):
            plain = net.residuals(hidden, first, greedy)
        return float((codes != plain).float().mean())

    def _recorded_off(self) -> float:
        """Share of bytes that a recorded step gives otherwise than the same step at once."""
        batch = min(4, self.rows)
        work = self.steps(batch)
        decodes, shape = self.runner.decodes, Shape(batch, batch, 512)
        prepared = decodes.prepared(shape)
        before = {name: tensor.clone() for name, tensor in self.runner.state.tensors.items()}
        self.subject.device.submit(work)
        self.subject.device.mark().wait()
        assert prepared.result.out is not None
        recorded = prepared.result.out.clone()
        for name, tensor in self.runner.state.tensors.items():
            tensor.copy_(before[name])
        at_once = prepared.result.packed(decodes.compute(prepared.inputs.tensors, shape))
        return float((recorded != at_once).float().mean())


@torch.inference_mode()
def profiled(engines: Engines, batch: int, runs: int, trace: Path) -> Iterator[Point]:
    """The costliest kernels of a step of `batch` streams (operators, on a CPU)."""
    device, work = engines.subject.device, engines.steps(batch)
    device.submit(work)
    device.mark().wait()
    kinds = [ProfilerActivity.CPU]
    if device.where.type == "cuda":
        kinds.append(ProfilerActivity.CUDA)
    with profile(activities=kinds) as seen:
        for _ in range(runs):
            device.submit(work)
        device.mark().wait()
    seen.export_chrome_trace(str(trace))
    field = "self_device_time_total" if len(kinds) > 1 else "self_cpu_time_total"
    events = sorted(seen.key_averages(), key=lambda event: -getattr(event, field))
    for event in events[:_KERNELS]:
        took_us = getattr(event, field) / runs
        yield {"kernel": event.key, "calls": event.count / runs, "us_a_step": round(took_us, 1)}


def measured_step(device: Device, size: Size, batch: int, runs: int) -> tuple[float, float]:
    """Seconds of a recorded step of so many streams, and what its launches and the bytes that it
    cannot but read predict of them.
    """
    engines = Engines(Subject(device, size), batch, runs)
    found = engines.step({"batch": batch})
    read_s = found["least_bytes"] / engines.bandwidth({})["bytes_per_s"]
    return found["seconds"], read_s + STEP_LAUNCHES * LAUNCH_S
