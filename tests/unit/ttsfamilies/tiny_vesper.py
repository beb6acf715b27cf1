"""A vesper model small enough for the engine's tests, with random weights, in memory."""

import copy
from collections.abc import Sequence

import torch

from ttscommon.wire.errors import NothingToSay
from ttscommon.wire.replicas import Voice
from ttsfamilies.base.text.frontend import Substitution, Utterance, Word
from ttsfamilies.base.text.ipa import SYMBOLS, Phone
from ttsfamilies.vesper.family import Vesper, spec_of
from ttsfamilies.vesper.net import VesperConfig, VesperNet, round_steps
from ttsfamilies.vesper.stream import VesperSampling

SILENCE = (5, 6, 7, 8)
RATE_HZ = 20.0


class Letters:
    """A frontend for tests: a letter is a phone."""

    def phones(
        self, utterance: str, given: Sequence[Substitution] = (), british: bool = False
    ) -> Utterance:
        text = utterance
        for index, spoken in enumerate(given):
            text = text.replace(chr(0xE000 + index), spoken.text)
        phones, words = [Phone("pau", -1, False)], []
        for index, word in enumerate(text.split()):
            letters = [c for c in word.lower() if c.isalpha()]
            if not letters:
                continue
            start = len(phones)
            phones += [
                Phone(SYMBOLS[2 + ord(c) % 50], index, i == 0) for i, c in enumerate(letters)
            ]
            words.append(Word(word, start, len(phones)))
        if not words:
            raise NothingToSay("no word")
        return Utterance((*phones, Phone("pau", -1, False)), tuple(words), (".",))


def tiny(kind: type[Vesper] = Vesper, reluctance: float = 0.0, device: str = "cpu") -> Vesper:
    """The voices `slt` and `low`; logits are wide, so that frames follow what they are told.

    reluctance: of its pointer to go on. device: of all but what reads texts.
    """
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = VesperNet(
        VesperConfig(
            codebook_size=48, text_codes=32, text_dim=16, text_rounds=1, prosody_dim=16,
            prosody_rounds=1, dim=64, layers=2, heads=2, hidden=96, energy_hidden=32,
            draft_hidden=32, positions=1024,
        )
    )  # fmt: skip
    for parameter in net.parameters():
        parameter.data *= 2.0
    torch.nn.init.normal_(net.text_table)
    net.move_head.bias.data += torch.tensor([reluctance - 1.0, 1.0, 1.0, 0.5])
    round_steps(net)
    voices = (Voice("slt", "SLT", "en"), Voice("low", "Low", "en"))
    spec = spec_of(net, "m", voices, 24_000, RATE_HZ, (0.7, 1.4))
    sampling = VesperSampling(longest_units=8)
    paces = {"slt": 1.0, "low": 0.9}
    moved = net if device == "cpu" else copy.deepcopy(net).to(device)
    return kind(spec, moved, Letters(), sampling, paces, SILENCE, net)
