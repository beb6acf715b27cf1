"""Downloads from a hub over HTTP: pinned, shown, resumed, and checked before they are used."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.ttscommon.engine.hub_server import REPO, Hub, commit_of, serving

TENSORS = "model.safetensors"
# The client keeps what it has in parts of 10 MiB.
LARGE = bytes(range(256)) * 98_304
FILES = {"config.json": b'{"model_type": "x"}', TENSORS: LARGE, "code.py": b"!"}
OTHER = {**FILES, "config.json": b'{"model_type": "y"}'}
_PROGRAM = """
import sys
from ttscommon.engine.checkpoint import CheckpointError, find_checkpoint
for name in sys.argv[1:]:
    try:
        print(find_checkpoint(name))
    except CheckpointError as error:
        print("error:", error)
"""


def found(hub: Hub, home: Path, *names: str) -> tuple[list[str], str]:
    """What a process finds for each name, and what it writes on stderr."""
    environ = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(home)}
    environ |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    command = [sys.executable, "-c", _PROGRAM, *names]
    done = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.splitlines(), done.stderr


@pytest.fixture(autouse=True)
def _client() -> None:
    pytest.importorskip("huggingface_hub")


def test_a_revision_is_pinned_and_a_download_that_breaks_off_goes_on(tmp_path: Path) -> None:
    revisions = {"main": FILES, "v1": OTHER}
    with serving(Hub(revisions, cut={TENSORS})) as hub:
        (newest, pinned, commit, unknown), shown = found(
            hub, tmp_path, REPO, f"{REPO}@v1", f"{REPO}@{commit_of('v1')}", f"{REPO}@v9"
        )
    assert (Path(newest) / "config.json").read_bytes() == FILES["config.json"]
    assert (Path(pinned) / "config.json").read_bytes() == OTHER["config.json"]
    assert commit == pinned
    assert (Path(newest) / TENSORS).read_bytes() == FILES[TENSORS]
    assert unknown.startswith(f"error: {REPO}@v9 cannot be downloaded")
    assert [name for name, _ in hub.ranges] == [TENSORS]
    assert hub.ranges[0][1].startswith(f"bytes={10 << 20}-")
    assert not (Path(newest) / "code.py").exists()
    assert "%" in shown  # how far it is


def test_a_file_that_was_damaged_on_its_way_is_named_removed_and_downloaded_again(
    tmp_path: Path,
) -> None:
    with serving(Hub({"main": FILES}, damaged={TENSORS})) as hub:
        (refused,), _ = found(hub, tmp_path, REPO)
        hub.damaged.clear()
        (folder,), _ = found(hub, tmp_path, REPO)
    assert "is not what the hub has" in refused
    assert TENSORS in refused
    assert (Path(folder) / TENSORS).read_bytes() == FILES[TENSORS]


def test_a_folder_of_a_repository_is_downloaded_without_the_others(tmp_path: Path) -> None:
    one, other = "languages/one", "languages/other"
    files = {
        **{f"{one}/{name}": data for name, data in FILES.items()},
        f"{one}/tokenizer.model": b"pieces",
        f"{one}/embeddings/anna.safetensors": b"voice",
        f"{other}/{TENSORS}": b"weights",
    }
    with serving(Hub({"main": files, "v1": files})) as hub:
        (folder, pinned, missing), _ = found(
            hub, tmp_path, f"{REPO}/{one}", f"{REPO}/{one}@v1", f"{REPO}/languages/none"
        )
        gets = list(hub.gets)
    assert Path(folder).parts[-2:] == ("languages", "one")
    assert (Path(folder) / TENSORS).read_bytes() == LARGE
    assert (Path(folder) / "embeddings/anna.safetensors").read_bytes() == b"voice"
    assert (Path(folder) / "tokenizer.model").exists()
    assert Path(pinned).parts[-2:] == ("languages", "one")
    assert not any(other in name for name in gets)
    assert missing.startswith(f"error: {REPO}/languages/none cannot be downloaded")


def test_a_checkpoint_of_pickles_alone_is_not_downloaded_but_converted(tmp_path: Path) -> None:
    files = {"config.json": b"{}", "pytorch_model.bin": b"a pickle"}
    with serving(Hub({"main": files})) as hub:
        (refused,), _ = found(hub, tmp_path, REPO)
    assert f"{REPO} has pytorch_model.bin" in refused
    assert f"`antiphon convert {REPO}`" in refused
    assert "pytorch_model.bin" not in hub.gets
