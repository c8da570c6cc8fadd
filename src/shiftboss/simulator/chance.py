"""The only source of chance. Each step has a stream of its own, so that leaving a step out changes
as little as possible in the others."""

from __future__ import annotations

import random
from dataclasses import dataclass

# The faults that a seed may have. Each seed leaves some out: most bugs need few of them at once.
_RATES = (0.0, 0.0, 0.02, 0.1, 0.3)


class Chance(random.Random):
    def happens(self, probability: float) -> bool:
        return self.random() < probability


@dataclass(frozen=True)
class Profile:
    """What a seed is like: how many servers, how bad the network and the disk, which operations."""

    servers: int
    workers: int
    lost_messages: float
    repeated_messages: float
    slow_messages: float
    lost_events: float
    crashes_in_commits: float
    refused_commits: float
    unsure_commits: float
    failed_reads: float
    failed_evidence: float
    bad_work: float
    red_ci: float
    lies: float
    faults: float
    contracts: float
    packets: bool
    clock_jumps: bool
    # The last server does not see the repositories.
    has_blind_server: bool

    @classmethod
    def of_seed(cls, seed: int) -> Profile:
        chance = Chance(f"{seed}/profile")
        servers = chance.choice((1, 2, 2))
        return cls(
            servers=servers,
            workers=chance.randint(1, 4),
            lost_messages=chance.choice(_RATES),
            repeated_messages=chance.choice(_RATES),
            slow_messages=chance.choice(_RATES),
            lost_events=chance.choice(_RATES) if servers > 1 else 0.0,
            crashes_in_commits=chance.choice((0.0, 0.0, 0.01, 0.03)),
            refused_commits=chance.choice((0.0, 0.0, 0.02, 0.1)),
            # Only a database behind a network leaves a server in doubt and alive.
            unsure_commits=chance.choice((0.0, 0.02, 0.1)) if servers > 1 else 0.0,
            failed_reads=chance.choice((0.0, 0.0, 0.02, 0.1)),
            failed_evidence=chance.choice((0.0, 0.0, 0.1, 0.5)),
            bad_work=chance.choice((0.0, 0.2, 0.6)),
            red_ci=chance.choice((0.0, 0.3, 0.7)),
            lies=chance.choice((0.0, 0.1, 0.3)),
            faults=chance.choice((0.0, 0.05, 0.15)),
            contracts=chance.choice((0.0, 0.5, 0.5, 1.0)),
            packets=chance.happens(0.3),
            clock_jumps=chance.happens(0.3),
            has_blind_server=servers > 1 and chance.happens(0.3),
        )
