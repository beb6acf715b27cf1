"""What goes wrong, by name. Each is a coroutine that returns when the stack is whole again."""

import asyncio
import random
import resource
import shutil
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import nats.errors
from nats.aio.client import Client

from tests.chaos.leaders import leaders_of, step_down
from tests.chaos.listener import LONG_TEXT, TEXT, Heard, listen, listen_by_command
from tests.chaos.poisoned_talker import POISON
from tests.chaos.stack import ChaosStack
from ttscommon.bus.setup import prepare

CUT_S: Final = 2.0
DELAY_S: Final = 0.2
LONG_STOP_S: Final = 40.0
SHORT_STOP_S: Final = 6.0
SWALLOW_S: Final = 8.0
FULL_S: Final = 5.0

Listen = Callable[[str, int, str], Awaitable[Heard]]
Inflict = Callable[[ChaosStack, random.Random], Awaitable[None]]


@dataclass(frozen=True)
class Fault:
    """A fault, the `stack` it needs (see stack.chaos_stack), what is spoken, who listens, when it
    strikes. logged: what was spoken is in the logs afterwards.
    """

    inflict: Inflict
    stack: Mapping[str, Any] = field(default_factory=dict)
    text: str = TEXT
    listen: Listen = listen
    between_s: tuple[float, float] = (0.1, 2.0)
    logged: bool = True


def kill(stage: str) -> Inflict:
    """kill -9 one process of `stage`, which is back half a second later."""

    async def inflict(stack: ChaosStack, dice: random.Random) -> None:
        await stack.crash(dice.choice(stack.names(stage)))

    return inflict


async def kill_serving_gateway(stack: ChaosStack, dice: random.Random) -> None:
    """kill -9 the gateway that the front door leads to."""
    await stack.crash(stack.names("gateway")[0])


async def kill_gateway_and_vocoder(stack: ChaosStack, dice: random.Random) -> None:
    """kill -9 the serving gateway and a vocoder at once: who knew how far it was is gone."""
    await stack.crash(stack.names("gateway")[0], dice.choice(stack.names("vocoder")))


def freeze(stage: str, for_s: float) -> Inflict:
    """SIGSTOP, and a zombie wakes up when others have long done its work."""

    async def inflict(stack: ChaosStack, dice: random.Random) -> None:
        name = dice.choice(stack.names(stage))
        stack.send(name, signal.SIGSTOP)
        await asyncio.sleep(for_s)
        stack.send(name, signal.SIGCONT)

    return inflict


def stop_broker(for_s: float, besides: str = "") -> Inflict:
    """SIGSTOP to the broker that leads the log of codes. `besides`: a stage to kill one of."""

    async def inflict(stack: ChaosStack, dice: random.Random) -> None:
        leader = (await leaders_of(stack.bus))["CODES"]
        victims = [dice.choice(stack.names(besides))] if besides else []
        async with stack.restarted(*victims):
            stack.send(leader, signal.SIGSTOP)
            try:
                for victim in victims:
                    stack.children[victim].kill()
                await asyncio.sleep(for_s)
            finally:
                stack.send(leader, signal.SIGCONT)

    return inflict


async def wipe_store(stack: ChaosStack, dice: random.Random) -> None:
    """kill -9 the only broker, and its disk is lost; an operator makes the streams again."""
    async with stack.restarted("broker"):
        stack.children["broker"].kill()
        shutil.rmtree(stack.broker_store)
    await asyncio.sleep(_UNSEEN_S)
    await prepare(stack.bus, "create")


async def fill_disk(stack: ChaosStack, dice: random.Random) -> None:
    """The broker cannot write for a while; then there is room, and its probe restarts it."""
    pid = stack.children["broker"].pid
    assert pid is not None
    async with stack.restarted("broker"):
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
        await asyncio.sleep(FULL_S)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
        stack.send("broker", signal.SIGTERM)


async def swallow(stack: ChaosStack, dice: random.Random) -> None:
    """Every packet between the services and one of three brokers is lost for a while."""
    proxy = stack.proxies[dice.choice(stack.names("broker"))]
    await proxy.stall(SWALLOW_S)


def network(stage: str, trouble: str) -> Inflict:
    """Trouble between one process of `stage` and the broker."""

    async def inflict(stack: ChaosStack, dice: random.Random) -> None:
        proxy = stack.proxies[dice.choice(stack.names(stage))]
        match trouble:
            case "cut":
                await proxy.cut(CUT_S)
            case "stall":
                await proxy.stall(CUT_S)
            case "delay":
                await proxy.slow(DELAY_S, CUT_S)

    return inflict


def lose_node(stage: str, leading: str) -> Inflict:
    """kill -9 a broker and a worker together. `leading`: what the broker leads; any if empty."""

    async def inflict(stack: ChaosStack, dice: random.Random) -> None:
        leaders = await leaders_of(stack.bus)
        broker = leaders[leading] if leading else dice.choice(stack.names("broker"))
        await stack.crash(broker, dice.choice(stack.names(stage)))

    return inflict


async def roll(stack: ChaosStack, dice: random.Random) -> None:
    """SIGTERM to every service, one after another, each back before the next goes."""
    for name in [*stack.names("vocoder"), *stack.names("talker"), *stack.names("gateway")]:
        async with stack.restarted(name):
            stack.send(name, signal.SIGTERM)


async def nothing(stack: ChaosStack, dice: random.Random) -> None:
    """What an undisturbed run looks like."""


async def poison(stack: ChaosStack, dice: random.Random) -> None:
    """A request that crashes its talker, and must end without taking all of them with it."""
    starts = sum(stack.children[name].starts for name in stack.names("talker"))
    heard = await listen(stack.url, 0, POISON)
    if "every worker that spoke this request crashed" not in heard.error:
        raise RuntimeError(f"the poison ended otherwise: {heard.error or heard.outcome}")
    died = sum(stack.children[name].starts for name in stack.names("talker")) - starts
    if died > _MOST_DEATHS:
        raise RuntimeError(f"the poison killed {died} talkers")


async def elect(stack: ChaosStack, dice: random.Random) -> None:
    """Every stream, bucket and queue gets another leader, one after another."""
    await step_down(stack.bus, _ELECTION_PAUSE_S)


async def restart_often(stack: ChaosStack, dice: random.Random) -> None:
    """kill -9 talkers and vocoders in turn, each when the one before is back."""
    for number in range(_RESTARTS):
        await kill("vocoder" if number % 2 else "talker")(stack, dice)


async def cascade(stack: ChaosStack, dice: random.Random) -> None:
    """kill -9 all vocoders, again and again: each time both at once, or one as it takes over."""
    for _ in range(_CASCADE):
        names = stack.names("vocoder")
        async with stack.restarted(*names):
            for name in dice.sample(names, len(names)):
                stack.children[name].kill()
                await asyncio.sleep(dice.uniform(0.0, _TAKING_OVER_S))
        await asyncio.sleep(dice.uniform(0.0, _TAKING_OVER_S))


async def stop_and_wake(stack: ChaosStack, dice: random.Random) -> None:
    """SIGSTOP all workers and gateways, one after another, and wake them in another order."""
    names = [*stack.names("talker"), *stack.names("vocoder"), *stack.names("gateway")]
    for name in dice.sample(names, len(names)):
        stack.send(name, signal.SIGSTOP)
        await asyncio.sleep(dice.uniform(0.0, _BETWEEN_STOPS_S))
    for name in dice.sample(names, len(names)):
        await asyncio.sleep(dice.uniform(0.0, _BETWEEN_STOPS_S))
        stack.send(name, signal.SIGCONT)


async def rotate_passwords(stack: ChaosStack, dice: random.Random) -> None:
    """Other passwords at the broker and in the files that services read; the old ones are void."""
    await _until_refused(stack, stack.rotate_passwords())


async def _until_refused(stack: ChaosStack, password: str) -> None:
    """Wait until the broker has taken its new configuration up."""
    bus = stack.bus
    login: dict[str, Any] = {"user": bus.system_user, "password": password}
    async with asyncio.timeout(_REFUSED_S):
        while True:
            client = Client()
            try:
                await client.connect(
                    list(bus.urls), **login, allow_reconnect=False, error_cb=_unheard
                )
            except nats.errors.Error:
                return
            await client.close()


async def _unheard(error: Exception) -> None:
    """The refusal is raised as well."""


_RESTARTS: Final = 20
_CASCADE: Final = 4
# How long a vocoder takes to have the jobs of one that died.
_TAKING_OVER_S: Final = 0.5
_BETWEEN_STOPS_S: Final = 1.0
# Until an operator notices that streams are missing.
_UNSEEN_S: Final = 3.0
_REFUSED_S: Final = 5.0
# A request that crashes its workers is ended after so many, if one of them had many young streams.
_MOST_DEATHS: Final = 4
_ELECTION_PAUSE_S: Final = 0.2
# A store so small that four runs of 32 streams fill it.
_TINY_STORE: Final = 1 << 20


# When they speak already.
_IN_SPEECH: Final = (0.8, 2.0)
_SAY: Final[dict[str, Any]] = {"listen": listen_by_command, "between_s": (1.5, 3.0)}
_TWO_GATEWAYS: Final = {"gateways": 2}
_PROXIED: Final = {"proxied": True}


def _of_three(inflict: Inflict, **stack: Any) -> Fault:
    """One that befalls a cluster of three brokers in mid-speech."""
    return Fault(inflict, {"brokers": 3, **stack}, between_s=_IN_SPEECH)


FAULTS: Final[Mapping[str, Fault]] = {
    "none": Fault(nothing),
    "kill talker": Fault(kill("talker")),
    "kill vocoder": Fault(kill("vocoder")),
    "kill the only vocoder": Fault(kill("vocoder"), {"vocoders": 1}),
    "cascade of four deaths": Fault(cascade, text=TEXT * 4, between_s=(0.5, 2.0)),
    "stop all and wake": Fault(stop_and_wake, _TWO_GATEWAYS),
    "kill gateway": Fault(kill_serving_gateway, _TWO_GATEWAYS),
    "kill gateway under say": Fault(kill_serving_gateway, _TWO_GATEWAYS, **_SAY),
    "kill gateway and vocoder": Fault(kill_gateway_and_vocoder, _TWO_GATEWAYS),
    "kill the only gateway": Fault(kill("gateway")),
    "kill the only gateway under say": Fault(kill("gateway"), **_SAY),
    "kill broker": Fault(kill("broker")),
    "kill one of three brokers": _of_three(kill("broker")),
    "ask while one of three brokers is gone": Fault(
        kill("broker"), {"brokers": 3}, between_s=(0.0, 0.05)
    ),
    "lose a node: talker, jobs": _of_three(lose_node("talker", "talk")),
    "lose a node: talker, codes": _of_three(lose_node("talker", "CODES")),
    "lose a node: vocoder, jobs": _of_three(lose_node("vocoder", "voc")),
    "lose a node: vocoder, audio": _of_three(lose_node("vocoder", "AUDIO")),
    "lose a node: talker, leases": _of_three(lose_node("talker", "leases")),
    **{
        f"stop one of three brokers for {seconds} s": _of_three(stop_broker(seconds))
        for seconds in (2, 8, 20)
    },
    "stop a broker, kill a talker": _of_three(stop_broker(8.0, "talker")),
    "swallow packets to one of three brokers": _of_three(swallow, **_PROXIED),
    "stop talker": Fault(freeze("talker", LONG_STOP_S)),
    "stop vocoder": Fault(freeze("vocoder", LONG_STOP_S)),
    "stop talker shortly": Fault(freeze("talker", SHORT_STOP_S)),
    "stop vocoder shortly": Fault(freeze("vocoder", SHORT_STOP_S)),
    "rolling restart": Fault(roll, _TWO_GATEWAYS),
    "cut talker off": Fault(network("talker", "cut"), _PROXIED),
    "cut vocoder off": Fault(network("vocoder", "cut"), _PROXIED),
    "cut gateway off": Fault(network("gateway", "cut"), _PROXIED),
    "stall talker's network": Fault(network("talker", "stall"), _PROXIED),
    "stall vocoder's network": Fault(network("vocoder", "stall"), _PROXIED),
    "delay talker's network": Fault(network("talker", "delay"), _PROXIED),
    "delay vocoder's network": Fault(network("vocoder", "delay"), _PROXIED),
    "full store": Fault(nothing, {"max_log_bytes": _TINY_STORE}),
    "full store, kill vocoder": Fault(kill("vocoder"), {"max_log_bytes": _TINY_STORE}),
    "wipe the store": Fault(wipe_store, logged=False, between_s=_IN_SPEECH),
    "fill the disk and free it": Fault(fill_disk, between_s=_IN_SPEECH),
    "poison": Fault(poison, {"poisonous": True}),
    "rotate passwords": Fault(rotate_passwords, {"rotating": True}),
    "20 restarts in ten-minute speeches": Fault(
        restart_often, text=LONG_TEXT, between_s=(1.0, 2.0)
    ),
    "elections in every bucket": _of_three(elect),
}
