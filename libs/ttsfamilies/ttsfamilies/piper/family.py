"""Piper in the engine: passes over a sentence, then its latents in windows.

The text encoder's layers are a pass each, the durations the last one; windows of the flow follow,
each with the frames around it that it depends on. Noise is a function of seed, sentence and
position, so that any frame can be computed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from ttscommon.engine.device.device import Device
from ttscommon.engine.hub import CheckpointError
from ttscommon.wire.errors import BadRequest
from ttscommon.wire.fields import NOTHING, Derived, Field
from ttscommon.wire.lookups import PhonesFound
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.runners.computation import Out, SlotTensors
from ttsfamilies.base.runners.model import SegmentModel, Segments
from ttsfamilies.base.sampling.noise import draw_keys, frame_keys, normals
from ttsfamilies.base.talker.base import NUMBER, REAL, ModelSpec, known_voice, not_cloning, stated
from ttsfamilies.base.talker.chunker import ChunkSeconds
from ttsfamilies.base.talker.options import ON_CPU, ModelOptions
from ttsfamilies.base.talker.segments import LENGTH, PLACE, REPLAY, Grid
from ttsfamilies.base.text.frontend import EnglishFrontend
from ttsfamilies.base.text.reader import utterances_of
from ttsfamilies.base.text.rules import british
from ttsfamilies.piper.facts import FAMILY
from ttsfamilies.piper.net import Vits
from ttsfamilies.piper.phones import (
    PROGRAM,
    English,
    Espeak,
    Sentence,
    Sentences,
    characters,
    ids_of,
)
from ttsfamilies.piper.request import (
    BEGINS,
    ESPEAK,
    MOST_IDS,
    OWN,
    SPEEDS,
    PiperPrepared,
    PiperStream,
    frame_of,
    parameters_of,
)
from ttsfamilies.piper.voice import HOP, WINDOWS, PiperConfig, PiperVoice, config_of, load_net

_GRID: Final = Grid(WINDOWS)
_DEVICE_GRID: Final = Grid((32,))
_MOST_FRAMES_OF_ID: Final = 1000
_MOST_POSITIONS: Final = 1 << 22


def load(name: str, place: Path, how: ModelOptions = ON_CPU) -> Piper:
    """A voice's file, or the folder that holds it; raises CheckpointError."""
    voice = PiperVoice(place)
    net, rows = load_net(voice, how.where), voice.shapes["enc_p.emb.weight"][0]
    table = voice.config.phoneme_id_map
    if any(not 0 <= one < rows for ids in table.values() for one in ids):
        where = config_of(voice.where(""))
        raise CheckpointError(f"{where}: phoneme_id_map has ids beyond the {rows} of the network")
    if (speakers := voice.shapes.get("emb_g.weight", (1,))[0]) != voice.config.num_speakers:
        where = config_of(voice.where(""))
        raise CheckpointError(f"{where}: num_speakers is not {speakers}, as the network has it")
    return Piper(name, net, voice.config, ways_of(voice.config, how.lexicon))


def ways_of(config: PiperConfig, lexicon: Path) -> dict[str, Sentences]:
    """How texts are read, by name, the default first; raises CheckpointError where none can.

    What a text sounds like must not depend on what a machine has installed: another talker may have
    to go on with it. So for English the project's frontend is the default everywhere.
    """
    if config.phoneme_type == "text":
        return {OWN: characters}
    found: dict[str, Sentences] = {}
    if config.tag.lower().partition("-")[0] == "en":
        found[OWN] = English(EnglishFrontend.load(lexicon), british(config.tag))
    if Espeak.installed():
        found[ESPEAK] = Espeak(config.espeak.voice)
    if not found:
        raise CheckpointError(
            f"a voice of {config.tag} needs {PROGRAM} for its phones: install it (Debian:"
            f" apt-get install {PROGRAM}), where talkers run"
        )
    return found


class Piper(SegmentModel):
    """A loaded voice. ways: how its texts are read, by name, the default one first."""

    signs = None

    def __init__(
        self, name: str, net: Vits, config: PiperConfig, ways: Mapping[str, Sentences]
    ) -> None:
        self._net, self._config, self._ways = net, config, ways
        self._speakers = config.speakers()
        self._layers = len(net.enc_p.encoder.attn_layers)
        self._latent = net.enc_p.proj.out_channels // 2
        self.spec = spec_of(name, net, config, tuple(ways))

    def compute_on(self, device: Device | None) -> None:
        super().compute_on(device)
        self.apart = device is None

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> PiperPrepared:
        not_cloning(request)
        known_voice(request.voice, self._speakers)
        return PiperPrepared(request, self._speakers[request.voice], self._config, self._ways)

    def phones(self, text: str, language: str) -> PhonesFound:
        """See Family."""
        if not any(voice.speaks(language) for voice in self.spec.voices):
            raise BadRequest(f"this voice does not read {language!r}", param="language")
        said = list(utterances_of(text, next(iter(self._ways.values()))))
        symbols = " ".join("".join(one.symbols) for one in said if isinstance(one, Sentence))
        table, ids = self._config.phoneme_id_map, list[int]()
        for one in said:
            assert isinstance(one, Sentence)
            ids += [id for part, _ in ids_of(one, table, MOST_IDS) for id in part]
        return PhonesFound(symbols, tuple(ids))

    def open(self, prepared: PiperPrepared) -> PiperStream:
        grid = _GRID if self.apart else _DEVICE_GRID
        reach, rate_hz = self._net.flow.reach, self.spec.frame_rate_hz
        return PiperStream(prepared, rate_hz, self._layers + 1, grid, self._latent, reach)

    def read(self, index: int, segments: Segments, state: SlotTensors) -> None:
        slots, real = segments.slots, segments.real
        mask, longest = real[:, None].float(), real.shape[1]
        if not index:
            x = self._net.enc_p.embed(state["ids"][slots, :longest], mask)
        else:
            x = state["hidden"][slots, :longest].mT
        if index == self._layers:
            self._time(slots, real, x, state)
            return
        x = self._net.enc_p.encoder.layer(index, x, mask)
        state["hidden"][slots, :longest] = x.mT

    def _time(self, slots: Tensor, real: Tensor, x: Tensor, state: SlotTensors) -> None:
        """The prior of each id, and where its frames end."""
        mask, longest = real[:, None].float(), real.shape[1]
        ids = torch.arange(longest, device=slots.device)
        noise = self._noise(slots, -1 - ids.expand(len(slots), -1), 2, state)
        scaled = noise.mT * state["noise_w"][slots, None, None]
        speaker = self._net.speaker(state["speaker"][slots])
        logs = self._net.dp(x, mask, scaled, speaker)
        stretched = torch.exp(logs) * state["stretch"][slots, :longest]
        lasts = torch.ceil(stretched.nan_to_num(1.0)).clamp(1, _MOST_FRAMES_OF_ID) * real
        stats = self._net.enc_p.proj(x).mT
        # A duration that is no number fails its stream where frames are made.
        state["stats"][slots, :longest] = stats + 0.0 * logs[..., None]
        ends = lasts.long().cumsum(1)
        state["ends"][slots] = ends[:, -1:]
        state["ends"][slots, :longest] = ends

    def frames(self, slots: Tensor, starts: Tensor, count: int, state: SlotTensors) -> Out:
        ends, reach = state["ends"][slots], self._net.flow.reach
        total = ends[:, -1]
        around = torch.arange(-reach, count + reach, device=slots.device)
        if self.apart:  # nothing is computed for what is beyond a segment's ends
            first, last = int(starts), int(total)
            around = around[max(0, reach - first) : max(reach, last - first + reach)]
        at = starts[:, None] + around
        known = (at >= 0) & (at < total[:, None])
        last_id = (state[LENGTH][slots] - 1).clamp(min=0)[:, None]
        place = torch.minimum(torch.searchsorted(ends, at, right=True), last_id)
        mean, logs = state["stats"][slots[:, None], place].chunk(2, -1)
        noise = self._noise(slots, at, self._latent, state)
        z = mean + noise * torch.exp(logs) * state["noise"][slots, None, None]
        mask, speaker = known[:, None].float(), self._net.speaker(state["speaker"][slots])
        own = (around >= 0) & (around < count)
        sides = (reach, reach)
        if self.apart:
            sides = -int(around[0]), max(0, int(around[-1]) + 1 - count)
        z = self._net.flow((z * known[..., None]).mT, mask, speaker, sides).mT
        gained = (total - starts).clamp(0, count)
        frames = {"z": z, BEGINS: (at[:, own] == 0).to(torch.uint8), PLACE: place[:, own]}
        return Out(frames, gained, starts + count >= total, ~z.isfinite().flatten(1).all(1))

    def no_frames(self, rows: int) -> dict[str, Tensor]:
        window, where = (0 if self.apart else self.spec.window), self._net.enc_p.proj.weight.device
        none = torch.zeros(rows, window, dtype=torch.int64, device=where)
        z = torch.zeros(rows, window, self._latent, device=where)
        return {"z": z, BEGINS: none.to(torch.uint8), PLACE: none}

    @staticmethod
    def _noise(slots: Tensor, positions: Tensor, width: int, state: SlotTensors) -> Tensor:
        """[rows, positions, width], standard normal."""
        keys = frame_keys(state["seed"][slots], state["sentence"][slots])
        drawn = normals(draw_keys(keys[:, None], positions).reshape(-1), width)
        return drawn.view(*positions.shape, width)


def spec_of(name: str, net: Vits, config: PiperConfig, ways: Sequence[str]) -> ModelSpec:
    """What the engine has to know of a voice."""
    latent, channels = net.enc_p.proj.out_channels // 2, net.enc_p.emb.embedding_dim
    rate_hz = config.audio.sample_rate / HOP
    return ModelSpec(
        **stated(FAMILY, name, config.audio.sample_rate, rate_hz),
        voices=config.voices(),
        frame=frame_of(latent),
        replay=REPLAY,
        state={
            "ids": Field((MOST_IDS,), "i8"),
            "stretch": Field((MOST_IDS,), "f4"),
            "ends": Field((MOST_IDS,), "i8"),
            "hidden": Field((MOST_IDS, channels), "f4"),
            "stats": Field((MOST_IDS, 2 * latent), "f4"),
            **dict.fromkeys((LENGTH, "sentence", "seed", "speaker"), NUMBER),
            **dict.fromkeys(("noise", "noise_w"), REAL),
        },
        max_positions=_MOST_POSITIONS,
        window=_DEVICE_GRID.frames[0],
        chunks=ChunkSeconds(initial_s=_GRID.frames[0] / rate_hz),
        speeds=SPEEDS,
        parameters=parameters_of(config, ways),
    )
