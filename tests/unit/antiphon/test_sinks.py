"""Speech lands in files, pipes and players."""

from __future__ import annotations

import io
import wave
from pathlib import Path

import pytest

from antiphon.sinks import NoPlayer, Player, PlayerFailed, RawOutput, WavFile, sinks

PCM = bytes(range(256)) * 4


def test_a_wav_carries_its_exact_length(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    sink = WavFile(path)
    sink.open(16_000)
    sink.write(PCM)
    sink.write(PCM)
    sink.close()
    with wave.open(str(path)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16_000, 1, 2)
        assert file.readframes(file.getnframes()) == PCM * 2


def test_a_wav_that_was_never_begun_leaves_no_file(tmp_path: Path) -> None:
    WavFile(tmp_path / "a.wav").close()
    assert list(tmp_path.iterdir()) == []


def test_raw_samples_pass_unchanged() -> None:
    stream = io.BytesIO()
    sink = RawOutput(stream)
    sink.open(16_000)
    sink.write(PCM)
    sink.close()
    assert stream.getvalue() == PCM


def test_a_player_gets_the_samples_and_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "aplay"
    script.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\ncat > {tmp_path}/heard\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    sink = Player()
    sink.open(16_000)
    sink.write(PCM)
    sink.close()
    assert (tmp_path / "heard").read_bytes() == PCM
    assert "-r 16000" in (tmp_path / "arguments").read_text()


def test_a_player_that_quits_does_not_stop_the_speech(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "aplay"
    script.write_text("#!/bin/sh\nexit 0\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    sink = Player()
    sink.open(16_000)
    for _ in range(1000):
        sink.write(PCM)
    sink.close()


def test_a_player_that_cannot_play_is_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "aplay"
    script.write_text("#!/bin/sh\necho no card >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    sink = Player()
    sink.open(16_000)
    with pytest.raises(PlayerFailed, match="aplay could not play: no card"):
        sink.close()


def test_the_output_chooses_the_sinks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [type(sink) for sink in sinks("-", play=False)] == [RawOutput]
    assert [type(sink) for sink in sinks(str(tmp_path / "a.wav"), play=False)] == [WavFile]
    with pytest.raises(NoPlayer, match=r"-o out\.wav"):
        sinks(None, play=False)
