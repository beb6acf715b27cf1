"""A tiny synthetic checkpoint of each kind, written once a run."""

from pathlib import Path

import pytest
import torch

from ttsfamilies.qwen3_tts.config import TalkerConfig, load_config
from ttsfamilies.qwen3_tts.synthetic import write_checkpoint


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def custom(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("custom")
    write_checkpoint(folder, "tiny", "custom_voice", seed=1)
    return folder


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    write_checkpoint(folder, "tiny", "base", seed=2)
    return folder


@pytest.fixture(scope="session")
def config(custom: Path) -> TalkerConfig:
    return load_config(custom)
