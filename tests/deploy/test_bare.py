"""Wheels in a bare Debian: first sound by each way to install, an upgrade, and nothing left.

`make test-deploy` runs it where there are root and debootstrap, with PyPI and Debian's mirror in
reach. Each prints its figures; docs/deploy.md has them.
"""

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.deploy.debian import OWN, Debian, lacks
from tests.deploy.engine import deployed
from tests.deploy.installed import git, pip, sources, started
from tools import artifacts, release
from tools.packages import ROOT

pytestmark = [deployed, pytest.mark.slow]

TEXT: Final = "The tide is coming in."
LEXICON: Final = {"name": "kept", "entries": [{"grapheme": "tide", "alias": "water"}]}
# Any below the present one.
BEFORE: Final = "0.1.9"
_ANSWER_S: Final = 60.0
# What these tests write into the user's home.
CLEAN: Final = "rm -rf keys.toml store before.wav tide.wav book.txt book.opus"
# Wheels of torch for processors are on an index of its own, and here for one Python alone; Debian
# has an older one, which our ranges refuse.
NO_TORCH: Final = "torch ; python_version < '3'"


@dataclass(frozen=True)
class Way:
    """install, upgrade, remove: lines of a shell. up: what starts it.

    left: removes what the tool keeps for itself.
    """

    install: str
    upgrade: str
    remove: str
    left: str
    place: str
    up: tuple[str, ...] = ("antiphon",)


_UV: Final = "uv cache clean --quiet; rm -rf .cache/uv .local/share/uv /tmp/uv-*.lock"
# It installs by uv where that is there.
_PIPX: Final = f"{_UV}; rm -rf .cache/pip .cache/pipx .local/share/pipx .local/state/pipx"
_VENV: Final = f"python3 -m venv {OWN}; {OWN}/bin/pip install --quiet antiphon"
WAYS: Final = {
    "pip": Way(
        _VENV, f"{OWN}/bin/pip install --quiet --upgrade antiphon",
        f"rm -r {OWN}", "rm -rf .cache/pip", OWN,
    ),
    "uv tool": Way(
        "uv tool install --quiet antiphon", "uv tool upgrade --quiet antiphon",
        "uv tool uninstall antiphon", _UV, "/root/.local/share/uv/tools",
    ),
    "pipx": Way(
        "pipx install --quiet antiphon", "pipx upgrade --quiet antiphon",
        "pipx uninstall antiphon", _PIPX, "/root/.local/share/pipx/venvs",
    ),
    "uvx": Way(
        "uvx antiphon --version", "uvx antiphon@latest --version",
        "uv cache clean --quiet", _UV, "/root/.cache/uv", ("uvx", "antiphon"),
    ),
    # Debian's torch lies beside it, so the environment sees what Debian has.
    "uv pip": Way(
        f"python3 -m venv --system-site-packages {OWN}; echo \"{NO_TORCH}\" > no-torch.txt;"
        f" uv pip install --quiet --python {OWN} --override no-torch.txt antiphon",
        f"uv pip install --quiet --python {OWN} --override no-torch.txt --upgrade antiphon",
        f"rm -r {OWN} no-torch.txt", _UV, OWN,
    ),
}  # fmt: skip


@dataclass
class Spoken:
    """Seconds and megabytes of one way, as they are printed."""

    way: str
    figures: dict[str, Any] = field(default_factory=dict)

    def timed(self, name: str, began_s: float) -> None:
        self.figures[name] = round(time.monotonic() - began_s, 1)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a release publishes, and torch for processors."""
    folder = tmp_path_factory.mktemp("wheels")
    artifacts.wheels(folder)
    pin = (ROOT / "requirements-torch.txt").read_text().splitlines()[-1]
    pip("download", "--no-deps", "--dest", folder, pin)
    return folder


@pytest.fixture(scope="module")
def older(published: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the first sources that spoke from packages; version 0.1.0 did not."""
    added = ("--diff-filter=A", "--format=%H", "--", "install/pyproject.toml")
    commit = git("log", *added).decode().split()[-1]
    tree = sources(commit, tmp_path_factory.mktemp("sources") / "tree")
    release.set_version(BEFORE, tree)
    folder = tmp_path_factory.mktemp("older")
    artifacts.wheels(folder, tree)
    for torch in published.glob("torch-*.whl"):
        shutil.copy(torch, folder)
    return folder


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def debian(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Debian]:
    if why := lacks():
        pytest.skip(why)
    made = Debian(tmp_path_factory.mktemp(request.param) / "root", request.param)
    made.make()
    with made.mounted():
        made.tools()
        if made.suite == "trixie":
            made.shell("apt-get install --quiet --yes --no-install-recommends python3-torch")
        yield made
    made.remove()


@pytest.mark.parametrize("name", WAYS)
def test_a_bare_debian_speaks_is_upgraded_and_is_left_as_it_was(
    debian: Debian, name: str, published: Path, older: Path
) -> None:
    if (debian.suite == "trixie") is not (name == "uv pip"):
        pytest.skip("torch for processors is here for Debian 12's Python alone")
    way, told = WAYS[name], Spoken(name)
    debian.bring(older)
    before = debian.files()
    try:
        key = _spoke_before(debian, way, told)
        debian.bring(published)
        began_s = time.monotonic()
        debian.shell(way.upgrade)
        told.timed("upgrade_s", began_s)
        _speaks_as_new(debian, way, key, told)
    finally:
        debian.shell(f"set +e; {CLEAN}; {way.remove}; {way.left}")
        print(told)
    assert debian.files() == before


def _spoke_before(debian: Debian, way: Way, told: Spoken) -> str:
    """The older version, which keeps a lexicon for a key; returns the key."""
    began_s = time.monotonic()
    debian.shell(way.install)
    told.timed("install_s", began_s)
    assert BEFORE in debian.run(*way.up, "--version")
    key = debian.run(*way.up, "keys", "make", "reader", "--file", "keys.toml").split()[-1]
    began_s = time.monotonic()
    with _up(debian, way) as (url, _):
        told.timed("first_up_s", began_s)
        httpx.post(f"{url}/v1/audio/lexicons", json=LEXICON, headers=_by(key)).raise_for_status()
        debian.run(*way.up, "say", "--url", url, "--key", key, TEXT, "-o", "before.wav")
    return key


def _speaks_as_new(debian: Debian, way: Way, key: str, told: Spoken) -> None:
    """After an upgrade, with the store and the keys of the version before."""
    [version] = set(release.versions().values())
    assert version in debian.run(*way.up, "--version")
    began_s = time.monotonic()
    with _up(debian, way) as (url, _):
        told.timed("up_s", began_s)
        kept = httpx.get(f"{url}/v1/audio/lexicons", headers=_by(key), timeout=_ANSWER_S)
        assert [one["name"] for one in kept.json()["lexicons"]] == ["kept"]
        assert httpx.post(f"{url}/v1/audio/speech", json={"input": TEXT}).status_code == 401
        told.figures["first_sound_ms"] = round(1000 * _first_sound_s(url, key))
        began_s = time.monotonic()
        debian.run(*way.up, "say", "--url", url, "--key", key, TEXT, "-o", "tide.wav")
        told.timed("said_s", began_s)
    debian.shell(f"printf '{TEXT}\\n\\nAnd it is out.\\n' > book.txt")
    began_s = time.monotonic()
    debian.run(*way.up, "read", "book.txt", "-o", "book.opus")
    told.timed("read_s", began_s)
    told.figures["megabytes"] = debian.megabytes(way.place)
    assert (debian.root / "root/tide.wav").stat().st_size > 40_000
    assert (debian.root / "root/book.opus").stat().st_size > 2_000


def _up(debian: Debian, way: Way) -> Any:
    settings = ("env", "ANTIPHON_KEYS_FILE=keys.toml", *way.up)
    return started(debian.command(*settings, "up", "--port", "0", "--store", "store"))


def _by(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def _first_sound_s(url: str, key: str) -> float:
    """From the request to the first samples."""
    began_s = time.monotonic()
    body = {"input": TEXT, "response_format": "pcm"}
    address = f"{url}/v1/audio/speech"
    with httpx.stream("POST", address, json=body, headers=_by(key), timeout=_ANSWER_S) as answer:
        assert next(answer.iter_bytes())
        return time.monotonic() - began_s
