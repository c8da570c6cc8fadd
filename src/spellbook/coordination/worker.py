"""The worker's side of the contract."""

from shiftboss.worker.swarm_worker import SwarmWorker

__all__ = ["SwarmWorker"]
