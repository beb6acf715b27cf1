"""The stages that make a voice, in order; each is skipped when its result is already there.

A stage's key is a hash of its version, its parameters and the keys of what it reads. Its result
is kept with the key; another key throws the old result away, the same key resumes it.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from talker.models.cantor_net import CantorConfig, CantorNet
from vocoder.codecs.cantor_net import CantorDecoder
from voicetrain import corpus, lexicon
from voicetrain.codec_stage import Codec, extract_codes, train_codec
from voicetrain.data import Array, Corpus
from voicetrain.export import export_voice
from voicetrain.progress import Progress
from voicetrain.synthesis import synthesise
from voicetrain.talker_stage import train_talker
from voicetrain.vocoder_stage import train_vocoder

MOST_SENTENCES, FEWEST_SENTENCES = 24_000, 600
SECONDS_PER_SENTENCE = 0.06
SHARES = {"synthesis": 0.18, "codec": 0.08, "vocoder": 0.18, "talker": 0.56}
LEAST_STAGE_S = 20.0
HELD_OUT_SHARE = 0.02
LEXICON_NAME = "lexicon.json.gz"


@dataclass(frozen=True)
class Plan:
    """What one run makes. Budgets are processor seconds of one thread."""

    seed: int
    sentences: int
    codec_s: float
    vocoder_s: float
    talker_s: float

    @classmethod
    def of_budget(cls, minutes: float, seed: int, workers: int) -> "Plan":
        """Divide a budget in minutes over the stages."""
        seconds = minutes * 60
        spoken = int(seconds * SHARES["synthesis"] * workers / SECONDS_PER_SENTENCE)
        codec, vocoder, talker = (
            max(LEAST_STAGE_S, seconds * SHARES[stage]) for stage in ("codec", "vocoder", "talker")
        )
        sentences = min(MOST_SENTENCES, max(FEWEST_SENTENCES, spoken))
        return cls(seed, sentences, codec, vocoder, talker)


def key_of(stage: str, version: int, parameters: dict[str, Any], inputs: Iterable[str]) -> str:
    """The content key of a stage's result."""
    content = json.dumps([stage, version, parameters, list(inputs)], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


class Workshop:
    """A work folder and the stages of one plan in it."""

    def __init__(self, folder: Path, plan: Plan, workers: int, device: str = "cpu") -> None:
        self.folder, self.plan, self.workers = folder, plan, workers
        self.device = torch.device(device)
        folder.mkdir(parents=True, exist_ok=True)
        text_parameters = {"count": plan.sentences, "seed": plan.seed}
        self.keys = {"text": key_of("text", 1, text_parameters, [])}
        self._derive("shards", {}, ["text"])
        self._derive("codec", {"budget_s": plan.codec_s, "seed": plan.seed}, ["shards"])
        self._derive("codes", {}, ["codec", "shards"])
        self._derive("vocoder", {"budget_s": plan.vocoder_s, "seed": plan.seed}, ["codes"])
        self._derive("talker", {"budget_s": plan.talker_s, "seed": plan.seed}, ["codes"])

    def _derive(self, stage: str, parameters: dict[str, Any], inputs: list[str]) -> None:
        self.keys[stage] = key_of(stage, 1, parameters, [self.keys[name] for name in inputs])

    def make(self) -> tuple[CantorNet, CantorDecoder]:
        """All stages. Returns talker and decoder, trained."""
        self.run("text", self._text)
        self.run("shards", self._shards)
        with self.device:
            self.run("codec", self._codec)
            self.run("codes", self._codes)
            self.run("vocoder", self._vocoder)
            self.run("talker", self._talker)
        return self.talker(), self.decoder()

    def run(self, stage: str, work: Callable[[], None]) -> None:
        """Do a stage unless it is done; forget what another plan left of it."""
        marker, key = self.folder / f"{stage}.key", self.keys[stage]
        state = marker.read_text("utf-8").split() if marker.exists() else []
        if state == [key, "done"]:
            print(f"{stage}: already there", flush=True)
            return
        if state != [key, "begun"]:
            self._forget(stage)
            marker.write_text(f"{key} begun", "utf-8")
        work()
        marker.write_text(f"{key} done", "utf-8")

    def _forget(self, stage: str) -> None:
        for path in self.folder.glob(f"{stage}*"):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def shards(self) -> list[Path]:
        """The corpus on disk."""
        return sorted((self.folder / "shards").glob("????.npz"))

    def codes(self) -> Array:
        """[frames, codebooks] of the whole corpus."""
        return np.load(self.folder / "codes.npy")

    def codec(self) -> Codec:
        """Tokenizer and decoder as the codec stage left them."""
        codec = Codec()
        codec.load_state_dict(self._weights("codec"))
        return codec.eval()

    def decoder(self) -> CantorDecoder:
        """The decoder as the vocoder stage left it."""
        decoder = CantorDecoder()
        decoder.load_state_dict(self._weights("vocoder"))
        return decoder.eval()

    def talker(self) -> CantorNet:
        """The talker as its stage left it."""
        net = CantorNet(CantorConfig())
        net.load_state_dict(self._weights("talker"))
        return net.eval()

    def _weights(self, stage: str) -> dict[str, torch.Tensor]:
        saved = torch.load(self.folder / f"{stage}.pt", map_location="cpu", weights_only=True)
        weights: dict[str, torch.Tensor] = saved["model"]
        return weights

    def _text(self) -> None:
        sentences = corpus.training_text(self.plan.sentences, self.plan.seed)
        evaluation = [*corpus.held_out("easy"), *corpus.held_out("hard")]
        assert not corpus.contaminated(sentences, evaluation), "a held-out sentence is in the text"
        (self.folder / "text.txt").write_text("\n".join(sentences) + "\n", "utf-8")

    def _shards(self) -> None:
        sentences = (self.folder / "text.txt").read_text("utf-8").splitlines()
        synthesise(sentences, self.folder / "shards", self.workers)

    def _codec(self) -> None:
        names = ("mel", "hop_phone", "symbol", "voice")
        loaded = Corpus.load(self.shards(), names)
        train_codec(loaded, self.folder / "codec.pt", self.plan.codec_s, self.plan.seed)

    def _codes(self) -> None:
        codec, parts, shards = self.codec(), [], self.shards()
        progress = Progress("codes", len(shards))
        with torch.inference_mode():
            for done, shard in enumerate(shards, 1):
                parts.append(extract_codes(codec, Corpus.load([shard], ("mel", "voice"))))
                progress.report(done)
        np.save(self.folder / "codes.npy", np.concatenate(parts))

    def _vocoder(self) -> None:
        loaded = Corpus.load(self.shards(), ("mel", "f0", "audio", "voice"))
        path = self.folder / "vocoder.pt"
        decoder = self.codec().decoder
        train_vocoder(decoder, loaded, self.codes(), path, self.plan.vocoder_s, self.plan.seed)

    def _talker(self) -> None:
        loaded = Corpus.load(self.shards(), ("hop_phone", "symbol", "flag", "voice"))
        held = np.arange(len(loaded))[-max(16, int(HELD_OUT_SHARE * len(loaded))) :]
        path = self.folder / "talker.pt"
        train_talker(loaded, self.codes(), held, path, self.plan.talker_s, self.plan.seed)


def make_voice(workshop: Workshop, destination: Path) -> None:
    """Every stage, then the voice folder."""
    (workshop.folder / "plan.json").write_text(json.dumps(asdict(workshop.plan)), "utf-8")
    net, decoder = workshop.make()
    export_voice(net, decoder, destination)
    if not (destination / LEXICON_NAME).exists():
        lexicon.write(lexicon.build(lexicon.Teacher(), lexicon.WORDNET), destination / LEXICON_NAME)
