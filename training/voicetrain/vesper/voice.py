"""An exported voice, loaded to be spoken offline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from safetensors.torch import load_file

from ttscommon.engine.voice import load_voice
from ttscommon.wire.fields import Array
from ttsfamilies.base.text.frontend import EnglishFrontend
from ttsfamilies.base.text.misaki import Tokens, tokens_of
from ttsfamilies.vesper.codec.codec import read_decoder
from ttsfamilies.vesper.codec.net import VesperDecoder
from ttsfamilies.vesper.net import VesperConfig, VesperNet
from ttsfamilies.vesper.stream import VesperSampling
from voicetrain.vesper.speak import Spoken, sound, speak

BATCH = 16


class Preset(NamedTuple):
    """pace: speed; level: change of log pitch; span: factor on the pitch's range."""

    pace: float
    level: float
    span: float


@dataclass(frozen=True)
class Voice:
    """Talker, decoder, frontend and settings of a voice folder."""

    folder: Path
    net: VesperNet
    decoder: VesperDecoder
    frontend: EnglishFrontend
    sampling: VesperSampling
    presets: Mapping[str, Preset]

    @classmethod
    def load(cls, folder: Path) -> "Voice":
        """Read a voice folder. Raises VoiceError."""
        voice = load_voice(folder)
        net, decoder = VesperNet(VesperConfig(**voice.config["talker"])), read_decoder(voice)
        weights = load_file(voice.talker_weights)
        net.load_state_dict({name: weight.float() for name, weight in weights.items()})
        presets = {name: Preset(**values) for name, values in voice.config["presets"].items()}
        frontend = EnglishFrontend.load(voice.path)
        sampling = VesperSampling(**voice.config["sampling"])
        return cls(folder, net.eval(), decoder.eval(), frontend, sampling, presets)

    def tokens(self, text: str) -> Tokens:
        """The tokens of one utterance. Raises NothingToSay."""
        return tokens_of(self.frontend.phones(text))

    def spoken(
        self,
        texts: Sequence[str],
        *,
        preset: str = "vesper",
        pace: float = 1.0,
        seed: int = 0,
        temperature: float | None = None,
    ) -> list[Spoken]:
        """Codes of utterances; a temperature replaces that of moves and pitch."""
        sampling = self.sampling
        if temperature is not None:
            sampling = replace(sampling, temperature=temperature, move_temperature=temperature)
        ids = [self.tokens(text).ids for text in texts]
        order = sorted(range(len(ids)), key=lambda index: len(ids[index]))
        made: dict[int, Spoken] = {}
        for first in range(0, len(order), BATCH):
            part = order[first : first + BATCH]
            speed = pace * self.presets[preset].pace
            found = speak(self.net, [ids[i] for i in part], sampling, speed, seed + first)
            made |= dict(zip(part, found, strict=True))
        return [made[index] for index in range(len(ids))]

    def said(self, text: str, preset: str = "vesper", pace: float = 1.0) -> Array:
        """[samples] of one utterance."""
        (spoken,) = self.spoken([text], preset=preset, pace=pace)
        return self.sound(spoken, preset)

    def sound(self, spoken: Spoken, preset: str = "vesper") -> Array:
        """[samples] float32 at 24 kHz."""
        chosen = self.presets[preset]
        return sound(self.decoder, spoken.codes, chosen.level, chosen.span)
