"""What goes wrong, by name. Each is a coroutine that returns when the stack is whole again."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.chaos.listener import Heard, listen, listen_by_command
from tests.chaos.theatre import Theatre

CUT_S: Final = 2.0
DELAY_S: Final = 0.2
LONG_STOP_S: Final = 40.0
SHORT_STOP_S: Final = 6.0

Listen = Callable[[str, int], Awaitable[Heard]]
Inflict = Callable[[Theatre, random.Random], Awaitable[None]]


@dataclass(frozen=True)
class Fault:
    """A fault, when it strikes, who listens, and the stage it needs: see theatre.theatre."""

    inflict: Inflict
    gateways: int = 1
    brokers: int = 1
    proxied: bool = False
    settings: dict[str, str] = field(default_factory=dict)
    listen: Listen = listen
    between_s: tuple[float, float] = (0.1, 2.0)

    @property
    def needs(self) -> tuple[object, ...]:
        """Faults that need the same may share a stack."""
        return (self.gateways, self.brokers, self.proxied, self.settings)


def kill(stage: str) -> Inflict:
    """kill -9 one process of `stage`, which is back half a second later."""

    async def inflict(theatre: Theatre, dice: random.Random) -> None:
        name = dice.choice(theatre.names(stage))
        starts = theatre.children[name].starts
        theatre.children[name].kill()
        await theatre.reborn(name, starts)

    return inflict


async def kill_serving_gateway(theatre: Theatre, dice: random.Random) -> None:
    """kill -9 the gateway that the front door leads to."""
    name = theatre.names("gateway")[0]
    starts = theatre.children[name].starts
    theatre.children[name].kill()
    await theatre.reborn(name, starts)


def freeze(stage: str, for_s: float) -> Inflict:
    """SIGSTOP, and a zombie wakes up when others have long done its work."""

    async def inflict(theatre: Theatre, dice: random.Random) -> None:
        name = dice.choice(theatre.names(stage))
        theatre.send(name, signal.SIGSTOP)
        await asyncio.sleep(for_s)
        theatre.send(name, signal.SIGCONT)

    return inflict


def network(stage: str, trouble: str) -> Inflict:
    """Trouble between one process of `stage` and the broker."""

    async def inflict(theatre: Theatre, dice: random.Random) -> None:
        proxy = theatre.proxies[dice.choice(theatre.names(stage))]
        match trouble:
            case "cut":
                await proxy.cut(CUT_S)
            case "stall":
                await proxy.stall(CUT_S)
            case "delay":
                await proxy.slow(DELAY_S, CUT_S)

    return inflict


async def roll(theatre: Theatre, dice: random.Random) -> None:
    """SIGTERM to every service, one after another, each back before the next goes."""
    names = [*theatre.names("vocoder"), *theatre.names("talker"), *theatre.names("gateway")]
    for name in names:
        starts = theatre.children[name].starts
        theatre.send(name, signal.SIGTERM)
        await theatre.reborn(name, starts)


async def nothing(theatre: Theatre, dice: random.Random) -> None:
    """What an undisturbed run looks like."""


# A store so small that the audio of one run does not fit.
_TINY_STORE: Final = {"ANTIPHON_BUS__MAX_LOG_BYTES": str(1 << 20)}

FAULTS: Final[Mapping[str, Fault]] = {
    "none": Fault(nothing),
    "kill talker": Fault(kill("talker")),
    "kill vocoder": Fault(kill("vocoder")),
    "kill gateway": Fault(kill_serving_gateway, gateways=2),
    "kill gateway under say": Fault(
        kill_serving_gateway, gateways=2, listen=listen_by_command, between_s=(1.5, 3.0)
    ),
    "kill the only gateway": Fault(kill("gateway")),
    "kill the only gateway under say": Fault(
        kill("gateway"), listen=listen_by_command, between_s=(1.5, 3.0)
    ),
    "kill broker": Fault(kill("broker")),
    "kill one of three brokers": Fault(kill("broker"), brokers=3, between_s=(0.8, 2.0)),
    "ask while one of three brokers is gone": Fault(
        kill("broker"), brokers=3, between_s=(0.0, 0.05)
    ),
    "stop talker": Fault(freeze("talker", LONG_STOP_S)),
    "stop vocoder": Fault(freeze("vocoder", LONG_STOP_S)),
    "stop talker shortly": Fault(freeze("talker", SHORT_STOP_S)),
    "stop vocoder shortly": Fault(freeze("vocoder", SHORT_STOP_S)),
    "rolling restart": Fault(roll, gateways=2),
    "cut talker off": Fault(network("talker", "cut"), proxied=True),
    "cut vocoder off": Fault(network("vocoder", "cut"), proxied=True),
    "cut gateway off": Fault(network("gateway", "cut"), proxied=True),
    "stall talker's network": Fault(network("talker", "stall"), proxied=True),
    "stall vocoder's network": Fault(network("vocoder", "stall"), proxied=True),
    "delay talker's network": Fault(network("talker", "delay"), proxied=True),
    "delay vocoder's network": Fault(network("vocoder", "delay"), proxied=True),
    "full store": Fault(nothing, settings=_TINY_STORE),
    "full store, kill vocoder": Fault(kill("vocoder"), settings=_TINY_STORE),
}
