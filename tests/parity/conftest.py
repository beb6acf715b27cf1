"""The checkpoints of the comparison, drawn once a run, and what the official package made."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.parity.cases import CHECKPOINTS
from tests.parity.material import arrays
from ttsfamilies.qwen3_tts.synthetic import write_checkpoint

Arrays = dict[str, np.ndarray]


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


class Checkpoints:
    """Folders by name, written when they are first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __getitem__(self, name: str) -> Path:
        path = self._folder / name
        if not path.exists():
            write_checkpoint(path, "tiny", **CHECKPOINTS[name])
        return path


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Checkpoints:
    return Checkpoints(tmp_path_factory.mktemp("checkpoints"))


@pytest.fixture(scope="session")
def talker_goldens() -> Arrays:
    return arrays("talker")
