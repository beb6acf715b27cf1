"""Costs of a fleet, from a list of prices."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import msgspec

from antiphon_bench.plan.errors import BadPrices
from antiphon_bench.plan.shapes import Shape

ROLES: Final = ("gateway", "talker", "vocoder", "broker")

Price = Annotated[float, msgspec.Meta(ge=0)]
Amount = Annotated[float, msgspec.Meta(gt=0)]


class Machine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kind of machine that can be rented."""

    price_per_hour: Price
    cores: Amount
    gpus: Price = 0.0


class Need(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one process takes, and of which kind of machine."""

    machine: str
    cores: Price = 1.0
    gpus: Price = 0.0


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A list of prices. hours: of a month."""

    currency: str
    machine: dict[str, Machine]
    needs: dict[str, Need]
    hours: Amount = 730.0


class Bill(msgspec.Struct, frozen=True):
    """Machines by kind, and what they cost in a month."""

    machines: dict[str, int]
    monthly: float
    currency: str


def read_prices(path: Path) -> Prices:
    """A list in TOML; raises BadPrices."""
    try:
        prices = msgspec.convert(tomllib.loads(path.read_text()), Prices)
    except OSError as error:
        raise BadPrices(path, error.strerror or "it cannot be read") from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise BadPrices(path, str(error)) from error
    _check(path, prices)
    return prices


def _check(path: Path, prices: Prices) -> None:
    if missing := set(ROLES) - prices.needs.keys():
        raise BadPrices(path, f"needs lacks {', '.join(sorted(missing))}")
    if unknown := prices.needs.keys() - set(ROLES):
        raise BadPrices(path, f"there is no {', '.join(sorted(unknown))} in a fleet")
    for role, need in prices.needs.items():
        machine = prices.machine.get(need.machine)
        if machine is None:
            raise BadPrices(path, f"needs.{role} names a machine that is not listed")
        if need.cores > machine.cores or need.gpus > machine.gpus:
            raise BadPrices(path, f"a {role} does not fit on a machine {need.machine!r}")


def bill(prices: Prices, shape: Shape) -> Bill:
    """The machines for a fleet: each takes what fits, the largest first."""
    counts = counted(shape)
    machines = {
        name: _machines(machine, [
            need
            for role, need in prices.needs.items() if need.machine == name
            for _ in range(counts[role])
        ])
        for name, machine in prices.machine.items()
    }  # fmt: skip
    hourly = math.fsum(
        machines[name] * machine.price_per_hour for name, machine in prices.machine.items()
    )
    return Bill(machines, round(hourly * prices.hours, 2), prices.currency)


def counted(shape: Shape) -> Mapping[str, int]:
    """Processes by role."""
    return {
        "gateway": shape.gateways,
        "talker": shape.talkers,
        "vocoder": shape.vocoders,
        "broker": shape.brokers,
    }


def _machines(machine: Machine, needs: list[Need]) -> int:
    left: list[list[float]] = []
    for need in sorted(needs, key=lambda one: (one.gpus, one.cores), reverse=True):
        for room in left:
            if need.cores <= room[0] + 1e-9 and need.gpus <= room[1] + 1e-9:
                break
        else:
            room = [machine.cores, machine.gpus]
            left.append(room)
        room[0] -= need.cores
        room[1] -= need.gpus
    return len(left)
