"""Workers = serial: the same tiles on a Dask cluster, of which a process dies."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dlw import io, large, models, scenes
from dlw.errors import DlwError
from dlw.executors import Dask, executor
from dlw.products import Outputs, denoise_file
from dlw.weighting import resolve

pytest.importorskip("distributed")


class Murderer(Dask):
    """Kills a worker after the second result."""

    def run(self, function, items):
        for n, found in enumerate(super().run(function, items)):
            if n == 1 and not killed:
                pid = next(iter(self.client.run(os.getpid).values()))
                killed.append(pid)
                os.kill(pid, signal.SIGKILL)
            yield found


killed: list[int] = []


def test_a_dead_worker_costs_its_tile_only(tmp_path: Path):
    rng = np.random.default_rng(4)
    clean = scenes.synthetic(5, 40, 12, rng=rng).data
    np.save(
        tmp_path / "in.npy", (clean + 0.1 * rng.standard_normal(clean.shape)).transpose(1, 2, 0)
    )
    made = {}
    with executor(2) as work:
        for name, who in (("serial", None), ("cluster", Murderer(work.client))):
            for model in ("lrtfdfr",):
                with io.open_source(tmp_path / "in.npy") as file:
                    short = replace(models.build(model, file.shape).schedule, steps=2)
                    options = large.Options(model, resolve("N+T+TS"), schedule=short)
                    plan = large.plan_for(file.shape, options, tile=10)
                    target = tmp_path / f"{name}-{model}.npy"
                    denoise_file(file, str(target), options, plan, Outputs(), executor=who)
                    made[name, model] = target.read_bytes()
    assert len(killed) == 1
    for model in ("lrtfdfr",):
        assert made["serial", model] == made["cluster", model]


def test_no_scheduler_is_one_sentence():
    with pytest.raises(DlwError, match="no Dask scheduler"), executor(scheduler="nowhere"):
        pass
