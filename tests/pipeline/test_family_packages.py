"""A family that somebody else publishes is served like ours: found by its entry point alone."""

import json
import os
import tomllib
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np
import pytest

from antiphon.stack import StackConfig
from antiphon.stack.checkpoints import Checkpoint
from tests.pipeline.test_checkpoints import spoken
from tests.stacks import listed, logged

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "chime"
TEXT: Final = "Bells ring out over the river, and nobody minds: it is almost dark by now."


def installed(site: Path) -> None:
    """The example as pip leaves it, beside its module."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    about = site / "antiphon_chime-0.2.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    points = project["entry-points"]["antiphon.families"]
    lines = [f"{name} = {target}\n" for name, target in points.items()]
    (about / "entry_points.txt").write_text("[antiphon.families]\n" + "".join(lines))
    (site / "chime").symlink_to(EXAMPLE / "chime")


@pytest.fixture
def chime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    site, folder = tmp_path / "site", tmp_path / "bells"
    site.mkdir()
    folder.mkdir()
    installed(site)
    (folder / "config.json").write_text(json.dumps({"model_type": "chime"}))
    path = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    return Checkpoint("chime", folder, folder, "0" * 64)


def struck(text: str) -> Any:
    """[samples] int16 of a text, as its package says."""
    note, strokes = 0, []
    t = np.arange(1600) / 16_000
    for letter in (ord(c) - ord("a") for c in text.lower() if "a" <= c <= "z"):
        note = (2 * letter + note + 1) % 64
        strokes.append(0.3 * np.exp(-40 * t) * np.sin(2 * np.pi * 220 * 2 ** (note / 24) * t))
    return np.concatenate(strokes) * 32767


@pytest.mark.slow
@pytest.mark.asyncio
async def test_it_is_served_through_both_stages_with_its_talker_and_vocoder_killed(
    chime: Checkpoint, tmp_path: Path
) -> None:
    config = StackConfig(port=0, store=tmp_path / "store", models=(chime,), start_timeout_s=300.0)
    async with (
        logged(config) as stack,
        httpx.AsyncClient(base_url=stack.url, timeout=60) as client,
    ):
        await listed(client, "chime")
        said = {"model": "chime", "voice": "bell", "text": TEXT}
        whole = await spoken(stack, **said)
        assert len(whole) == len(struck(TEXT))
        assert np.abs(whole - struck(TEXT)).max() < 2
        again = await spoken(stack, "talker-chime-1", "vocoder-chime-1", **said)
        np.testing.assert_array_equal(again, whole)
