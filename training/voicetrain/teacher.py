"""flite as a library: speech, phone times, stress, words and pitch of one sentence.

The voices slt, rms and awb of Carnegie Mellon University are statistical (ClusterGen), so the
pitch that shaped a waveform can be read exactly instead of being estimated from it.
"""

import ctypes
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from talker.text.symbols import PAUSE, SYMBOL_IDS, VOWELS, Phone

VOICES = ("slt", "rms", "awb")
SAMPLE_RATE = 16_000
HOP = 160
LEAD_S = 0.08
_TRACK_HOP_S = 0.005


class TeacherError(RuntimeError):
    """flite could not speak a text, or used a phone outside the vocabulary."""


@dataclass(frozen=True)
class Spoken:
    """One sentence as the teacher says it.

    audio: [samples] int16 at 16 kHz, the leading silence cut to LEAD_S.
    f0: [hops] float32 in Hz, one value a 10 ms hop, 0 where unvoiced.
    phones: pauses included, starting and ending with one.
    ends_s: end of each phone in seconds.
    words: the word of each word index.
    """

    audio: NDArray[np.int16]
    f0: NDArray[np.float32]
    phones: tuple[Phone, ...]
    ends_s: tuple[float, ...]
    words: tuple[str, ...]


class _Wave(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_char_p),
        ("sample_rate", ctypes.c_int),
        ("num_samples", ctypes.c_int),
        ("num_channels", ctypes.c_int),
        ("samples", ctypes.POINTER(ctypes.c_short)),
    )


class _Track(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_char_p),
        ("num_frames", ctypes.c_int),
        ("num_channels", ctypes.c_int),
        ("times", ctypes.POINTER(ctypes.c_float)),
        ("frames", ctypes.POINTER(ctypes.POINTER(ctypes.c_float))),
    )


class _Utterance(ctypes.Structure):
    _fields_ = (("features", ctypes.c_void_p),)


class Flite:
    """One process's flite. Raises OSError when libflite and its three voices are missing."""

    def __init__(self) -> None:
        core = ctypes.CDLL("libflite.so.1", mode=ctypes.RTLD_GLOBAL)
        for library in ("usenglish", "cmulex"):
            ctypes.CDLL(f"libflite_{library}.so.1", mode=ctypes.RTLD_GLOBAL)
        pointer, text = ctypes.c_void_p, ctypes.c_char_p
        signatures: dict[str, tuple[object, tuple[object, ...]]] = {
            "flite_synth_text": (ctypes.POINTER(_Utterance), (text, pointer)),
            "utt_wave": (ctypes.POINTER(_Wave), (pointer,)),
            "utt_relation": (pointer, (pointer, text)),
            "relation_head": (pointer, (pointer,)),
            "item_next": (pointer, (pointer,)),
            "path_to_item": (pointer, (pointer, text)),
            "ffeature_string": (text, (pointer, text)),
            "ffeature_float": (ctypes.c_float, (pointer, text)),
            "feat_val": (pointer, (pointer, text)),
            "val_track": (ctypes.POINTER(_Track), (pointer,)),
            "delete_utterance": (None, (pointer,)),
        }
        for name, (result, arguments) in signatures.items():
            function = getattr(core, name)
            function.restype, function.argtypes = result, arguments
        core.flite_init()
        self._core = core
        self._voices = {}
        for name in VOICES:
            voice = ctypes.CDLL(f"libflite_cmu_us_{name}.so.1")
            register = getattr(voice, f"register_cmu_us_{name}")
            register.restype, register.argtypes = pointer, (pointer,)
            self._voices[name] = register(None)

    def speak(self, text: str, voice: str) -> Spoken:
        """Say an ASCII text. Raises TeacherError."""
        utterance = self._core.flite_synth_text(text.encode("ascii"), self._voices[voice])
        if not utterance:
            raise TeacherError(f"flite could not say {text!r}")
        try:
            return self._read(utterance)
        finally:
            self._core.delete_utterance(utterance)

    def _read(self, utterance: "ctypes._Pointer[_Utterance]") -> Spoken:
        wave = self._core.utt_wave(utterance).contents
        audio = np.ctypeslib.as_array(wave.samples, (wave.num_samples,)).copy()
        phones, ends, words = self._segments(utterance)
        if len(phones) < 3:
            raise TeacherError("nothing was said")
        pitch = self._pitch(utterance, len(audio) // HOP)
        cut = max(0, round((ends[0] - LEAD_S) * SAMPLE_RATE / HOP))
        moved = tuple(end - cut * HOP / SAMPLE_RATE for end in ends)
        return Spoken(audio[cut * HOP :], pitch[cut:], tuple(phones), moved, tuple(words))

    def _segments(
        self, utterance: "ctypes._Pointer[_Utterance]"
    ) -> tuple[list[Phone], list[float], list[str]]:
        core = self._core
        segment = core.relation_head(core.utt_relation(utterance, b"Segment"))
        phones: list[Phone] = []
        ends: list[float] = []
        words: list[str] = []
        current = None
        while segment:
            name = core.ffeature_string(segment, b"name").decode()
            if name == PAUSE:
                phones.append(Phone(PAUSE, -1, False))
            else:
                word = core.path_to_item(segment, b"R:SylStructure.parent.parent")
                initial = False
                if word != current:
                    current = word
                    spelling = core.ffeature_string(word, b"name").decode()
                    initial = not (words and spelling.startswith("'"))
                    if initial:
                        words.append(spelling)
                    else:
                        words[-1] += spelling
                if name in VOWELS:
                    name += core.ffeature_string(segment, b"R:SylStructure.parent.stress").decode()
                if name not in SYMBOL_IDS:
                    raise TeacherError(f"unknown phone {name}")
                phones.append(Phone(name, len(words) - 1, initial))
            ends.append(core.ffeature_float(segment, b"end"))
            segment = core.item_next(segment)
        return phones, ends, words

    def _pitch(self, utterance: "ctypes._Pointer[_Utterance]", hops: int) -> NDArray[np.float32]:
        value = self._core.feat_val(utterance.contents.features, b"param_track")
        track = self._core.val_track(value).contents
        values = np.array([track.frames[i][0] for i in range(track.num_frames)], np.float32)
        centres = ((np.arange(hops) + 0.5) * HOP / SAMPLE_RATE / _TRACK_HOP_S).astype(int)
        return values[np.minimum(centres, len(values) - 1)]


@cache
def flite() -> Flite:
    """The teacher of this process, loaded at first use."""
    return Flite()
