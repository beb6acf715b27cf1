"""A stage's worker: claims one job per free slot, keeps it alive, and ends or hands it on."""

from ttscommon.cluster.jobs import Job
from ttscommon.cluster.worker.tuning import IsolationTuning, WorkerTuning
from ttscommon.cluster.worker.worker import Answer, Handler, Worker
