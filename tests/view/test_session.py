"""The session behind the page, without a server."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from hyperdlw import pipeline
from hyperdlw.app.page.job import JobRequest
from hyperdlw.app.page.session import Session
from hyperdlw.cube import Cube
from hyperdlw.testbed import scenes


@pytest.mark.parametrize("weights", ["uniform", "N+T+TS"])
def test_a_second_automatic_run_finds_the_same_strength(weights):
    """Weights that are kept from the first run have the properties of their source."""
    rng = np.random.default_rng(1)
    clean = scenes.synthetic(6, 24, 20, rng=rng).data
    noisy = clean + 0.1 * rng.standard_normal(clean.shape).astype(np.float32)
    session = Session(Cube.from_array(noisy), "noisy.npy")
    found = []
    for _ in range(2):
        job = session.start(JobRequest("tv", weights, "auto"))
        job.thread.join(120)
        assert job.progress == "done", job.message
        found.append(session.result.report)
    session.close()
    assert found[0].strength == found[1].strength
    assert found[0].choice == found[1].choice
    assert found[0].networks == found[1].networks


def test_the_page_opens_on_the_noisiest_band_that_is_not_empty() -> None:
    rng = np.random.default_rng(0)
    level = np.array([0.01, 0.1, 0.3, 0.05])[:, None, None]
    data = np.linspace(0, 1, 24) + level * rng.normal(size=(4, 20, 24))
    data[2] = 7  # dead
    facts = Session(Cube.from_array(data), "x.npy").facts()
    assert facts["noisiest"] == 1
    assert facts["noise"][2] is None
    assert facts["noise"][1] > facts["noise"][3] > facts["noise"][0]
    assert Session(Cube.from_array(np.zeros((5, 4, 4))), "x.npy").facts()["noisiest"] == 2


def test_a_job_is_cancelled_before_its_first_step(monkeypatch) -> None:
    """A run asks nobody while it measures the noise; it ends there all the same."""
    begun = threading.Event()

    def measure(*given, **named):
        begun.set()
        end = time.monotonic() + 60
        while time.monotonic() < end:
            time.sleep(0.001)

    monkeypatch.setattr(pipeline, "denoise", measure)
    session = Session(Cube.from_array(np.random.default_rng(0).random((4, 16, 16))), "x.npy")
    job = session.start(JobRequest("tv", "uniform"))
    assert begun.wait(60)
    session.cancel()
    job.thread.join(30)
    assert job.progress == "cancelled"
    monkeypatch.undo()
    again = session.start(JobRequest("tv", "uniform"))
    again.thread.join(60)
    assert again.progress == "done"


def test_a_cancelled_job_has_ended_for_the_page(monkeypatch) -> None:
    """An operation cannot be cut short: the page does not wait for it, and the next job does."""
    begun, go_on = threading.Event(), threading.Event()

    def hang(*_: object, **__: object) -> None:
        begun.set()
        go_on.wait(60)

    monkeypatch.setattr(pipeline, "denoise", hang)
    session = Session(Cube.from_array(np.random.default_rng(0).random((4, 16, 16))), "x.npy")
    request = JobRequest("tv", "uniform")
    first = session.start(request)
    assert begun.wait(60)
    session.cancel(first.number)
    shown = session.status()["job"]
    assert (shown["progress"], shown["running"], shown["ending"]) == ("cancelled", False, True)
    second = session.start(request)
    assert session.status()["job"]["number"] == second.number
    assert second.thread is None, "it waits"
    session.cancel(second.number)
    assert session.status()["job"]["number"] == first.number
    go_on.set()
    first.thread.join(60)
    assert not first.ending
    assert first.progress == "cancelled"
