"""What the tests of the page share: a small cube on disk, a session, a running server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason="pip install 'hyperdlw[view]'")
pytest.importorskip("uvicorn", reason="pip install 'hyperdlw[view]'")

import uvicorn

from hyperdlw import Cube, open_cube, pipeline, save_cube
from hyperdlw.app.page.desk import Desk
from hyperdlw.app.page.job import Choices, list_choices
from hyperdlw.app.page.server import build_app
from hyperdlw.app.page.serving import Server, listen
from hyperdlw.app.page.session import Session
from hyperdlw.testbed import scenes

TOKEN = "a-token-for-tests"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A noisy cube of 6 bands, 20 rows and 24 columns with wavelengths and one hole."""
    rng = np.random.default_rng(5)
    scene = scenes.synthetic(6, 20, 24, rng=rng)
    noisy = scene.data + 0.1 * rng.standard_normal(scene.shape).astype(np.float32)
    noisy[2, 3, 4] = np.nan
    path = tmp_path / "scene one.npz"
    save_cube(Cube.from_array(noisy, wavelengths=scene.wavelengths), path)
    return path


@pytest.fixture(scope="session")
def choices() -> Choices:
    """Listed once: reading every network for every test takes the most of its time."""
    return list_choices(6)


@pytest.fixture
def session(file: Path, choices: Choices) -> Iterator[Session]:
    held = Session(open_cube(file), file.name)
    held.choices = choices
    yield held
    held.close()


@dataclass
class Gate:
    """Holds a job at its first step until it is opened, or the job is cancelled."""

    opened: threading.Event
    reached: threading.Event


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch, session: Session) -> Iterator[Gate]:
    held = Gate(threading.Event(), threading.Event())
    real = pipeline.denoise

    def slow(cube: Cube, *, watch: Callable[[Any], None], **rest: Any) -> Any:
        def step(state: Any) -> None:
            watch(state)
            held.reached.set()
            while not held.opened.wait(0.01):
                assert session.job is not None
                if session.job.stop.is_set():
                    break

        return real(cube, watch=step, **rest)

    monkeypatch.setattr(pipeline, "denoise", slow)
    yield held
    held.opened.set()


def wait_for(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Until something is true; the limit is only there so that a failure ends."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
    return found


@pytest.fixture
def until() -> Callable[..., Any]:
    return wait_for


@pytest.fixture
def address(session: Session) -> Iterator[str]:
    """The page of ``session`` on a real server."""
    place = listen(0)
    port = place.getsockname()[1]
    app = build_app(Desk(session), TOKEN, frozenset({f"127.0.0.1:{port}"}))
    config = uvicorn.Config(app, log_level="error", ws="none", timeout_graceful_shutdown=1)
    server = Server(config, Desk(session))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [place]}, daemon=True)
    thread.start()
    wait_for(lambda: server.started)
    yield f"http://127.0.0.1:{port}/{TOKEN}/"
    session.close()
    server.should_exit = True
    thread.join(10)
    assert not thread.is_alive()
    place.close()
