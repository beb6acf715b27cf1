"""Piper's voices: an ONNX file of a VITS network (Kim et al., 2021) and a JSON file beside it.

The exporter folds and renames some weights; here every tensor has the name of its module again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from torch import nn

from ttscommon.engine.checkpoint import read_json, voice_file
from ttscommon.engine.hub import CheckpointError
from ttscommon.engine.nn.flat import flat
from ttscommon.engine.nn.weights import filled, same, unfilled
from ttscommon.engine.onnx import Graph, Node, read_graph
from ttscommon.engine.onnx_weights import OnnxWeights, check_all_used, put
from ttscommon.wire.replicas import Voice
from ttsfamilies.piper.net import Durations, Encoder, Flow, PriorEncoder, Vits

HOP: Final = 256
WINDOWS: Final = 32, 48, 96, 160
"""Frames that a processor makes of a sentence at once. The first is what the generator holds back
and a little sound; a long one computes less twice.
"""
_CONVOLUTIONS: Final = ("Conv", "ConvTranspose")
_PARTS: Final = ("enc_p.", "dp.", "flow.", "dec.", "emb_g.")
_TABLES: Final = {"/enc_p/emb/Gather": "enc_p.emb.weight", "/emb_g/Gather": "emb_g.weight"}
# What the exporter has computed of the affine flow's log scale.
SCALE: Final = "dp.flows.0.scale"
_SCALE_NODE: Final = "/dp/flows.0/Exp_output_0"
_MOST_SPEAKERS: Final = 10_000


@dataclass(frozen=True)
class Audio:
    sample_rate: int = 22_050


@dataclass(frozen=True)
class EspeakVoice:
    voice: str = ""


@dataclass(frozen=True)
class Inference:
    """How a voice is drawn unless a request says otherwise."""

    noise_scale: float = 0.667
    length_scale: float = 1.0
    noise_w: float = 0.8


@dataclass(frozen=True)
class Language:
    code: str = ""


@dataclass(frozen=True)
class PiperConfig:
    """What the JSON file says, by its own names and with the reference's defaults."""

    phoneme_id_map: dict[str, list[int]]
    audio: Audio = field(default_factory=Audio)
    espeak: EspeakVoice = field(default_factory=EspeakVoice)
    inference: Inference = field(default_factory=Inference)
    language: Language = field(default_factory=Language)
    phoneme_type: str = "espeak"
    num_speakers: int = 1
    speaker_id_map: dict[str, int] = field(default_factory=dict)
    default_speaker_id: int = 0
    hop_length: int = HOP
    dataset: str = ""

    @property
    def tag(self) -> str:
        """The language as a BCP 47 tag."""
        return (self.language.code or self.espeak.voice or "en").replace("_", "-")

    def problems(self) -> list[str]:
        """What no voice can have, by the names of the file."""
        found = []
        if self.phoneme_type not in ("espeak", "text"):
            found.append(f"phoneme_type {self.phoneme_type!r} is not served")
        if self.hop_length != HOP:
            found.append(f"hop_length is {self.hop_length}, not {HOP}")
        if not 1 <= self.num_speakers <= _MOST_SPEAKERS:
            found.append(f"num_speakers is {self.num_speakers}")
        if not 1000 <= self.audio.sample_rate <= 192_000:
            found.append(f"audio.sample_rate is {self.audio.sample_rate}")
        ids = [*self.speaker_id_map.values(), self.default_speaker_id]
        if any(not 0 <= one < max(1, self.num_speakers) for one in ids):
            found.append("a speaker's number is none of num_speakers")
        for name in ("noise_scale", "length_scale", "noise_w"):
            value = getattr(self.inference, name)
            if not 0.0 <= value <= 10.0 or (name == "length_scale" and value < 0.05):
                found.append(f"inference.{name} is {value}")
        table = self.phoneme_id_map
        return found + [f"phoneme_id_map has no {s!r}" for s in "^_$" if not table.get(s)]

    def speakers(self) -> dict[str, int]:
        """Speakers by the names of their voices, the default one first."""
        named = dict(sorted(self.speaker_id_map.items(), key=lambda item: item[1]))
        if not named:
            count = self.num_speakers
            alone = self.dataset or "default"
            named = {alone: 0} if count == 1 else {f"{n}": n for n in range(count)}
        first = [name for name, number in named.items() if number == self.default_speaker_id]
        return {name: named[name] for name in dict.fromkeys([*first, *named])}

    def voices(self) -> tuple[Voice, ...]:
        """As they are listed; raises ValueError for a language that is no tag."""
        return tuple(Voice(name, name, self.tag) for name in self.speakers())


class PiperVoice(OnnxWeights):
    """A voice's files. Raises CheckpointError."""

    def __init__(self, place: Path) -> None:
        self._path = voice_file(place)
        self.config = read_json(config_of(self._path), PiperConfig)
        problems = self.config.problems()
        if not problems:
            try:
                self.config.voices()
            except ValueError as error:
                problems = [str(error)]
        if problems:
            raise CheckpointError(f"{config_of(self._path)}: {'; '.join(problems)}")
        self._graph = read_graph(self._path)
        self._modules = {_module(node): node for node in _convolutions(self._graph)}
        super().__init__(self._graph, _named(self._graph, self._modules))

    def ints(self, module: str, attribute: Literal["dilations", "strides", "group"]) -> int:
        """An attribute of a convolution; raises CheckpointError where there is none such."""
        node = self._modules.get(module)
        if node is None:
            raise CheckpointError(f"{self._path} has no convolution {module}")
        return node.ints.get(attribute, (1,))[0]

    def count(self, pattern: str) -> int:
        """How many modules are numbered from 0 on, as in `dec.ups.{}`."""
        number = 0
        while any(name.startswith(pattern.format(number) + ".") for name in self._named):
            number += 1
        return number


def config_of(voice: Path) -> Path:
    """The JSON file beside a voice."""
    return voice.with_name(f"{voice.name}.json")


def _convolutions(graph: Graph) -> list[Node]:
    return [n for n in graph.nodes if n.op in _CONVOLUTIONS and len(n.inputs) > 1]


def _module(node: Node) -> str:
    """Of a convolution by its bias, else by its weight, else by its own name."""
    for name in reversed(node.inputs[1:]):
        module, dot, part = name.rpartition(".")
        if dot and part in ("bias", "weight"):
            return module
    return node.name.removesuffix(f"/{node.op}").strip("/").replace("/", ".")


def _named(graph: Graph, modules: Mapping[str, Node]) -> dict[str, str]:
    """The file's own names of all weights by the names of their modules."""
    found = {name: name for name in graph.tensors if name.startswith(_PARTS)}
    for module, node in modules.items():
        put(graph, found, f"{module}.weight", node.inputs[1])
    for node in graph.nodes:
        if node.op == "Gather" and node.name in _TABLES:
            put(graph, found, _TABLES[node.name], node.inputs[0])
    if _SCALE_NODE in graph.tensors:
        found[SCALE] = _SCALE_NODE
    check_all_used(graph, found)
    return found


__all__ = ["HOP", "SCALE", "PiperConfig", "PiperVoice", "config_of"]


_HEADS = 2
_GENERATOR = ("dec.",)


def load_net(voice: PiperVoice, device: str) -> Vits:
    """Raises CheckpointError, which names what is missing, surplus or of a wrong shape."""
    try:
        net = unfilled(_shaped, voice)
    except (KeyError, ValueError, IndexError, RuntimeError, ZeroDivisionError) as error:
        raise CheckpointError(
            f"{voice.where('')} is no VITS network that is known here: {error}"
        ) from error
    sources = {name: same(name) for name in net.state_dict()}
    filled(net, sources, voice, others=_GENERATOR, device=device)
    flat(net.flow)
    return net


def _shaped(voice: PiperVoice) -> Vits:
    shapes = voice.shapes
    symbols, channels = shapes["enc_p.emb.weight"]
    filters, _, kernel = shapes["enc_p.encoder.ffn_layers.0.conv_1.weight"]
    latent = shapes["enc_p.proj.weight"][0] // 2
    encoder = Encoder(
        voice.count("enc_p.encoder.attn_layers.{}"), channels, filters, _HEADS, kernel
    )
    speakers, speaker = shapes.get("emb_g.weight", (0, 0))
    durations, text, _ = shapes["dp.pre.weight"]
    _, _, narrow = shapes["dp.convs.convs_sep.0.weight"]
    layers = voice.count("dp.convs.convs_sep.{}")
    hidden, _, _ = shapes["flow.flows.0.pre.weight"]
    _, _, wide = shapes["flow.flows.0.enc.in_layers.0.weight"]
    gates = voice.count("flow.flows.0.enc.in_layers.{}")
    if any(voice.ints(f"flow.flows.0.enc.in_layers.{i}", "dilations") != 1 for i in range(gates)):
        raise CheckpointError(f"{voice.where('')}: the flow's convolutions are dilated")
    return Vits(
        PriorEncoder(symbols, channels, latent, encoder),
        Durations(text, durations, speaker, layers, narrow),
        Flow(latent, hidden, gates, wide, speaker),
        nn.Embedding(speakers, speaker) if speakers else None,
    )
