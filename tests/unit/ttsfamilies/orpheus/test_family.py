"""What an Orpheus checkpoint accepts, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from talker.engine.engine import Engine
from talker.synthesis import synthesise
from tests.unit.ttsfamilies.orpheus.tiny import tiny
from ttscommon.engine.checkpoint import dump_json
from ttscommon.process.metrics import Metrics
from ttscommon.wire.errors import BadRequest, NothingToSay, TextTooLong, UnknownVoice
from ttscommon.wire.messages import Reference, Sampling, SpeechRequest
from ttscommon.wire.pieces import Text
from ttsfamilies.base.lm.request import IdsPrompt
from ttsfamilies.base.lm.tokenizer import TextTokenizer
from ttsfamilies.orpheus.family import (
    END_SPEECH,
    FIRST_AUDIO,
    PASSAGE_TOKENS,
    SPOKEN,
    load_net,
)
from ttsfamilies.orpheus.synthetic import TINY, write_checkpoint


def request(**changes: Any) -> SpeechRequest:
    return SpeechRequest("r", "m", **{"voice": "tara", "text": ""} | changes)


def test_a_small_cache_makes_room_for_prompt_and_speech() -> None:
    family = tiny()
    (whole,) = family.prepare(request()).read([Text("Hello.")], final=True)
    family.fit(56)
    (found,) = family.prepare(request()).read([Text("Hello.")], final=True)
    assert found.frames == (56 - len(found.ids)) // 7 < whole.frames


def test_tokens_ask_for_whole_frames() -> None:
    for tokens, frames in ((2, 1), (21, 3), (27, 3), (10_000, 12)):
        asked = request(sampling=Sampling(max_new_tokens=tokens))
        (prompt,) = tiny().prepare(asked).read([Text("Hello.")], final=True)
        assert prompt.frames == frames


def test_what_cannot_be_spoken_is_refused() -> None:
    with pytest.raises(UnknownVoice, match="tara"):
        tiny().prepare(request(voice="nobody"))
    with pytest.raises(BadRequest, match="clone"):
        tiny().prepare(request(reference=Reference("a", "b")))
    with pytest.raises(NothingToSay):
        list(tiny().prepare(request()).read([Text("... !")], final=True))
    with pytest.raises(TextTooLong, match="2048"):
        list(tiny().prepare(request()).read([Text(("\U0001d49c" * 39 + " ") * 40)], final=True))


def test_a_long_text_is_spoken_in_passages_of_whole_sentences_however_it_came() -> None:
    text = "It's the end of the world, and you're singing to the user. " * 20
    whole = list(tiny().prepare(request()).read([Text(text)], final=True))
    assert len(whole) > 2
    assert all(len(prompt.ids) <= PASSAGE_TOKENS + 8 for prompt in whole)
    prepared = tiny().prepare(request())
    pieces: list[IdsPrompt] = []
    for at in range(0, len(text), 37):
        pieces += prepared.read([Text(text[at : at + 37])], final=False)
    assert 0 < len(pieces) < len(whole)
    assert [*pieces, *prepared.read([], final=True)] == whole


def test_each_passage_says_what_it_says_alone_also_when_resumed() -> None:
    """Of two equal prompts the second says the same, where nothing is left to chance."""
    text = "It's the end of the world, and you're singing to the user. " * 12
    asked = request(text=text, sampling=Sampling(temperature=0.0))
    first, second, *_ = tiny().prepare(asked).read([Text(text)], final=True)
    assert first == second
    (whole,) = spoken([asked])
    assert whole["passage"].tolist()[:24] == [0] * 12 + [1] * 12
    assert whole["codes"][:12].tolist() == whole["codes"][12:24].tolist()
    for at in (11, 12, 17):
        restored = {name: array[:at] for name, array in whole.items()}
        (rest,) = spoken([asked], {"r": restored})
        assert rest["codes"].tolist() == whole["codes"][at:].tolist()


def spoken(requests: list[SpeechRequest], restored: Any = None) -> list[Any]:
    engine = Engine(tiny(), slots=2, blocks=400, metrics=Metrics())
    return [one.arrays for one in synthesise(engine, requests, restored)]


def test_min_p_leaves_out_what_is_unlikely_and_is_a_parameter_of_the_model() -> None:
    assert [parameter.name for parameter in tiny().spec.parameters] == ["min_p"]
    texts = {"text": "Odd.", "seed": 5, "sampling": Sampling(temperature=2.0)}
    cold = texts | {"sampling": Sampling(temperature=0.0)}
    asked = (texts, texts | {"extra_params": {"min_p": 1.0}}, cold)
    plain, picky, greedy = (spoken([request(**told)])[0] for told in asked)
    assert picky["codes"].tolist() == greedy["codes"].tolist()
    assert plain["codes"].tolist() != greedy["codes"].tolist()


def test_control_tokens_in_a_text_are_text(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    path = tmp_path / "tokenizer.json"
    content = json.loads(path.read_text())
    most = max(content["model"]["vocab"].values())
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    content["added_tokens"] = [
        {"id": most + 1 + i, "content": name, "special": not i, **flags}
        for i, name in enumerate(("<|eot_id|>", "<custom_token_7>"))
    ]
    path.write_text(json.dumps(content))
    ids = TextTokenizer.load(tmp_path).ids("one <|eot_id|> two <custom_token_7>")
    assert max(ids) <= most


def test_a_head_of_its_own_is_read_and_a_repeated_one_is_not_needed(tmp_path: Path) -> None:
    own, repeated = tmp_path / "own", tmp_path / "repeated"
    for folder, tied in ((own, False), (repeated, True)):
        write_checkpoint(folder)
        dump_json(folder / "config.json", TINY | {"tie_word_embeddings": tied})
        tensors = load_file(folder / "model.safetensors")
        tensors["lm_head.weight"] = 2 * tensors["model.embed_tokens.weight"]
        save_file(tensors, folder / "model.safetensors")
    hidden = torch.ones(1, 36)
    one, other = (
        load_net(folder, "cpu", "float32").logits(hidden, SPOKEN) for folder in (own, repeated)
    )
    assert torch.equal(one, 2 * other)
    assert one.shape[1] == FIRST_AUDIO + 7 * 4096 - END_SPEECH
