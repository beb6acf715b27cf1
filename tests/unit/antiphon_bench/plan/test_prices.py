"""What a fleet costs: whole machines, each filled as far as it goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon_bench.plan.errors import BadPrices
from antiphon_bench.plan.prices import bill, read_prices
from antiphon_bench.plan.shapes import Shape

LIST = """
currency = "EUR"
hours = 100
[machine.small]
price_per_hour = 0.1
cores = 4
[machine.gpu]
price_per_hour = 2.0
cores = 16
gpus = 1
[needs.gateway]
machine = "small"
[needs.broker]
machine = "small"
cores = 2
[needs.talker]
machine = "gpu"
gpus = 0.6
[needs.vocoder]
machine = "gpu"
gpus = 0.3
"""


def listed(tmp_path: Path, text: str = LIST) -> Path:
    path = tmp_path / "prices.toml"
    path.write_text(text)
    return path


def test_machines_are_filled_and_paid_whole(tmp_path: Path) -> None:
    prices = read_prices(listed(tmp_path))
    found = bill(prices, Shape(gateways=3, talkers=2, vocoders=3, brokers=1))
    # 3 x 1 + 2 cores on machines of 4; 0.6 + 0.3, 0.6 + 0.3, 0.3 of a GPU.
    assert found.machines == {"small": 2, "gpu": 3}
    assert found.monthly == pytest.approx(100 * (2 * 0.1 + 3 * 2.0))
    assert found.currency == "EUR"


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ('currency = "EUR"', "", "currency"),
        ("price_per_hour = 2.0", "price_per_hour = -1", "price_per_hour"),
        ("[needs.talker]", "[needs.orator]", "lacks talker"),
        ('machine = "small"', 'machine = "big"', "not listed"),
        ("gpus = 0.6", "gpus = 6", "does not fit"),
        ("[machine.gpu]", "[machine.gpu", "prices.toml"),
    ],
)
def test_a_list_that_cannot_be_used_is_refused(
    tmp_path: Path, before: str, after: str, reason: str
) -> None:
    with pytest.raises(BadPrices, match=reason):
        read_prices(listed(tmp_path, LIST.replace(before, after, 1)))


def test_a_list_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadPrices, match=r"nowhere\.toml"):
        read_prices(tmp_path / "nowhere.toml")
