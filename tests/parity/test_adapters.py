"""With an adapter that PEFT saved, the talker says what the official package says merged."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest
import torch

from tests.parity.adapter_cases import ADAPTERS, CASE, CHECKPOINT, AdapterCase
from tests.parity.conftest import Checkpoints
from tests.parity.material import GOLDENS, arrays
from tests.parity.offline import Loaded, loaded, open_stream
from ttscommon.cluster.adapters.peft import Files, Lora
from ttscommon.engine.nn.lora import AdapterBank
from ttsfamilies.qwen3_tts.net import TalkerNet, talker_sources

# What the loop of the comparison asks of the network.
_COMPUTING: Final = ("embed_text", "hidden", "code0_logits", "residuals")


def adapted(model: Loaded, case: AdapterCase, *, fixed: bool) -> Loaded:
    """A copy of the model in whose every product the adapter takes part, beside another one."""
    net = copy.deepcopy(model.net)
    bank = AdapterBank(
        *(net, talker_sources(net), 2, 8), roots=("", "talker.", "talker.model."), fixed=fixed
    )
    for slot, one in enumerate((ADAPTERS[0], case)):
        files = Files.read(GOLDENS / "adapters" / one.name, 1 << 20)
        bank.put(slot, bank.fitted(Lora.parse(files, 8)))
    methods = {name: _with_rows(bank, name) for name in _COMPUTING}
    net.__class__ = type("Adapted", (TalkerNet,), methods)
    return replace(model, net=net)


def _with_rows(bank: AdapterBank, name: str) -> Callable[..., Any]:
    plain = getattr(TalkerNet, name)

    def called(self: TalkerNet, x: torch.Tensor, *arguments: Any) -> Any:
        with bank.rows(torch.full((len(x),), 2)):
            return plain(self, x, *arguments)

    return called


@pytest.mark.parametrize("case", ADAPTERS, ids=[case.name for case in ADAPTERS])
@pytest.mark.parametrize(
    "fixed",
    [
        pytest.param(False, id="by groups"),
        pytest.param(True, id="in fixed shapes", marks=pytest.mark.slow),
    ],
)
def test_tokens_are_those_of_pefts_merged_weights(
    case: AdapterCase, fixed: bool, checkpoints: Checkpoints
) -> None:
    wanted = arrays("adapters")
    stream = open_stream(adapted(loaded(checkpoints[CHECKPOINT]), case, fixed=fixed), CASE)
    codes = stream.run(CASE.options["max_new_tokens"] - 1)
    assert codes.tolist() == wanted[f"{case.name}/codes"].tolist()
    states = wanted[f"{case.name}/hidden"]
    assert np.abs(torch.stack(stream.hidden).numpy() - states).max() < 1e-4


def test_each_adapter_says_something_else() -> None:
    wanted = {case.name: arrays("adapters")[f"{case.name}/codes"] for case in ADAPTERS}
    plain = arrays("talker")[f"{CASE.name}/0/codes"]
    assert all(not np.array_equal(codes, plain) for codes in wanted.values())
