"""What the package exports, on purpose."""

from __future__ import annotations

import pytest

import shiftboss
import shiftboss.worker.backends
import shiftboss.worker.bus_worker
import shiftboss.worker.swarm_worker


def test_the_exported_names() -> None:
    assert shiftboss.__all__ == [
        "BusProducer",
        "BusWorker",
        "SwarmWorker",
        "__version__",
        "get_backend",
    ]
    assert dir(shiftboss) == shiftboss.__all__


def test_every_exported_name_is_the_object_of_that_name() -> None:
    assert shiftboss.BusProducer is shiftboss.worker.bus_producer.BusProducer
    assert shiftboss.BusWorker is shiftboss.worker.bus_worker.BusWorker
    assert shiftboss.SwarmWorker is shiftboss.worker.swarm_worker.SwarmWorker
    assert shiftboss.get_backend is shiftboss.worker.backends.get_backend
    assert shiftboss.__version__.count(".") == 2


def test_any_other_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Manager'"):
        _ = shiftboss.Manager
