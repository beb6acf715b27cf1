"""Adapters beside a network's own products: names, shapes, and bits whatever the company."""

import pytest
import torch
from torch import Tensor, nn

from tests.adapters import files
from ttscommon.cluster.adapters.peft import Lora
from ttscommon.engine.nn.lora import AdapterBank
from ttscommon.engine.nn.weights import Source, same
from ttscommon.wire.errors import InvalidAdapter, UnknownAdapter

SOURCES = {
    "joined.weight": Source(("m.q_proj.weight", "m.k_proj.weight"), (96, 32)),
    "plain.weight": same("m.o_proj.weight"),
}
SIZES = {"m.q_proj": (96, 64), "m.k_proj": (32, 64), "m.o_proj": (64, 128)}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.joined = nn.Linear(64, 128, bias=False)
        self.plain = nn.Linear(128, 64, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.plain(self.joined(x))


def held(*ranks: int, fixed: bool = False) -> tuple[Net, AdapterBank]:
    """A network and its adapters: the first of rank `ranks[0]`, and so on."""
    torch.set_num_threads(1)
    net = Net().requires_grad_(False)
    bank = AdapterBank(net, SOURCES, 4, 32, roots=("", "m."), fixed=fixed)
    for slot, rank in enumerate(ranks):
        lora = Lora.parse(files(SIZES, rank, seed=slot), 32)
        bank.put(slot, bank.fitted(lora))
    return net, bank


def computed(net: Net, bank: AdapterBank, x: Tensor, ids: list[int]) -> Tensor:
    with torch.inference_mode(), bank.rows(torch.tensor(ids)):
        found: Tensor = net(x)
    return found


@pytest.mark.parametrize("fixed", [False, True])
def test_a_joined_module_gets_what_each_of_its_parts_is_adapted_by(fixed: bool) -> None:
    net, bank = held(8, 3, fixed=fixed)
    x = torch.randn(4, 64)
    pairs = Lora.parse(files(SIZES, 3, seed=1), 32).pairs
    delta = {
        name: torch.from_numpy(b @ a)
        for name, (a, b) in ((n, p.arrays()) for n, p in pairs.items())
    }
    joined = x @ (net.joined.weight + torch.cat([delta["m.q_proj"], delta["m.k_proj"]])).T
    wanted = joined @ (net.plain.weight + delta["m.o_proj"]).T
    assert (computed(net, bank, x, [2] * 4) - wanted).abs().max() < 1e-4


@pytest.mark.parametrize("ranks", [(1, 3, 8, 32), (16, 16, 4, 12)])
def test_a_rows_bits_do_not_depend_on_its_company(ranks: tuple[int, ...]) -> None:
    net, bank = held(*ranks)
    x = torch.randn(64, 64)
    ids = torch.randint(0, 5, (64,), generator=torch.Generator().manual_seed(1)).tolist()
    together = computed(net, bank, x, ids)
    for row in range(64):
        rows = [row, *(i for i in range(3))]
        among = computed(net, bank, x[rows], [ids[row], 0, 0, 0])
        assert torch.equal(among[0], together[row])
    plain = Net()(x)
    none = [row for row in range(64) if ids[row] == 0]
    assert torch.equal(together[none], plain[none])


def test_rows_may_have_several_positions() -> None:
    net, bank = held(8, 4)
    x = torch.randn(4, 2, 64)
    whole = computed(net, bank, x, [1, 0, 2, 1])
    for position in range(2):
        alone = computed(net, bank, x[:, position], [1, 0, 2, 1])
        assert torch.equal(whole[:, position], alone)


def test_names_may_begin_where_training_had_the_model_in_hand() -> None:
    net, bank = held(8)
    inner = {name.removeprefix("m."): size for name, size in SIZES.items()}
    bank.put(1, bank.fitted(Lora.parse(files(inner, 8, seed=0), 32)))
    x = torch.randn(4, 64)
    assert torch.equal(computed(net, bank, x, [1] * 4), computed(net, bank, x, [2] * 4))


@pytest.mark.parametrize(
    "sizes",
    [
        {"m.q_proj": (96, 64), "m.other": (8, 8)},
        {"m.q_proj": (96, 64), "q_proj": (96, 64)},
        {"m.q_proj": (95, 64)},
        {"m.q_proj": (96, 65)},
        {"joined": (128, 64)},
    ],
)
def test_an_adapter_of_another_model_is_refused(sizes: dict[str, tuple[int, int]]) -> None:
    _, bank = held()
    with pytest.raises(InvalidAdapter):
        bank.fitted(Lora.parse(files(sizes, 4), 32))


def test_only_what_is_held_can_be_asked_for() -> None:
    _, bank = held(8, 4)
    first, second = (files(SIZES, r, seed=s).digest for s, r in enumerate((8, 4)))
    assert (bank.row_id(first), bank.row_id(second)) == (1, 2)
    bank.put(0, bank.fitted(Lora.parse(files(SIZES, 2, seed=9), 32)))
    with pytest.raises(UnknownAdapter):
        bank.row_id(first)
