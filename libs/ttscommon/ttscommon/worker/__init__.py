"""A stage's worker: claims one job per free slot, keeps it alive, and ends or hands it on."""

from ttscommon.jobs import Job
from ttscommon.worker.tuning import IsolationTuning, WorkerTuning
from ttscommon.worker.worker import Handler, Worker

__all__ = ["Handler", "IsolationTuning", "Job", "Worker", "WorkerTuning"]
