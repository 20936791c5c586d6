"""What the page's server answers: one desk, one address on 127.0.0.1 with a secret in it.

Every address starts with the token. Layers, exports and static files are looked up in fixed
tables; nothing a browser sends is ever part of a path.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import mimetypes
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    JSONResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...errors import BadOption, DlwError, OutputExists
from ...pipeline import HEAT
from . import exports
from .desk import Desk
from .job import Busy, JobRequest
from .session import Absent, Session

MEDIA = mimetypes.MimeTypes()
"""Python's own table; that of the machine may say anything of .js."""
MEDIA.add_type("text/javascript", ".js")  # Python 3.11 has an older name
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
T = TypeVar("T")
LARGEST_BODY = 4096
MOST_REQUESTS = 64
MOST_LISTENERS = 8
MOST_PINS = 12
TICK = 0.15
"""Seconds between looks at the job."""
PATIENCE = 10.0
"""Seconds between looks at a connection, and for the body of a request."""
GRACE = 5.0
"""Seconds a job goes on after the last page was closed; a reload takes less."""


class TooMuch(DlwError):
    """More than the server is willing to do at once."""


class RequestGuard:
    """Turns away what is not from our own page: foreign host or origin, wrong token, floods.

    The address 127.0.0.1 alone does not protect: any web site may send requests to it, and one that
    points its own name at 127.0.0.1 may read the answers. The host check stops the second, the token
    both.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: frozenset[str]) -> None:
        self.app, self.token, self.hosts = app, token.encode(), hosts
        self.open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        refused = self._refuse(scope)
        if refused is not None:
            await JSONResponse({"error": refused[1]}, refused[0], HEADERS)(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(k.lower().encode(), v.encode()) for k, v in HEADERS.items()]
                message["headers"] = [*message["headers"], *extra]
            await send(message)

        self.open += 1
        try:
            await self.app(scope, receive, send_guarded)
        finally:
            self.open -= 1

    def _refuse(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        # Starlette's TrustedHostMiddleware would let any port and a second header pass.
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0] not in self.hosts:
            return 421, "this server answers to its own address only"
        if any(origin != f"http://{hosts[0]}" for origin in headers.getlist("origin")):
            return 403, "requests from other pages are refused"
        given = str(scope["path"]).split("/")[1].encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(given, self.token):
            return 403, "the address lacks the token; use the one that hyperdlw view printed"
        if self.open >= MOST_REQUESTS:
            return 429, "too many requests at once"
        return None


def load_page() -> dict[str, bytes]:
    """The files of the page by name; the colours are those of the pictures."""
    page = {p.name: p.read_bytes() for p in files(__package__).joinpath("static").iterdir()}
    page["heat.js"] = f"export const HEAT = {HEAT.astype(int).tolist()};\n".encode()
    return page


def build_app(desk: Desk, token: str, hosts: frozenset[str]) -> ASGIApp:
    """The application for the cube on a desk."""
    page = load_page()
    exporting = asyncio.Semaphore(2)

    def static(name: str) -> Response:
        if name not in page:
            raise Absent("there is no such file")
        return Response(page[name], media_type=MEDIA.guess_type(name)[0])

    async def index(request: Request) -> Response:
        return static("index.html")

    async def asset(request: Request) -> Response:
        return static(request.path_params["name"])

    async def facts(request: Request) -> Response:
        return JSONResponse({**desk.facts(), **desk.session.facts(), **desk.session.status()})

    async def choices(request: Request) -> Response:
        desk.session.warm_up()  # the page asks for these after its first picture
        return JSONResponse(desk.session.choices)

    async def plane(request: Request) -> Response:
        values = desk.session.plane(
            request.path_params["layer"], parse_number(request.path_params["band"], "a band")
        )
        return Response(
            values.astype("<f4", copy=False).data.cast("B"),
            media_type="application/octet-stream",
        )

    async def spectrum(request: Request) -> Response:
        ask = request.query_params
        return JSONResponse(
            desk.session.spectrum(
                parse_number(ask.get("row"), "a row"), parse_number(ask.get("col"), "a column")
            )
        )

    async def region(request: Request) -> Response:
        top, left, bottom, right = (
            parse_number(request.query_params.get(name), f"the {name} of a region")
            for name in ("top", "left", "bottom", "right")
        )
        answer = desk.session.region
        return JSONResponse(await run_in_threadpool(answer, slice(top, bottom), slice(left, right)))

    async def advice(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(desk.session.advise))

    async def change(request: Request) -> Response:
        number = parse_number(request.path_params["number"], "a file")
        await run_in_threadpool(desk.open, number)
        return JSONResponse(desk.facts())

    async def status(request: Request) -> Response:
        return JSONResponse(desk.session.status())

    async def start(request: Request) -> Response:
        wanted = await read_body(request)
        return JSONResponse(
            desk.session.start(JobRequest.parse(wanted, desk.session.choices)).as_dict(), 202
        )

    async def cancel(request: Request) -> Response:
        number = request.path_params.get("number")
        desk.session.cancel(None if number is None else parse_number(number, "a run"))
        return JSONResponse(desk.session.status())

    async def show(request: Request) -> Response:
        desk.session.show_result(parse_number(request.path_params["number"], "a run"))
        return JSONResponse(desk.session.status())

    async def events(request: Request) -> Response:
        if desk.session.listeners >= MOST_LISTENERS:
            raise TooMuch("the page is open too often")

        async def stream() -> AsyncIterator[str]:
            session = desk.session
            session.listeners += 1
            last, quiet = "", 0.0
            try:
                while not session.closing and not await request.is_disconnected():
                    now = json.dumps(session.status())
                    if now != last or quiet > 5:
                        yield f"data: {now}\n\n"
                        last, quiet = now, 0.0
                    await asyncio.sleep(TICK)
                    quiet += TICK
            finally:
                session.listeners -= 1
                asyncio.get_running_loop().call_later(GRACE, session.abandon)

        return StreamingResponse(stream(), media_type="text/event-stream")

    async def make_export(request: Request, write: Callable[[exports.Export], T]) -> T:
        wanted = parse_export(request, desk.session)
        if exporting.locked():
            raise TooMuch("two exports are being made; wait for one of them")
        async with exporting:
            return await run_in_threadpool(write, wanted)

    async def export(request: Request) -> Response:
        folder = Path(tempfile.mkdtemp(prefix="hyperdlw-view-"))
        try:
            path = await make_export(
                request, lambda wanted: exports.write_export(desk.session, wanted, folder)
            )
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        gone = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
        return FileResponse(path, filename=path.name, background=gone)

    async def save(request: Request) -> Response:
        path, clipped = await make_export(
            request, lambda wanted: exports.save_export(desk.session, wanted)
        )
        return JSONResponse({"written": path.name, "clipped": clipped})

    base = f"/{token}"
    app = Starlette(
        routes=[
            Route(f"{base}/", index),
            Route(f"{base}/static/{{name}}", asset),
            Route(f"{base}/api/cube", facts),
            Route(f"{base}/api/choices", choices),
            Route(f"{base}/api/band/{{layer}}/{{band}}", plane),
            Route(f"{base}/api/spectrum", spectrum),
            Route(f"{base}/api/region", region),
            Route(f"{base}/api/advice", advice),
            Route(f"{base}/api/open/{{number}}", change, methods=["POST"]),
            Route(f"{base}/api/status", status),
            Route(f"{base}/api/job", start, methods=["POST"]),
            Route(f"{base}/api/cancel", cancel, methods=["POST"]),
            Route(f"{base}/api/cancel/{{number}}", cancel, methods=["POST"]),
            Route(f"{base}/api/show/{{number}}", show, methods=["POST"]),
            Route(f"{base}/api/events", events),
            Route(f"{base}/api/export/{{kind}}", export),
            Route(f"{base}/api/save/{{kind}}", save, methods=["POST"]),
        ],
        exception_handlers={DlwError: explain},
    )
    return RequestGuard(app, token, hosts)


CODES: tuple[tuple[type[DlwError], int], ...] = (
    (Absent, 404),
    (Busy, 409),
    (OutputExists, 409),
    (TooMuch, 429),
)


async def explain(request: Request, error: Exception) -> Response:
    """Every error on purpose has its code and its sentence."""
    code = next((c for kind, c in CODES if isinstance(error, kind)), 400)
    return JSONResponse({"error": str(error)}, code)


def parse_number(text: str | None, what: str) -> int:
    """A number from 0 to 999 999 999, and nothing else.

    >>> parse_number("12", "a band")
    12
    """
    if text is None or not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII):
        raise BadOption(f"{what} is a whole number from 0")
    return int(text)


def parse_export(request: Request, session: Session) -> exports.Export:
    """An export: colour bands (``bands=3,2,1``) and pinned pixels (``pins=4,5;6,7``)."""
    kind = request.path_params["kind"]
    if kind not in exports.KINDS:
        raise Absent(f"there is no such export; there are {', '.join(exports.KINDS)}")
    bands = [
        parse_number(b, "a band") for b in request.query_params.get("bands", "").split(",") if b
    ]
    if len(bands) not in (0, 3) or any(b >= session.cube.bands for b in bands):
        raise BadOption(f"a picture shows three bands of 0 to {session.cube.bands - 1}")
    pins = []
    for pin in [p for p in request.query_params.get("pins", "").split(";") if p][:MOST_PINS]:
        row, _, col = pin.partition(",")
        pins.append((parse_number(row, "a row"), parse_number(col, "a column")))
    return exports.Export(kind, tuple(bands), tuple(pins))


async def read_body(request: Request) -> object:
    """The JSON of a small request."""
    held = b""
    try:
        async with asyncio.timeout(PATIENCE):
            async for chunk in request.stream():
                held += chunk
                if len(held) > LARGEST_BODY:
                    raise BadOption(f"a request has at most {LARGEST_BODY} bytes")
    except TimeoutError:
        raise BadOption("the request did not come to its end") from None
    try:
        found: object = json.loads(held)
        return found
    except (ValueError, RecursionError):
        raise BadOption("a request is JSON") from None
