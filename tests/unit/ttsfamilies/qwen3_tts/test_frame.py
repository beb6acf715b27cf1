"""One step over rows: prefill and takeover agree, and a row's bits do not depend on its batch."""

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.unit.ttsfamilies.qwen3_tts.test_on_a_device import KINDS
from tests.unit.ttsfamilies.qwen3_tts.tiny import tiny
from ttscommon.engine.nn import dense_attention, padded_rows
from ttsfamilies.base.kernels.slots import FED, move_on
from ttsfamilies.base.lm.codes import Scratch
from ttsfamilies.base.sampling import Rules
from ttsfamilies.qwen3_tts.config import BackboneConfig, StackConfig, TalkerConfig
from ttsfamilies.qwen3_tts.net import CodePredictor, TalkerNet, choose_codes, embed_positions
from ttsfamilies.qwen3_tts.prompt import Heard
from ttsfamilies.qwen3_tts.stream import Prohibitions

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
    rows, c = padded_rows(len(first)), net.config.talker_config
    codes, text = torch.zeros(rows, 16, dtype=torch.int64), torch.zeros(rows, FRAMES).long()
    codes[: len(first)], text[: len(first)] = first, texts
    seen = torch.zeros(rows, c.vocab_size, dtype=torch.bool)
    rules, cache, found, penalty = Prohibitions.of(c), Rows(rows), [], torch.full((rows,), 1.05)
    for step in range(FRAMES):
        at = torch.full((rows,), step)
        hidden = net.hidden(net.step_input(net.embed_frame(codes), text[:, step]), at, cache.attend)
        _, codes = choose_codes(net, rules, hidden, seen, at, penalty, greedy)
        seen = seen.scatter(1, codes[:, :1], True)
        found.append(codes[: len(first)])
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
    stack: dict[str, Any] = {
        "num_hidden_layers": 1,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "num_code_groups": 4,
    }
    predictor = StackConfig(vocab_size=2048, hidden_size=1024, intermediate_size=3072, **stack)
    ids: dict[str, Any] = dict.fromkeys(
        ("codec_pad_id", "codec_bos_id", "codec_eos_token_id", "codec_think_id"), 0
    ) | dict.fromkeys(("codec_nothink_id", "codec_think_bos_id", "codec_think_eos_id"), 0)
    c = BackboneConfig(
        code_predictor_config=predictor,
        vocab_size=3072,
        hidden_size=2048,
        intermediate_size=6144,
        hidden_act="silu",
        max_position_embeddings=128,
        text_vocab_size=8,
        text_hidden_size=8,
        codec_language_id={},
        **stack,
        **ids,
    )
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
        seen = torch.zeros(1, net.config.talker_config.vocab_size, dtype=torch.bool)
        seen[0, codes[:-1, 0]] = True
        rules = Prohibitions.of(net.config.talker_config)
        told = seen, torch.tensor([FRAMES - 1]), torch.tensor([1.05])
        _, frame = choose_codes(net, rules, states[-1:], *told, greedy)
    assert frame[0].tolist() == codes[-1].tolist()


def test_the_end_is_no_frame_and_a_row_that_is_not_finite_is_bad_alone() -> None:
    """Four rows: a frame, the end, one that was over, one that is not finite."""
    c = tiny().spec
    state = {n: torch.zeros(5, *f.shape, dtype=KINDS[f.dtype]) for n, f in c.state.items()}
    state["over"][2] = 1
    codes, logits = torch.full((4, 4), 3), torch.zeros(4, 9)
    codes[1, 0], logits[3, 4] = 7, torch.nan
    told = torch.arange(4), 4, torch.full((4,), FED), torch.ones(4).bool()
    moved = move_on(state, *told, logits, codes, 7)
    assert moved.gained.tolist() == [1, 0, 0, 1]
    assert moved.ended.tolist() == [False, True, False, False]
    assert moved.bad.tolist() == [False, False, False, True]
    assert state["frame"].tolist() == [1, 0, 0, 1, 0]
    assert state["told"].tolist() == [1, 1, 0, 1, 0]
    assert state["over"].tolist() == [0, 1, 1, 0, 0]
    assert state["seen"].nonzero().tolist() == [[0, 3], [3, 3]]


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
