"""What is Orpheus's own: its prompt, its end, and checkpoints in shards."""

from pathlib import Path

import pytest
import torch

from tests.parity.families.orpheus import FAMILY, goldens
from tests.parity.orpheus_cases import CASES, SEED, Case
from ttsfamilies.base.lm.tokenizer import TextTokenizer
from ttsfamilies.orpheus.family import END_SPEECH, load_net, prompt_ids
from ttsfamilies.orpheus.synthetic import write_checkpoint


def test_the_model_ends_its_own_speech() -> None:
    (case,) = [case for case in CASES if case.ending != 1.0]
    assert goldens()[case.name]["ids"][-1] == END_SPEECH
    assert len(FAMILY.wanted(case)["codes"]) * 7 < case.tokens


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> TextTokenizer:
    folder = tmp_path_factory.mktemp("orpheus")
    write_checkpoint(folder, seed=SEED)
    return TextTokenizer.load(folder)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_prompt_is_the_packages(tokenizer: TextTokenizer, case: Case) -> None:
    assert list(prompt_ids(tokenizer, case.voice, case.text)) == goldens()[case.name]["prompt"]


def test_a_checkpoint_in_shards_is_the_same_network(tmp_path: Path) -> None:
    for name, most in (("whole", 10**9), ("shards", 1_000_000)):
        write_checkpoint(tmp_path / name, seed=SEED, shard_bytes=most)
    one, other = (load_net(tmp_path / name, "cpu", "float32") for name in ("whole", "shards"))
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    for key, tensor in one.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[key])
