"""What stands for the catalogue: a talker and a vocoder that keep up with any stream they hold."""

from collections import Counter

from gateway.admission import Peers
from ttscommon.cluster.admission.capacity import View
from ttscommon.wire.replicas import Replica


class Replicas:
    """others: streams of gateways that are not among the peers. live: whether there are workers.
    answering: whether all of them answer.
    """

    def __init__(
        self, *, slots: int = 8, step_s: float = 0.004, full_s: float = 0.0,
        peers: Peers | None = None,
    ) -> None:  # fmt: skip
        self.own, self.offline = Counter[str](), Counter[str]()
        self.died_s: dict[str, float] = {}
        self.others = 0
        self.models = ["m"]
        self.live = True
        self.answering = True
        self.asked: list[str] = []
        self._peers = Peers() if peers is None else peers
        steps = {1: step_s, 8: full_s or step_s}
        self._talker = Replica("t", "talker", (), slots, slots, step_s=steps)
        self._vocoder = Replica("v", "vocoder", (), 64, 64, step_s={1: 0.002}, frame_s=0.0001)

    def served(self) -> list[str]:
        return self.models

    def adopt(self, model: str) -> None:
        self.others = max(0, self.others - 1)

    async def all_answer(self, model: str) -> bool:
        self.asked.append(model)
        return self.answering

    def capacity(self, model: str) -> View:
        busy = self.own[model] + self.others + self._peers.streams(model)
        if self.live:
            return View((self._talker,), (self._vocoder,), busy, 25.0)
        return View((), (), busy, 25.0)
