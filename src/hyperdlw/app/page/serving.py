"""Running the server of the page: its socket, its browser, and how it ends."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ...errors import BadOption
from .desk import Desk
from .server import PATIENCE, build_app


class Impatient(H11Protocol):
    """Closes connections on which no request is under way: half a request would stay for ever."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(PATIENCE, self.look)

    def look(self) -> None:
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
        else:
            self.loop.call_later(PATIENCE, self.look)


class Server(uvicorn.Server):
    """Ends its event streams before uvicorn waits for them."""

    def __init__(self, config: uvicorn.Config, desk: Desk) -> None:
        super().__init__(config)
        self.desk = desk

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.desk.end()
        super().handle_exit(sig, frame)


def listen(port: int) -> socket.socket:
    """A socket on 127.0.0.1; port 0 takes any free one."""
    if not 0 <= port <= 65535:
        raise BadOption(f"--port is a number from 0 to 65535, not {port}")
    # asyncio turns Nagle's algorithm off only for sockets that name their protocol; with it an answer
    # of two packets waits 40 ms for the browser's acknowledgement of the first.
    place = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        place.bind(("127.0.0.1", port))
    except OSError as error:
        place.close()
        raise BadOption(
            f"port {port} is not free ({error.strerror}); choose another with --port"
        ) from None
    return place


@contextmanager
def open_browser(address: str) -> Iterator[None]:
    """Open the page through a private file: everybody can read the arguments of a browser."""
    with tempfile.TemporaryDirectory(prefix="hyperdlw-view-") as folder:
        start = Path(folder) / "start.html"
        start.write_text(f'<meta http-equiv="refresh" content="0; url={address}">', "utf-8")
        webbrowser.open(start.as_uri())
        yield


def serve(desk: Desk, token: str, port: int, browser: bool, ready: Callable[[str], None]) -> None:
    """Serve what is on a desk until Ctrl-C; ``ready`` is called with the address."""
    place = listen(port)
    number = place.getsockname()[1]
    hosts = frozenset({f"127.0.0.1:{number}", f"localhost:{number}"})
    config = uvicorn.Config(
        build_app(desk, token, hosts),
        # What goes wrong on purpose is said in the answer; a closed tab is nothing to report.
        log_level="error" if os.environ.get("HYPERDLW_DEBUG", "") not in ("", "0") else "critical",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=3,
        ws="none",
        http=Impatient,
    )
    address = f"http://127.0.0.1:{number}/{token}/"
    # The socket queues the browser's first request until the server takes it.
    place.listen(128)
    ready(address)
    try:
        with open_browser(address) if browser else nullcontext():
            Server(config, desk).run(sockets=[place])
    except KeyboardInterrupt:
        pass  # uvicorn repeats the signal after it has shut down
    finally:
        desk.close()
        place.close()
