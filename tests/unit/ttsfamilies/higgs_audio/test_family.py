"""What a Higgs Audio checkpoint accepts and refuses, and what a step of it reads."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from structlog.testing import capture_logs

from tests.unit.ttsfamilies.higgs_audio.tiny import parts, tiny
from ttscommon.engine.checkpoint import dump_json
from ttscommon.wire.errors import BadRequest, TextTooLong
from ttscommon.wire.fields import Derived
from ttscommon.wire.messages import Reference, Sampling, SpeechRequest, Turn
from ttscommon.wire.pieces import Text
from ttsfamilies.base.lm.turns import TurnsPrompt
from ttsfamilies.higgs_audio.net import load_config, load_defaults
from ttsfamilies.higgs_audio.synthetic import SECOND, THIRD, write_checkpoint
from ttsfamilies.talkers import load

SOUND = Reference("0" * 16 + "-" + "0" * 64)
CODES = {"codes": np.arange(15, dtype=np.int16).reshape(5, 3)}


def prompt(
    kind: str = SECOND, text: str = "Hello.", sounds: Any = (), **changes: Any
) -> TurnsPrompt:
    request = SpeechRequest("r", "m", "", "", **changes)
    prepared = tiny(kind=kind).prepare(request, Derived(None, sounds))
    (found,) = prepared.read([Text(text)], final=True)
    return found


def test_a_scene_is_a_part_of_what_others_may_begin_with() -> None:
    plain, scene = prompt(), prompt(instructions="A quiet room.")
    assert {128_018, 128_019} <= set(scene.text.tolist())
    assert scene.turns - plain.turns == len(scene.text) - len(plain.text)


def test_turns_without_sound_and_several_of_the_third_version_are_refused() -> None:
    turns = (Turn(0, "Hi.", SOUND), Turn(0, "Odd."))
    with pytest.raises(BadRequest, match="recording of every turn"):
        prompt(turns=turns, sounds=[CODES, None])
    with pytest.raises(BadRequest, match="one recording"):
        prompt(THIRD, turns=turns, sounds=[CODES, CODES])
    with pytest.raises(BadRequest, match="cannot clone"):
        tiny().derive(b"")


def test_frames_are_limited_by_the_text_by_what_is_asked_for_and_by_room() -> None:
    short, long = prompt(), prompt(text="Hello. " * 9)
    assert 50 < short.frames < long.frames
    assert prompt(sampling=Sampling(max_new_tokens=7)).frames == 7 + 2
    most = prompt(sampling=Sampling(max_new_tokens=60_000))
    assert most.frames == 2048 - most.length
    with pytest.raises(TextTooLong, match="256"):
        prompt(text="odd " * 300)


def test_a_checkpoint_says_how_codes_are_drawn(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, codebooks=3)
    found = load_defaults(tmp_path, load_config(tmp_path))
    assert (found.temperature, found.top_p, found.ras_win_len) == (0.7, 0.95, 7)
    dump_json(tmp_path / "generation_config.json", {"temperature": 0.3, "ras_win_len": 0})
    found = load_defaults(tmp_path, load_config(tmp_path))
    assert (found.temperature, found.ras_win_len) == (0.3, 0)


@pytest.mark.parametrize(("kind", "warned"), [(SECOND, 0), (THIRD, 1)])
def test_weights_for_research_are_said_to_be_so_at_the_start(
    tmp_path: Path, kind: str, warned: int
) -> None:
    write_checkpoint(tmp_path, kind=kind, codebooks=3)
    with capture_logs() as logs:
        load("m", tmp_path)
    assert [log["event"] for log in logs].count("weights.research_only") == warned


def test_a_step_reads_each_weight_of_sound_once_and_none_of_text() -> None:
    net, read = parts()[0], Counter[str]()
    names = {module: name for name, module in net.named_modules() if hasattr(module, "weight")}
    hooks = [
        module.register_forward_hook(lambda of, *_: read.update([names[of]])) for module in names
    ]
    rows = torch.zeros(2, 3, dtype=torch.int64)
    hidden = net.step(rows, torch.arange(2), lambda _, q, k, v: q)
    net.logits(hidden)
    for hook in hooks:
        hook.remove()
    assert set(read.values()) == {1}
    networks = [name for name in read if ".mlp." in name or "mlp_norm" in name]
    assert networks
    assert all(name.startswith("backbone.sound.") for name in networks)
