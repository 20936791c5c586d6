"""``hyperdlw view``."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated

import typer

from ...errors import MissingDependency
from . import console
from .options import AxesOption, In, KeyOption, NodataOption, OverwriteOption, check_places


def view(
    source: In,
    target: Annotated[
        str | None, typer.Argument(metavar="OUT", help="Where 'Save' writes; else downloads.")
    ] = None,
    key: KeyOption = None,
    axes: AxesOption = None,
    nodata: NodataOption = None,
    overwrite: OverwriteOption = False,
    port: Annotated[int, typer.Option("--port", help="0 takes any free one.")] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address.")
    ] = False,
) -> None:
    """Look at a cube in the browser.

    The cube, its weights and its restoration, in a page that only this machine can reach.
    """
    from ... import io

    try:
        import PIL  # noqa: F401

        from ..page.server import serve
    except ModuleNotFoundError as error:
        raise MissingDependency(
            f"the page needs the package {error.name}; get it with: pip install 'hyperdlw[view]'"
        ) from None
    from ..page.session import Session, check_memory

    check_places([target], overwrite, source)
    shape = io.describe(source, key=key, axes=axes)["shape"]
    if shape is not None:
        check_memory(shape, source)
    cube = io.open_cube(source, key=key, axes=axes, nodata=nodata)
    if target is not None:
        io.check_save(target, cube)
    console.notes(cube, False)
    session = Session(cube, Path(source).name, None if target is None else Path(target), overwrite)
    del cube

    def tell(address: str) -> None:
        # Flushed by hand: whoever started this through a pipe waits for the line.
        print(f"{address}  (Ctrl-C ends)", flush=True)

    serve(session, secrets.token_urlsafe(18), port, not no_browser, tell)


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("view")(view)
