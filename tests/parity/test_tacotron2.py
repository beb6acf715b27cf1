"""What is Tacotron 2's own: every frame in float64."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.parity.families.tacotron2 import FAMILY, GoldenNoise
from tests.parity.material import arrays
from tests.parity.tacotron2_cases import CASES, WIDE, Case, ids
from ttsfamilies.tacotron2.net import AttendedText, TacotronNet, load_net

pytestmark = pytest.mark.slow  # one more family


def sentence(net: TacotronNet, case: Case, told: str, begun: int) -> Tensor:
    """Frames of one of a case's sentences, [frames, mels] float64."""
    memory, keys = net.read(torch.tensor([ids(told)]), [len(told)])
    text = AttendedText(memory, keys, torch.tensor([len(told)]))
    at = {name: torch.zeros(1, *size).double() for name, size in net.blank(len(told)).items()}
    mels, gate = [torch.zeros(1, net.sizes.mels).double()], torch.tensor([-torch.inf])
    least = np.log(case.threshold / (1 - case.threshold))
    while gate <= least and len(mels) <= (case.limit or 2000):
        noise = GoldenNoise(torch.tensor([case.seed]), torch.tensor([begun + len(mels) - 1]))
        drawn = [noise.uniform(layer, width) for layer, width in enumerate(net.sizes.prenet)]
        share = torch.tensor(case.dropout)
        kept = [(one >= share).double() / (1 - case.dropout) for one in drawn]
        at = net.step(mels[-1], kept, text, at)
        mel, gate = net.frame(at)
        mels.append(mel)
    return torch.cat(mels[1:])


@torch.inference_mode()
def frames(net: TacotronNet, case: Case) -> Tensor:
    """Of all sentences."""
    found = torch.zeros(0, net.sizes.mels).double()
    for told in case.told:
        found = torch.cat((found, sentence(net, case, told, len(found))))
    return found


@pytest.mark.parametrize("case", [*CASES, WIDE], ids=lambda case: case.name)
def test_in_float64_every_frame_is_the_references(case: Case, tmp_path: Path) -> None:
    FAMILY.write(tmp_path, case.checkpoint)
    net, _ = load_net(tmp_path, "cpu", torch.float64)
    wanted = arrays("tacotron2")[f"{case.name}/mel"]
    np.testing.assert_allclose(frames(net, case).numpy(), wanted, 0, 1e-10)
