"""Speech lands in files, pipes and players."""

import io
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from antiphon.sinks import (
    FileSink,
    NoPlayer,
    Player,
    PlayerFailed,
    RawOutput,
    WavFile,
    close_all,
    sinks,
)
from gateway.audio import Provenance
from gateway.audio.provenance import claims

PCM = bytes(range(256)) * 4
MAGIC = [("mp3", b"ID3"), ("opus", b"OggS"), ("flac", b"fLaC"), ("wav", b"RIFF")]
TONE = (8000 * np.sin(np.arange(2400) * 0.1)).astype("<i2").tobytes()


def test_a_file_that_was_never_begun_is_not_there(tmp_path: Path) -> None:
    FileSink(tmp_path / "a.wav", WavFile).close()
    assert list(tmp_path.iterdir()) == []


def test_raw_samples_pass_unchanged() -> None:
    stream = io.BytesIO()
    sink = RawOutput(stream)
    sink.open(16_000)
    sink.write(PCM)
    sink.close()
    assert stream.getvalue() == PCM


@pytest.fixture
def player(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Player]:
    """The sink with a program of this name and script as the only one there is."""

    def opened(script: str, name: str = "aplay") -> Player:
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
        for tool in ("sh", "cat"):
            (tmp_path / tool).symlink_to(f"/bin/{tool}")
        monkeypatch.setenv("PATH", str(tmp_path))
        sink = Player()
        sink.open(16_000)
        return sink

    return opened


def test_a_player_gets_the_samples_and_is_waited_for(
    tmp_path: Path, player: Callable[..., Player]
) -> None:
    sink = player(f'echo "$@" > {tmp_path}/arguments\ncat > {tmp_path}/heard')
    sink.write(PCM)
    sink.close()
    assert (tmp_path / "heard").read_bytes() == PCM
    assert "-r 16000" in (tmp_path / "arguments").read_text()


def test_a_player_that_quits_does_not_stop_the_speech(player: Callable[..., Player]) -> None:
    sink = player("exit 0")
    for _ in range(1000):
        sink.write(PCM)
    sink.close()


@pytest.mark.parametrize(
    ("name", "script", "said"),
    [
        ("aplay", "echo no card >&2\nexit 1", "aplay could not play: no card"),
        # It says that it did not fail.
        (
            "ffplay",
            "cat > /dev/null\necho 'x: audio open failed' >&2",
            "ffplay could not play: x: audio open failed",
        ),
    ],
)
def test_a_player_that_cannot_play_is_quoted(
    name: str, script: str, said: str, player: Callable[..., Player]
) -> None:
    sink = player(script, name)
    with pytest.raises(PlayerFailed, match=said):
        sink.close()


def test_the_output_chooses_the_sinks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [type(sink) for sink in sinks("-", play=False)] == [RawOutput]
    assert [type(sink) for sink in sinks(str(tmp_path / "a.wav"), play=False)] == [FileSink]
    with pytest.raises(NoPlayer, match=r"-o out\.wav"):
        sinks(None, play=False)


@pytest.mark.parametrize(("name", "magic"), MAGIC)
def test_a_file_is_what_its_name_says_and_tells_where_its_sound_is_from(
    tmp_path: Path, name: str, magic: bytes
) -> None:
    path = tmp_path / f"a.{name}"
    (sink,) = sinks(str(path), play=False)
    sink.open(24_000, Provenance("vesper", "Harbour Radio"))
    for _ in range(10):
        sink.write(TONE)
    sink.close()
    assert path.read_bytes().startswith(magic)
    samples, rate = soundfile.read(path)
    assert rate in (24_000, 48_000)
    assert len(samples) / rate == pytest.approx(1.0, abs=0.11)
    assert np.abs(samples).max() > 0.1
    (found,) = claims(path.read_bytes())
    assert (found["AISystemUsed"], found["GeneratedBy"]) == ("Antiphon vesper", "Harbour Radio")


@pytest.mark.parametrize(
    ("name", "said", "magic"),
    [("a", None, b"RIFF"), ("a.bin", "flac", b"fLaC"), ("a.ogg", None, b"OggS")],
)
def test_the_format_may_be_said_apart_from_the_name(
    tmp_path: Path, name: str, said: str | None, magic: bytes
) -> None:
    (sink,) = sinks(str(tmp_path / name), play=False, format_=said)
    sink.open(24_000)
    sink.write(TONE)
    sink.close()
    assert (tmp_path / name).read_bytes().startswith(magic)


def test_every_sink_is_closed_although_one_fails(tmp_path: Path) -> None:
    class Broken(RawOutput):
        def close(self) -> None:
            raise PlayerFailed("broken")

    written = FileSink(tmp_path / "a.wav", WavFile)
    written.open(16_000)
    written.write(PCM)
    with pytest.raises(PlayerFailed, match="broken"):
        close_all([written, Broken(io.BytesIO())])
    with wave.open(str(tmp_path / "a.wav")) as file:
        assert file.getnframes() == len(PCM) // 2
