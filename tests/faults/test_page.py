"""The page: nobody holds its connections, nobody reads its token, and it listens when it says so."""

from __future__ import annotations

import socket
import threading
import time
from urllib.parse import urlparse

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from hyperdlw import Cube
from hyperdlw.app.page import serving as server
from hyperdlw.app.page.desk import Desk
from hyperdlw.app.page.job import JobRequest
from hyperdlw.app.page.session import Session
from hyperdlw.errors import BadOption


@pytest.fixture
def session() -> Session:
    cube = Cube.from_array(np.random.default_rng(1).random((3, 8, 8)).astype(np.float32))
    return Session(cube, "cube", None, False)


def test_the_port_listens_before_the_address_is_told(session, monkeypatch):
    heard: list[bool] = []

    class Told(Exception):
        pass

    def ready(address: str) -> None:
        place = urlparse(address)
        with socket.create_connection((place.hostname, place.port), 2):
            heard.append(True)
        raise Told

    with pytest.raises(Told):
        server.serve(Desk(session), "token", 0, False, ready)
    assert heard == [True]


def test_the_token_is_not_an_argument_of_the_browser(monkeypatch):
    opened: list[str] = []
    monkeypatch.setattr(server.webbrowser, "open", opened.append)
    with server.open_browser("http://127.0.0.1:1/secret/"):
        (address,) = opened
        assert "secret" not in address
        page = server.Path(urlparse(address).path)
        assert "http://127.0.0.1:1/secret/" in page.read_text()
        assert page.parent.stat().st_mode & 0o077 == 0
    assert not page.exists()


def test_half_a_request_is_not_waited_for(session, monkeypatch):
    monkeypatch.setattr(server, "PATIENCE", 0.3)
    told = threading.Event()
    found: list[server.Server] = []
    begin = server.Server.__init__
    monkeypatch.setattr(
        server.Server, "__init__", lambda self, *a: (begin(self, *a), found.append(self))[0]
    )
    address: list[str] = []

    def ready(where: str) -> None:
        address.append(where)
        told.set()

    worker = threading.Thread(
        target=server.serve, args=(Desk(session), "token", 0, False, ready), daemon=True
    )
    worker.start()
    assert told.wait(20)
    place = urlparse(address[0])
    try:
        for sent in (b"", b"GET /token/ HT", b"POST /token/api/job HTTP/1.1\r\nHost: "):
            with socket.create_connection((place.hostname, place.port), 5) as line:
                line.sendall(sent)
                line.settimeout(10)
                begun = time.monotonic()
                assert line.recv(100) == b""
                assert time.monotonic() - begun < 8
    finally:
        found[0].should_exit = True
        worker.join(20)


def test_a_number_of_three_thousand_digits_is_refused():
    choices = {"models": ["tv"], "weights": ["uniform"], "qualities": ["normal"]}
    for strength in (10**3000, float("nan"), float("inf"), -1, True):
        with pytest.raises(BadOption, match="strength is a number"):
            JobRequest.parse({"model": "tv", "weights": "uniform", "strength": strength}, choices)
