"""Codecs small enough for tests, with the published rates; `how` puts them on a device.

Those of Qwen3-TTS and of S3 tokens have more to them: see their folders.
"""

import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import torch

from tests.turning import turn
from ttscommon.engine.pace import Contention
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Codec
from ttsfamilies.base.codec.options import ON_CPU, CodecOptions
from ttsfamilies.base.codec.stateful import CausalCodec
from ttsfamilies.csm.mimi import codec as csm_codec
from ttsfamilies.csm.mimi.net import MimiDecoder
from ttsfamilies.csm.mimi.net import load_decoder as load_mimi
from ttsfamilies.csm.mimi.synthetic import add_decoder
from ttsfamilies.fish_s2 import codec as fish_codec
from ttsfamilies.fish_s2.synthetic import add_codec
from ttsfamilies.glm_voice.codec import GlmVoiceCodec
from ttsfamilies.glm_voice.codec import load as load_glm_voice
from ttsfamilies.glm_voice.synthetic import write_codec as write_glm_voice
from ttsfamilies.higgs_audio.codec import load as load_higgs_audio
from ttsfamilies.higgs_audio.synthetic import write_codec as write_higgs_audio
from ttsfamilies.kokoro.codec import KokoroCodec, Stream
from ttsfamilies.kokoro.generator import load_net as load_kokoro
from ttsfamilies.kokoro.sizes import Voices
from ttsfamilies.kokoro.synthetic import write_checkpoint as write_kokoro
from ttsfamilies.orpheus.codec import load as load_snac
from ttsfamilies.orpheus.synthetic_snac import write_codec as write_snac
from ttsfamilies.piper.codec import PiperCodec, load_generator
from ttsfamilies.piper.synthetic import write_voice
from ttsfamilies.piper.voice import PiperVoice
from ttsfamilies.pocket_tts import codec as pocket_codec
from ttsfamilies.pocket_tts.synthetic import write_checkpoint as write_pocket_tts
from ttsfamilies.qwen3_omni import codec as omni_codec
from ttsfamilies.qwen3_omni.synthetic import write_checkpoint as write_qwen3_omni
from ttsfamilies.tacotron2.codec import (
    MelVocoder,
    Overlap,
    OverlappingCodec,
    TacotronCodec,
    load_vocoder,
)
from ttsfamilies.tacotron2.facts import HifiganConfig
from ttsfamilies.tacotron2.synthetic import write_checkpoint as write_tacotron2
from ttsfamilies.voxcpm2 import codec as voxcpm_codec
from ttsfamilies.voxcpm2.synthetic import SHORT_VAE
from ttsfamilies.voxcpm2.synthetic import config as voxcpm_config
from ttsfamilies.voxcpm2.synthetic import write_checkpoint as write_voxcpm2
from ttsfamilies.zonos.codec import load as load_dac
from ttsfamilies.zonos.synthetic_dac import write_codec as write_dac
from vocoder.engine.engine import Engine
from vocoder.engine.stream import DecodedAudio, Event, Failed, Finished

T = TypeVar("T")


class Run:
    """An engine stepped by hand, and what each of its streams gave."""

    def __init__(self, codec: Codec, clock: Callable[[], float] = time.monotonic) -> None:
        self.heard: dict[str, list[Event]] = {}
        self.steps = 0
        contention = Contention(read=lambda: None)
        self.engine = Engine(codec, slots=8, metrics=Metrics(), clock=clock, contention=contention)
        self.engine.listen(lambda events: [self.heard[key].append(e) for key, e in events])

    def begin(self, request: SpeechRequest, frames: Arrays, *, final: bool = True) -> None:
        key = request.request_id
        self.heard[key] = []
        self.engine.open(request, conditions=self.engine.conditions(request))
        self.engine.feed(key, frames)
        if final:
            self.engine.finish(key)

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            turn(self.engine)
        self.steps += count

    def finish(self, *keys: str) -> None:
        for _ in range(3000):
            if not any(self.running(key) for key in keys):
                return
            self.step()
        raise AssertionError("a stream did not end")

    def running(self, key: str) -> bool:
        return not any(isinstance(event, Finished | Failed) for event in self.heard[key][-1:])

    def pcm(self, key: str) -> npt.NDArray[np.int16]:
        pieces = [event.pcm for event in self.heard[key] if isinstance(event, DecodedAudio)]
        return np.concatenate([np.empty(0, np.int16), *pieces])


def loaded(load: Callable[[Path], T], write: Callable[..., object], *told: object, seed: int) -> T:
    """What is loaded of a folder that was written for it, and is gone again."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        write(Path(folder), *told, seed=seed)
        return load(Path(folder))


@cache
def mimi_net() -> MimiDecoder:
    """Four codebooks."""
    return loaded(load_mimi, add_decoder, seed=2)


def mimi(how: CodecOptions = ON_CPU) -> CausalCodec:
    return csm_codec.codec_of("m", mimi_net(), how)


@cache
def fish_s2_net() -> fish_codec.FishDecoder:
    """Ten codebooks."""
    return loaded(fish_codec.load_decoder, add_codec, seed=2)


def fish_s2(how: CodecOptions = ON_CPU) -> CausalCodec:
    return fish_codec.codec_of("m", fish_s2_net(), how)


@cache
def glm_voice() -> GlmVoiceCodec:
    return loaded(partial(load_glm_voice, "m"), write_glm_voice, seed=2)


@cache
def higgs_audio() -> Codec:
    return loaded(partial(load_higgs_audio, "m"), write_higgs_audio, seed=2)


@cache
def snac() -> Codec:
    return loaded(partial(load_snac, "m"), write_snac, seed=2)


@cache
def dac() -> Codec:
    return loaded(partial(load_dac, "m"), write_dac, seed=2)


class TinyKokoro(KokoroCodec):
    """Knows one of its voices by the name that tests ask for."""

    def open(self, request: SpeechRequest, frame: int = 0) -> Stream:
        if request.voice == "slt":
            request = msgspec.structs.replace(request, voice="af_sky")
        return super().open(request, frame)


@cache
def kokoro() -> TinyKokoro:
    def load(folder: Path) -> TinyKokoro:
        net = load_kokoro(folder)
        return TinyKokoro("m", net, Voices.load(folder, net.config))

    return loaded(load, write_kokoro, seed=2)


@cache
def piper() -> PiperCodec:
    def load(folder: Path) -> PiperCodec:
        voice = PiperVoice(folder)
        return PiperCodec("m", voice.config, *load_generator(voice, "cpu"))

    return loaded(load, write_voice, seed=2)


@cache
def _pocket_tts_net() -> pocket_codec.LatentDecoder:
    return loaded(pocket_codec.load_decoder, write_pocket_tts, seed=2)


def pocket_tts(how: CodecOptions = ON_CPU) -> Codec:
    return pocket_codec.PocketCodec("m", _pocket_tts_net(), how)


@cache
def _qwen3_omni_net() -> omni_codec.LaggingDecoder:
    return loaded(omni_codec.load_decoder, partial(write_qwen3_omni, codebooks=4), seed=1)


def qwen3_omni(how: CodecOptions = ON_CPU) -> Codec:
    return omni_codec.OmniCodec("m", _qwen3_omni_net(), how)


@cache
def tacotron2_parts() -> tuple[MelVocoder, HifiganConfig]:
    """A network, and what lies beside it."""
    return loaded(load_vocoder, write_tacotron2, seed=2)


@cache
def tacotron2() -> TacotronCodec:
    """With exact state."""
    return TacotronCodec("m", *tacotron2_parts())


@cache
def overlapping() -> OverlappingCodec:
    """Tacotron 2 in chunks of eight frames, two of them decoded again."""
    return OverlappingCodec("m", *tacotron2_parts(), Overlap(8, 2))


@cache
def _voxcpm2_net() -> voxcpm_codec.VaeDecoder:
    """Patches of 48 samples."""
    told = voxcpm_config(vae=SHORT_VAE)
    return loaded(voxcpm_codec.load_decoder, write_voxcpm2, told, seed=2)


def voxcpm2(how: CodecOptions = ON_CPU) -> Codec:
    return voxcpm_codec.VoxcpmCodec("m", _voxcpm2_net(), how)
