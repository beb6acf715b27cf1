"""The stages that make the vesper voice, in order; each is skipped when its result is there.

A stage's key is a hash of the stages' version, its parameters and the keys of what it reads. Its
result is kept with the key; another key throws the old result away, the same key resumes it.
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from ttscommon.wire.fields import Array
from ttsfamilies.base.text.frontend import EnglishFrontend
from ttsfamilies.base.text.lexicon import FILE_NAME
from ttsfamilies.vesper.codec.net import VesperDecoder
from ttsfamilies.vesper.net import VesperNet
from ttsfamilies.vesper.stream import VesperSampling
from voicetrain import lexicon as flite_lexicon
from voicetrain.corpus import WORDNET
from voicetrain.vesper import lexicon
from voicetrain.vesper.codes import Tables, closest, features, fit, install, quantised
from voicetrain.vesper.corpus import VesperCorpus, read_corpus
from voicetrain.vesper.distil import HiddenCorpus, train_decoder
from voicetrain.vesper.drafter import own_speech, tune_drafter
from voicetrain.vesper.export import export_voice
from voicetrain.vesper.ported import port_decoder, port_text_encoders
from voicetrain.vesper.talk import TalkCorpus, train_talker
from voicetrain.vesper.text import corpus_texts

MOST_TEXTS, FEWEST_TEXTS = 23_000, 600
SECONDS_PER_TEXT = 0.012
SHARES: Final = {"corpus": 0.06, "decoder": 0.4, "talker": 0.37, "drafter": 0.12}
SPEAKING_SHARE = 0.15
SECONDS_PER_SPOKEN_TEXT = 0.075
HIDDEN_SHARE = 0.22
FITTED: Final = 2500
HELD_OUT_SHARE = 0.01
LEAST_HELD_OUT = 16
LEAST_STAGE_S = 20.0
_VERSION: Final = 1


@dataclass(frozen=True)
class Plan:
    """What one run makes. Budgets are processor seconds of one thread."""

    seed: int
    texts: int
    decoder_s: float
    talker_s: float
    drafter_s: float

    @classmethod
    def of_budget(cls, minutes: float, seed: int) -> "Plan":
        """Divide a budget in minutes over the stages; what is left over pays for the tables."""
        seconds = minutes * 60
        texts = int(seconds * SHARES["corpus"] / SECONDS_PER_TEXT)
        stages = (
            max(LEAST_STAGE_S, seconds * SHARES[stage])
            for stage in ("decoder", "talker", "drafter")
        )
        return cls(seed, min(MOST_TEXTS, max(FEWEST_TEXTS, texts)), *stages)


class Workshop:
    """A work folder and the stages of one plan in it."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder, self.plan = folder, plan
        folder.mkdir(parents=True, exist_ok=True)
        self.keys: dict[str, str] = {}
        self._derive("lexicon", {}, [])
        self._derive("text", {"count": plan.texts, "seed": plan.seed}, [])
        self._derive("corpus", {"seed": plan.seed}, ["lexicon", "text"])
        self._derive("tables", {"seed": plan.seed}, ["corpus"])
        self._derive("decoder", {"budget_s": plan.decoder_s, "seed": plan.seed}, ["tables"])
        self._derive("talker", {"budget_s": plan.talker_s, "seed": plan.seed}, ["tables"])
        self._derive("drafter", {"budget_s": plan.drafter_s, "seed": plan.seed}, ["talker"])

    def _derive(self, stage: str, parameters: dict[str, Any], inputs: list[str]) -> None:
        """The key of a stage's result."""
        told = [stage, _VERSION, parameters, [self.keys[name] for name in inputs]]
        content = json.dumps(told, sort_keys=True).encode()
        self.keys[stage] = hashlib.sha256(content).hexdigest()[:16]

    def make(self) -> None:
        """All stages; the decoder's in a process of its own, beside those of the talker."""
        for stage in ("lexicon", "text", "corpus", "tables"):
            self.work(stage)
        spawned = get_context("spawn")
        with ProcessPoolExecutor(1, spawned, torch.set_num_threads, (1,)) as beside:
            decoder = beside.submit(self.work, "decoder")
            self.work("talker")
            self.work("drafter")
            decoder.result()

    def work(self, stage: str) -> None:
        """Do the work of a stage unless it is done."""
        self.run(stage, getattr(self, f"_{stage}"))

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

    def texts(self) -> list[str]:
        """What the teacher was asked to say."""
        return (self.folder / "text.txt").read_text("utf-8").splitlines()

    def corpus(self, *, hidden: bool = False) -> VesperCorpus:
        """What the teacher said."""
        return VesperCorpus.load(self.folder / "corpus", hidden=hidden)

    def tables(self) -> tuple[Tables, Tensor]:
        """The codes' tables, and the codes of silence."""
        saved = torch.load(self.folder / "tables.pt", weights_only=True)
        return Tables(*saved["tables"]), saved["silence"]

    def decoder(self) -> VesperDecoder:
        """The decoder as its stage left it."""
        decoder = VesperDecoder()
        decoder.load_state_dict(self._weights("decoder"))
        return decoder.eval()

    def talker(self) -> VesperNet:
        """The talker, its drafter tuned if that is done."""
        tuned = (self.folder / "drafter.pt").exists()
        return self._talker_of("drafter" if tuned else "talker")

    def _talker_of(self, stage: str) -> VesperNet:
        net = VesperNet()
        net.load_state_dict(self._weights(stage))
        return net.eval()

    def _weights(self, stage: str) -> dict[str, Tensor]:
        saved = torch.load(self.folder / f"{stage}.pt", map_location="cpu", weights_only=True)
        weights: dict[str, Tensor] = saved["model"]
        return weights

    def _lexicon(self) -> None:
        folder = self.folder / "lexicon"
        folder.mkdir(exist_ok=True)
        flite = flite_lexicon.build(flite_lexicon.Teacher(), WORDNET)
        lexicon.write(lexicon.build(flite), folder / FILE_NAME)

    def _text(self) -> None:
        texts = corpus_texts(self.plan.texts, self.plan.seed)
        (self.folder / "text.txt").write_text("\n".join(texts) + "\n", "utf-8")

    def _corpus(self) -> None:
        texts = self.texts()
        hidden = int(len(texts) * HIDDEN_SHARE)
        folder = self.folder / "corpus"
        read_corpus(texts, self.folder / "lexicon", folder, self.plan.seed, hidden)

    def _tables(self) -> None:
        corpus, net = self.corpus(), VesperNet()
        port_text_encoders(net)
        sizes = net.config.codebook_size, net.config.text_codes
        count = int(len(corpus) * HIDDEN_SHARE)
        parts = list(corpus.features(net.eval(), range(count)))
        tables = fit(parts[:FITTED], *sizes, self.plan.seed)
        codes = [quantised(tables, part) for part in parts]
        # Every utterance ends in silence.
        silence = torch.stack([part[-1] for part in codes]).mode(0).values
        np.save(self.folder / "tables-first.npy", torch.cat(codes).numpy().astype(np.int16))
        np.save(self.folder / "tables-all.npy", pitch_and_energy(corpus, tables))
        torch.save({"tables": tuple(tables), "silence": silence}, self.folder / "tables.pt")

    def _decoder(self) -> None:
        corpus, decoder = self.corpus(hidden=True), VesperDecoder()
        install(*self.tables(), decoder)
        port_decoder(decoder)
        count = min(corpus.hidden_count, int(len(corpus) * HIDDEN_SHARE))
        known = HiddenCorpus(
            np.load(self.folder / "tables-first.npy"),
            corpus.hidden,
            corpus.frame_start[: count + 1],
            corpus.level[:count],
            corpus.span[:count],
        )
        path = self.folder / "decoder.pt"
        train_decoder(decoder, known, last(count), path, self.plan.decoder_s, self.plan.seed)

    def _talker(self) -> None:
        corpus, net = self.corpus(), VesperNet()
        port_text_encoders(net)
        tables, _ = self.tables()
        net.text_table.data = torch.stack((tables.text, tables.rest))
        told = TalkCorpus(
            corpus.ids,
            corpus.units,
            np.load(self.folder / "tables-all.npy"),
            corpus.token_start,
            corpus.frame_start,
            corpus.pace,
        )
        path = self.folder / "talker.pt"
        train_talker(net, told, last(len(told)), path, self.plan.talker_s, self.plan.seed)

    def _drafter(self) -> None:
        net, sampling = self._talker_of("talker"), VesperSampling()
        count = int(self.plan.drafter_s * SPEAKING_SHARE / SECONDS_PER_SPOKEN_TEXT)
        frontend = EnglishFrontend.load(self.folder / "lexicon")
        texts = self.texts()[: max(FEWEST_TEXTS // 2, count)]
        spoken = own_speech(net, frontend, texts, sampling, self.plan.seed)
        budget_s = self.plan.drafter_s * (1 - SPEAKING_SHARE)
        path = self.folder / "drafter.pt"
        tune_drafter(net, spoken, last(len(spoken)), sampling, path, budget_s, self.plan.seed)


def pitch_and_energy(corpus: VesperCorpus, tables: Tables) -> Array:
    """Codebooks 0 and 1 of the whole corpus, [frames, 2] int16."""
    nothing = torch.zeros(len(corpus.f0) // 2, 1)
    found = features(torch.from_numpy(corpus.f0), torch.from_numpy(corpus.energy), nothing)
    codes = closest(found.pitch, tables.pitch), closest(found.energy, tables.energy)
    return np.asarray(torch.stack(codes, 1).numpy().astype(np.int16))


def last(count: int) -> Array:
    """Which utterances are held out of training: the last few."""
    return np.arange(count)[-max(LEAST_HELD_OUT, int(HELD_OUT_SHARE * count)) :]


def make_voice(workshop: Workshop, destination: Path) -> None:
    """Every stage, then the voice folder."""
    (workshop.folder / "plan.json").write_text(json.dumps(asdict(workshop.plan)), "utf-8")
    workshop.make()
    lexicon_folder = workshop.folder / "lexicon"
    export_voice(workshop.talker(), workshop.decoder(), lexicon_folder, destination)
