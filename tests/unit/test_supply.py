"""What the project is built of is named exactly, and looked at for updates."""

import re
from functools import partial
from typing import Final

import pytest
import yaml

from tests.unit.test_imports import ROOT
from tools.locked import read, select

LOCKS: Final = (
    "requirements.txt",
    "requirements-dev.txt",
    "requirements-image.txt",
    "training/requirements.txt",
)
DIGEST: Final = r"@sha256:[0-9a-f]{64}"


def test_actions_are_pinned_to_commits() -> None:
    used = [
        step["uses"]
        for path in (ROOT / ".github/workflows").glob("*.yaml")
        for job in yaml.safe_load(path.read_text())["jobs"].values()
        for step in job["steps"]
        if "uses" in step
    ]
    assert used
    assert all(re.search(r"@[0-9a-f]{40}$", one) for one in used)


def test_every_kind_of_dependency_is_updated() -> None:
    updates = yaml.safe_load((ROOT / ".github/dependabot.yml").read_text())["updates"]
    assert {one["package-ecosystem"] for one in updates} == {
        "docker",
        "docker-compose",
        "github-actions",
        "pip",
    }


@pytest.mark.parametrize("lock", LOCKS)
def test_every_file_that_is_installed_is_named_by_its_hash(lock: str) -> None:
    entries = read([ROOT / lock])
    assert len(entries) > 3
    for entry in entries.values():
        assert re.fullmatch(
            r"[^\s=]+==[^\s;]+(; [^\\]*)?( \\\n +--hash=sha256:[0-9a-f]{64})+", entry
        )


def test_torch_alone_has_no_hash_since_its_build_varies() -> None:
    [(name, entry)] = read([ROOT / "requirements-torch.txt"]).items()
    assert name == "torch"
    assert re.fullmatch(r"torch==[\d.]+", entry)
    assert name not in read(ROOT / lock for lock in LOCKS)


def test_nothing_else_is_installed_without_hashes() -> None:
    for path in ("Makefile", "Dockerfile"):
        lines = (ROOT / path).read_text().splitlines()
        found = [line for line in lines if re.search(r"-r (training/)?(requirements|locked)", line)]
        assert found
        for line in found:
            apart = "requirements-torch.txt" in line or "clients" in line
            assert apart or "--require-hashes" in line, line


def test_base_images_are_named_by_digest() -> None:
    base = re.search(r"^ARG BASE=(\S+)$", (ROOT / "Dockerfile").read_text(), re.M)
    assert base is not None
    assert re.search(DIGEST, base[1])
    assert f"${{BASE:-{base[1]}}}" in (ROOT / "compose.yaml").read_text()


def test_an_image_takes_its_part_of_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {"a-b": "a_b==1 \\\n    --hash=sha256:0", "c": "c==2 \\\n    --hash=sha256:1"}
    torch = {"torch": "torch==3"}
    found: list[str] = []

    def resolve(needs: list[str], constraints: list[str], options: list[str]) -> list[str]:
        assert constraints == ["a_b==1", "c==2", "torch==3"]
        assert options == ["--find-links", "wheels"]
        return found

    monkeypatch.setattr("tools.locked.resolve", resolve)
    chosen = partial(select, entries=entries, torch=torch, options=["--find-links", "wheels"])
    found += ["A.b"]
    assert chosen(["a_b>=1,<2"]) == [entries["a-b"]]
    found += ["nvidia-cublas", "torch"]
    assert chosen(["a_b>=1,<2", "torch>=2"]) == [entries["a-b"]]
    found.remove("torch")
    with pytest.raises(KeyError):
        chosen(["a_b>=1,<2"])
