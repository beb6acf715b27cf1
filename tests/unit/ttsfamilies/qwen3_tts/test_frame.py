"""One step over rows: prefill and takeover agree, and a row's bits do not depend on its batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from ttscommon.engine.nn import dense_attention, padded_rows
from ttsfamilies.base.lm.depth import Scratch
from ttsfamilies.base.sampling import Rules
from ttsfamilies.qwen3_tts.config import BackboneConfig, PredictorConfig, TalkerConfig
from ttsfamilies.qwen3_tts.frame import (
    Frame,
    History,
    decode,
    embed_positions,
    heard_so_far,
    make_frame,
    new_history,
)
from ttsfamilies.qwen3_tts.net import TalkerNet
from ttsfamilies.qwen3_tts.predictor import CodePredictor
from ttsfamilies.qwen3_tts.prompt import Heard
from ttsfamilies.qwen3_tts.sampling import Prohibitions

PAD, FRAMES = 0, 5


@dataclass
class Rows:
    """Attention of several streams, each over keys of its own, in products of its own."""

    count: int
    kept: dict[tuple[int, int], tuple[Tensor, Tensor]] = field(default_factory=dict)

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        parts = []
        for row, (query, key, value) in enumerate(zip(q, k, v, strict=True)):
            new = key[None], value[None]
            before = self.kept.get((layer, row), (new[0][:0], new[1][:0]))
            keys, values = (torch.cat(pair) for pair in zip(before, new, strict=True))
            self.kept[layer, row] = keys, values
            visible = torch.ones(1, len(keys), dtype=torch.bool)
            parts.append(dense_attention(query[None], keys, values, visible)[0])
        return torch.stack(parts)


def greedy(logits: Tensor, codebook: int, rules: Rules | None = None) -> Tensor:
    del codebook
    return (logits if rules is None else rules.applied(logits)).argmax(-1)


def run(net: TalkerNet, first: Tensor, texts: Tensor) -> tuple[Tensor, Tensor]:
    """FRAMES decode steps of streams that begin with codes `first` [rows, 16].

    Padded as the engine does it; returns codes [rows, FRAMES, 16] and the last keys of each
    layer and row.
    """
    rows = padded_rows(len(first))
    history = new_history(net, rows)
    codes = torch.zeros(rows, 16, dtype=torch.int64)
    codes[: len(first)] = first
    history = History(codes, history.seen, history.made)
    rules, cache = Prohibitions.of(net.config.talker_config), Rows(rows)
    found, penalty = [], torch.full((rows,), 1.05)
    text = torch.zeros(rows, FRAMES, dtype=torch.int64)
    text[: len(first)] = texts
    for step in range(FRAMES):
        positions = torch.full((rows,), step)
        frame = decode(net, rules, history, text[:, step], positions, cache.attend, penalty, greedy)
        history = frame.history
        found.append(history.codes[: len(first)])
    last = [keys[-1].flatten() for (_, row), (keys, _) in cache.kept.items() if row < len(first)]
    return torch.stack(found, 1), torch.stack(last)


def test_a_rows_bits_do_not_depend_on_its_batch(net: TalkerNet) -> None:
    generator = torch.Generator().manual_seed(0)
    first = torch.randint(0, 2048, (9, 16), generator=generator)
    texts = torch.randint(0, 200, (9, FRAMES), generator=generator)
    with torch.inference_mode():
        whole, states = run(net, first, texts)
        layers = len(states) // 9
        for rows in (slice(0, 1), slice(3, 5), slice(2, 9)):
            codes, kept = run(net, first[rows], texts[rows])
            assert torch.equal(codes, whole[rows])
            count = len(first[rows])
            wanted = states.view(layers, 9, -1)[:, rows]
            assert torch.equal(kept.view(layers, count, -1), wanted)


def test_the_predictors_bits_do_not_depend_on_its_batch_at_published_widths() -> None:
    predictor = PredictorConfig(2048, 1024, 3072, 1, 16, 8, 128, 1e-6, 1e6, 4)
    ids: dict[str, Any] = dict.fromkeys(
        ("codec_pad_id", "codec_bos_id", "codec_eos_token_id", "codec_think_id"), 0
    ) | dict.fromkeys(("codec_nothink_id", "codec_think_bos_id", "codec_think_eos_id"), 0)
    c = BackboneConfig(
        predictor, 3072, 2048, 6144, 1, 16, 8, 128, "silu", 128, 1e-6, 1e6, 4, 8, 8,
        codec_language_id={}, **ids,
    )  # fmt: skip
    torch.manual_seed(0)
    net = CodePredictor(c)
    torch.nn.init.normal_(net.heads)
    hidden, first = torch.randn(12, 2048), torch.randn(12, 2048)
    kept: list[Tensor] = []

    def pick(logits: Tensor, codebook: int, rules: Rules | None = None) -> Tensor:
        del codebook, rules
        kept.append(logits)
        return logits.argmax(-1)

    with torch.inference_mode():
        net(hidden, first, pick)
        whole, kept = kept, []
        net(hidden[4:8], first[4:8], pick)
    assert all(torch.equal(a[4:8], b) for a, b in zip(whole, kept, strict=True))


def test_a_successor_that_prefills_goes_on_as_its_predecessor(net: TalkerNet) -> None:
    """Frames already made are positions of a prefill; state behind them is rebuilt from codes."""
    generator = torch.Generator().manual_seed(1)
    first = torch.randint(0, 2048, (1, 16), generator=generator)
    texts = torch.randint(0, 200, (1, FRAMES), generator=generator)
    with torch.inference_mode():
        codes = run(net, first, texts)[0][0]
        made = torch.cat((first, codes[:-1]))
        visible = torch.ones(FRAMES, FRAMES, dtype=torch.bool).tril()
        x = embed_positions(
            net, texts[0], torch.full((FRAMES,), int(Heard.FRAME)), made, torch.zeros(FRAMES, 48)
        )
        states = net.hidden(
            x, torch.arange(FRAMES), lambda _, q, k, v: dense_attention(q, k, v, visible)
        )
        history = heard_so_far(net, codes[:-1])
        rules = Prohibitions.of(net.config.talker_config)
        frame = make_frame(net, rules, states[-1:], history, torch.tensor([1.05]), greedy)
    assert frame.history.codes[0].tolist() == codes[-1].tolist()
    assert int(frame.history.made) == FRAMES


def test_history_remembers_what_was_heard(net: TalkerNet) -> None:
    codes = torch.tensor([[7] + [0] * 15, [9] + [0] * 15, [7] + [1] * 15])
    history = heard_so_far(net, codes)
    assert history.seen[0].nonzero()[:, 0].tolist() == [7, 9]
    assert int(history.made) == 3
    assert history.codes[0].tolist() == codes[-1].tolist()


def ended(net: TalkerNet, hidden: Tensor, choice: int) -> Frame:
    def pick(logits: Tensor, codebook: int, rules: Rules | None = None) -> Tensor:
        del rules
        return torch.full((len(logits),), choice if codebook == 0 else 3)

    rows, rules = len(hidden), Prohibitions.of(net.config.talker_config)
    return make_frame(net, rules, hidden, new_history(net, rows), torch.ones(rows), pick)


def test_the_end_is_told_apart_from_a_frame(net: TalkerNet) -> None:
    assert ended(net, torch.zeros(2, 48), 2150).ended.tolist() == [True, True]
    assert ended(net, torch.zeros(2, 48), 5).ended.tolist() == [False, False]


def test_a_row_that_is_not_finite_is_bad_alone(net: TalkerNet) -> None:
    hidden = torch.zeros(3, 48)
    hidden[1, 4] = float("nan")
    assert ended(net, hidden, 5).bad.tolist() == [False, True, False]


def test_scratch_of_a_frame_needs_no_cache_of_the_engine(net: TalkerNet) -> None:
    c = net.predictor.decoder.config
    scratch = Scratch(c, 3, 16, torch.zeros(1))
    assert scratch.keys.shape == (c.layers, 3, 16, c.kv_heads, c.head_dim)
    assert Scratch(c, 3, 16, torch.zeros(1, dtype=torch.bfloat16)).keys.dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_under_narrow_weights_only_the_predictors_queries_stay_exact(
    config: TalkerConfig, dtype: torch.dtype
) -> None:
    with torch.device("meta"):
        net = TalkerNet(config).to(dtype)
    net.keep_float32()
    exact = [name for name, p in net.named_parameters() if p.dtype == torch.float32]
    assert exact
    assert all(name.startswith("predictor.decoder.blocks") for name in exact)
    assert {name.split(".")[-2] for name in exact} == {"qkv", "q_norm", "k_norm"}
