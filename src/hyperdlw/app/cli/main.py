"""The command ``hyperdlw``: parse, call, print.

Commands import what they need when they run: torch takes seconds, and ``hyperdlw --help`` should not.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Annotated, Any

import typer

from ... import __version__
from ...errors import DlwError
from . import console
from .experiments import audit, bench, demo, noise, score
from .files import clean, convert, import_weights, info, models, nets, view
from .options import expand_options
from .restore import advise, denoise, weights
from .train import adapt, train, train_denoiser, train_rival

app = typer.Typer(
    name="hyperdlw",
    help="Hyperspectral denoising: variational models whose data term is weighted by a network.",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog="First steps: 'hyperdlw demo --scene', then 'hyperdlw denoise out/noisy.hdr out/restored.hdr'.",
)


def _version(asked: bool) -> None:
    if asked:
        console.out.print(f"hyperdlw {__version__}")
        raise typer.Exit


@app.callback()
def hyperdlw(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug",
            help="Show where an error comes from (anywhere on the line; HYPERDLW_DEBUG=1).",
        ),
    ] = False,
) -> None:
    """Hyperspectral denoising: variational models whose data term is weighted by a network."""


COMMANDS = (
    denoise,
    weights,
    demo,
    info,
    advise,
    convert,
    clean,
    models,
    nets,
    noise,
    score,
    audit,
    import_weights,
    train,
    train_rival,
    train_denoiser,
    adapt,
    bench,
    view,
)
"""In the order of ``hyperdlw --help``; the name of a function is that of its command."""


def tell_interrupt(command: Callable[..., None]) -> Callable[..., None]:
    """The command; Ctrl-C is told with what its notes say, which typer would drop."""

    @wraps(command)
    def told(*args: object, **given: object) -> None:
        try:
            command(*args, **given)
        except KeyboardInterrupt as stop:
            console.complain("; ".join(["interrupted", *getattr(stop, "__notes__", [])]))
            raise

    return told


for command in COMMANDS:
    app.command(command.__name__.replace("_", "-"))(tell_interrupt(expand_options(command)))


# --- errors

# typer carries its own copy of click since 0.26; this is the class in either.
_UsageError: Any = typer.BadParameter.__base__


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit code, with every error told in one sentence."""
    debug = "--debug" in arguments or os.environ.get("HYPERDLW_DEBUG", "") not in ("", "0")
    rest = [a for a in arguments if a != "--debug"]
    console.typed[:] = rest
    try:
        code = typer.main.get_command(app).main(rest, prog_name="hyperdlw", standalone_mode=False)
        return code if isinstance(code, int) else console.OK
    except (KeyboardInterrupt, typer.Abort):
        console.complain("interrupted")
        return console.INTERRUPTED
    except Exception as error:
        if debug:
            traceback.print_exc()
        return _explain(error)


def _explain(error: Exception) -> int:
    if isinstance(error, DlwError):
        console.complain(str(error))
        return error.exit_code
    if isinstance(error, _UsageError):
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "hyperdlw"
        message = error.format_message().rstrip(".")
        if type(error).__name__ == "NoArgsIsHelpError":
            print(message, file=sys.stderr)
        else:
            console.complain(f"{message}; see '{command} --help'")
        return console.USAGE
    # torch reports a failed allocation as a RuntimeError.
    if isinstance(error, MemoryError) or "allocate memory" in str(error):
        console.complain(
            "not enough memory for this cube; cut out a smaller part, or use a larger machine"
        )
        return console.RESOURCE
    if isinstance(error, OSError) and error.strerror:
        where = f" {error.filename}" if error.filename else ""
        console.complain(
            f"cannot read or write{where}: {error.strerror}; check place, rights and room"
        )
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        return console.RESOURCE if full else DlwError.exit_code
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    console.complain(f"unexpected {what}; run with --debug to see where")
    return console.UNEXPECTED


def main() -> None:
    """Entry point of the script ``hyperdlw``."""
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError as error:  # a full disk behind the pipe; Python would try once more at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = code if isinstance(error, BrokenPipeError) else _explain(error)
    sys.exit(code)


if __name__ == "__main__":
    main()
