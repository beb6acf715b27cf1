"""The codec of Qwen3-TTS on a device: exact carried state by default, or the official windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from torch import Tensor

from ttscommon.engine.device.device import Device
from ttscommon.wire.fields import Array, Arrays
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Work
from ttsfamilies.base.codec.carried import CarriedState
from ttsfamilies.base.codec.device_codec import DeviceCodec, Slice
from ttsfamilies.base.codec.kernels.rows import StateRows
from ttsfamilies.base.codec.room import DeviceLimits
from ttsfamilies.qwen3_tts.codec.codec import continued, spec_of
from ttsfamilies.qwen3_tts.codec.config import load_config
from ttsfamilies.qwen3_tts.codec.fused import FusedDecoder
from ttsfamilies.qwen3_tts.codec.net import CodecDecoder
from ttsfamilies.qwen3_tts.codec.stream import Windows
from ttsfamilies.qwen3_tts.codec.weights import load_decoder


@dataclass(eq=False)
class DeviceStream:
    """The host's part of a stream; see CodecStream. recent: [frames, codebooks]."""

    row: int
    frame: int
    recent: Array
    fresh: bool = True


class Qwen3DeviceCodec(DeviceCodec):
    """A loaded decoder, whose weights are on the device. The codes say who speaks."""

    def __init__(
        self,
        name: str,
        net: CodecDecoder,
        sample_rate: int,
        device: Device,
        room: DeviceLimits,
        windows: Windows | None = None,
        *,
        tensor_cores: bool = False,
    ) -> None:
        self._net, self._windows = net, windows
        self._fused = FusedDecoder(net, tensor_cores=tensor_cores)
        blank = {name: tensor[0] for name, tensor in net.new_state().named().items()}
        spec = spec_of(name, net, sample_rate, windows)
        super().__init__(spec, device, room, blank, extra=windows.context if windows else 0)

    @classmethod
    def load(
        cls,
        name: str,
        folder: Path,
        device: Device,
        room: DeviceLimits,
        windows: Windows | None = None,
        *,
        tensor_cores: bool = False,
    ) -> Self:
        """Read the codec's own folder; raises CheckpointError."""
        net = load_decoder(folder, str(device.where))
        rate = load_config(folder).output_sample_rate
        return cls(name, net, rate, device, room, windows, tensor_cores=tensor_cores)

    def open(self, request: SpeechRequest, frame: int = 0) -> DeviceStream:
        del request
        none = self.spec.none()["codes"]
        return DeviceStream(self.resident.take(), frame, none)

    def prefix(self, request: SpeechRequest, reference: Arrays | None = None) -> Arrays | None:
        """Of a voice cloned in context; one that is only a vector continues nothing."""
        return continued(request, reference)

    def pieces(self, work: Work) -> Sequence[Slice]:
        stream: DeviceStream = work.state
        if not len(work):
            return []
        if self._windows is None:
            return [Slice(stream.row, work.frames, stream.fresh)]
        whole, begin = self._whole(work), stream.frame - len(stream.recent)
        found: list[Slice] = []
        for wanted, first, stop in self._windows.spans(stream.frame, len(work)):
            start = max(wanted, begin)
            codes = {"codes": whole[start - begin : stop - begin]}
            fresh = (stream.fresh and not found) or self._windows.begins_at(first)
            skip = (first - start) * self.spec.samples_per_frame
            found.append(Slice(stream.row, codes, fresh, skip=skip))
        return found

    def launched(self, work: Work) -> None:
        stream: DeviceStream = work.state
        if not len(work):
            return
        if self._windows is not None:
            whole = self._whole(work)
            stream.recent = whole[max(0, len(whole) - self._windows.context) :]
        stream.frame += len(work)
        stream.fresh = False

    def step(
        self, inputs: Mapping[str, Tensor], state: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        before = CarriedState.of(list(state.values()))
        samples, after = self._net.step(inputs["codes"].long(), inputs["lengths"], before)
        return {"samples": samples}, after.named()

    def step_in_place(
        self, inputs: Mapping[str, Tensor], rows: StateRows, state: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        codes = inputs["codes"].long()
        return {"samples": self._fused.step(codes, rows, list(state.values()))}

    def _whole(self, work: Work) -> Array:
        """The frames that a window may begin with, and the new ones."""
        return np.concatenate([work.state.recent, work.frames["codes"]])
