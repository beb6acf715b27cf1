"""A stack whose services are users of their own, as `antiphon bus accounts` has it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from antiphon.stack import LocalStack, StackConfig
from antiphon.stack.broker import BrokerProgram
from ttscommon.bus.credentials import ACCOUNTS, BROKER, PASSWORD, SYSTEM, issue
from ttscommon.bus.setup import prepare
from ttscommon.process.settings import PREFIX, BusSettings


@dataclass(frozen=True)
class GuardedBroker(BrokerProgram):
    """`written`: the accounts in place of one user for all."""

    written: str = ""

    def accounts(self) -> str:
        return self.written


class GuardedStack(LocalStack):
    """`bus_as(role)` is how a role reaches the broker; `secrets` holds everybody's password.

    accounts: makes something else of the broker's accounts.
    """

    def __init__(
        self,
        config: StackConfig,
        secrets: Path,
        models: tuple[str, ...] = ("vesper",),
        accounts: Callable[[str], str] = lambda written: written,
    ) -> None:
        issue(secrets, "antiphon", models)
        services = {role: _user_of(secrets, role) for role in ("gateway", "talker", "vocoder")}
        environ = {role: {**config.environ.get(role, {}), **services[role]} for role in services}
        super().__init__(
            replace(config, environ=environ), lambda name, line: print(f"{name}: {line}")
        )
        self._secrets, self._served, self._changed = secrets, models, accounts

    def bus_as(self, role: str) -> BusSettings:
        """Raises OSError for one that has no password."""
        user = {"user": role, "password": (self._secrets / role / PASSWORD).read_text()}
        return self.bus.model_copy(update=user)

    def _brokers(self, folder: Path) -> list[BrokerProgram]:
        written = self._changed((self._secrets / BROKER / ACCOUNTS).read_text())
        return [
            GuardedBroker(**{**vars(broker), "written": written})
            for broker in super()._brokers(folder)
        ]

    async def _prepare(self) -> None:
        await prepare(self.bus_as("setup"), "migrate", self._served)


def _user_of(secrets: Path, role: str) -> Mapping[str, str]:
    told = {
        "USER": role,
        "PASSWORD": (secrets / role / PASSWORD).read_text(),
        "SYSTEM_PASSWORD": (secrets / "gateway" / SYSTEM).read_text(),
    }
    return {f"{PREFIX}BUS__{name}": value for name, value in told.items()}
