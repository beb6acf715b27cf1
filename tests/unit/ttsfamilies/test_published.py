"""Every family from a stand-in for the hub, of the files that its authors publish, by its name."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon.stack.checkpoints import Checkpoint
from tests.unit.ttscommon.engine.hub_server import Hub, serving
from tests.unit.ttsfamilies.repositories import ALL, Published
from ttscommon.engine.checkpoint import CheckpointError
from ttsfamilies.codecs import load as load_codec
from ttsfamilies.known import FAMILIES
from ttsfamilies.published import Telling, find
from ttsfamilies.talkers import load as load_talker

# One that needs no conversion, and one that is converted; `make test-all` takes every family.
_QUICK = ("orpheus", "tacotron2")


class Heard:
    """What a start says."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.bytes: list[tuple[int, int]] = []
        self.told = Telling(self.lines.append, lambda done, whole: self.bytes.append((done, whole)))


@contextmanager
def hub_of(
    published: Published, home: Path, patch: pytest.MonkeyPatch, **how: Any
) -> Iterator[Hub]:
    """The repositories at a stand-in, with an empty cache."""
    constants = pytest.importorskip("huggingface_hub.constants")
    with serving(Hub(others=published.repositories, **how)) as hub:
        place = constants.HUGGINGFACE_CO_URL_TEMPLATE.removeprefix(constants.ENDPOINT)
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.url + place)
        patch.setattr(constants, "ENDPOINT", hub.url)
        patch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
        patch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        patch.setenv("XDG_CACHE_HOME", str(home))
        yield hub


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n not in _QUICK)) for n in ALL]
)
def test_a_family_is_served_by_its_name_on_the_hub(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published, cold, warm = ALL[name](), Heard(), Heard()
    with hub_of(published, tmp_path, monkeypatch) as hub:
        found = Checkpoint.parse(f"it={published.given}", cold.told)
        gets = set(hub.gets)
        assert Checkpoint.parse(f"it={published.given}", warm.told) == found
    assert not gets & set(published.unread)
    assert FAMILIES.of(found.folder).name == published.family
    assert load_talker("it", found.folder, codec=found.sound).spec.voices is not None
    assert load_codec("it", found.sound).spec.sample_rate
    assert not any("converts" in line for line in warm.lines)
    converts = any(path.endswith((".pt", ".pth", ".bin")) for path in gets)
    assert converts == any("converts" in line for line in cold.lines)
    assert converts == bool(cold.bytes)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert Checkpoint.parse(f"it={published.given}") == found


def test_a_damaged_pickle_is_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published = ALL["kokoro"]()
    with (
        hub_of(published, tmp_path, monkeypatch, damaged={"kokoro-v1_0.pth"}),
        pytest.raises(CheckpointError, match="is not what the hub has"),
    ):
        find(published.given)
    assert not (tmp_path / "antiphon").exists()


def test_one_of_several_is_named_by_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    voices = ALL["piper"]()
    files = {
        name.rpartition("/")[2]: data
        for repository in voices.repositories.values()
        for name, data in repository.items()
    }
    two = Published("org/two/en_US-joe-medium.onnx", {"org/two": files}, "piper")
    with hub_of(two, tmp_path, monkeypatch) as hub:
        found = find(two.given)
        assert not any("lessac" in name for name in hub.gets)
    assert found.name == "en_US-joe-medium.onnx"
    assert FAMILIES.of(found).name == "piper"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"q4.gguf": b"x"}, "is a GGUF of llama.cpp"),
        ({"tts.nemo": b"x"}, "is an archive of NVIDIA NeMo"),
        (
            {"config.json": b'{"architecture": "voxcpm"}', "pytorch_model.bin": b"x"},
            r"holds nothing that is served \(config.json, pytorch_model.bin\)",
        ),
        ({"a.py": b"x", "b.md": b"x"}, r"holds nothing that is served \(a.py, b.md\)"),
    ],
)
def test_what_is_not_served_is_told_before_it_is_downloaded(
    files: dict[str, bytes], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        hub_of(Published("org/it", {"org/it": files}, ""), tmp_path, monkeypatch) as hub,
        pytest.raises(CheckpointError, match=said),
    ):
        find("org/it")
    assert set(hub.gets) <= {"config.json"}
