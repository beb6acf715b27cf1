"""What a Qwen3-Omni checkpoint and its requests may hold, and what they may not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.ttsfamilies.qwen3_omni.tiny import MOST_FRAMES, tiny
from ttscommon.wire.errors import BadRequest, NothingToSay, TextTooLong
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Text
from ttscommon.wire.tensors import FloatRows, RowKind
from ttsfamilies.qwen3_omni.codec import load_config as load_codec_config
from ttsfamilies.qwen3_omni.config import load_config
from ttsfamilies.qwen3_omni.family import Qwen3Omni
from ttsfamilies.qwen3_omni.request import Given, OmniPrepared
from ttsfamilies.qwen3_omni.synthetic import config as written


def load(folder: Path, content: dict[str, Any]) -> Any:
    (folder / "config.json").write_text(json.dumps(content))
    return load_config(folder)


def test_the_published_sizes_of_heads_and_experts_are_read(tmp_path: Path) -> None:
    found = load(tmp_path, written(500, published=True)).talker_config.text_config
    assert (found.num_experts, found.num_experts_per_tok) == (128, 6)
    assert found.sections == (24, 20, 20)


def test_the_codec_lags_by_555_samples(tmp_path: Path) -> None:
    load(tmp_path, written(500))
    found = load_codec_config(tmp_path)
    assert (found.lag_samples, found.frame_samples) == (555, 1920)


@pytest.fixture(scope="module")
def model() -> Qwen3Omni:
    return tiny()


@pytest.fixture
def prepared(model: Qwen3Omni) -> OmniPrepared:
    return model.prepare(SpeechRequest("r", "m", "slt", "", text_final=False, rows=True))


def rows(count: int, kind: RowKind = "said", width: int = 24) -> FloatRows:
    return FloatRows.of(kind, np.ones((count, width), np.float32))


def read(prepared: OmniPrepared, *pieces: FloatRows | Text, final: bool = False) -> list[Given]:
    return list(prepared.read(pieces, final=final))


def test_rows_are_passed_on_as_they_came(prepared: OmniPrepared) -> None:
    (context,) = read(prepared, rows(3, "context"))
    (said,) = read(prepared, rows(2))
    (end,) = read(prepared, final=True)
    assert [(one.kind, len(one.rows), one.complete) for one in (context, said, end)] == [
        ("context", 3, False),
        ("said", 2, False),
        ("said", 0, True),
    ]


def test_an_instruction_is_context_before_the_rows(model: Qwen3Omni) -> None:
    request = SpeechRequest("r", "m", "slt", "", rows=True, instructions="Be odd.")
    given = read(model.prepare(request), rows(1))
    assert [one.kind for one in given] == ["context", "said"]
    assert len(given[0].rows) > 5


@pytest.mark.parametrize(
    ("error", "spoil"),
    [
        (BadRequest, lambda prepared: read(prepared, rows(1, width=23))),
        (BadRequest, lambda prepared: read(prepared, _endless())),
        (BadRequest, lambda prepared: read(prepared, rows(1), rows(1, "context"))),
        (BadRequest, lambda prepared: read(prepared, rows(1), rows(1, "media"))),
        (TextTooLong, lambda prepared: read(prepared, rows(MOST_FRAMES + 1))),
        (TextTooLong, lambda prepared: [read(prepared, rows(500, "media")) for _ in range(70)]),
        (NothingToSay, lambda prepared: read(prepared, rows(2, "context"), final=True)),
        (NothingToSay, lambda prepared: read(prepared, final=True)),
    ],
)
def test_rows_that_cannot_be_spoken_are_refused(
    prepared: OmniPrepared, error: type[BadRequest], spoil: Callable[[OmniPrepared], object]
) -> None:
    with pytest.raises(error):
        spoil(prepared)


def test_text_and_rows_are_not_mixed(prepared: OmniPrepared) -> None:
    read(prepared, Text("One word and "))
    with pytest.raises(BadRequest, match="not both"):
        read(prepared, rows(1))


def _endless() -> FloatRows:
    return FloatRows.of("said", np.full((1, 24), np.inf, np.float32))
