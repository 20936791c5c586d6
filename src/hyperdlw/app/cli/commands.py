"""The everyday commands, by subject."""

from __future__ import annotations

import typer

from .experiments import audit, demo, noise, score
from .files import convert, info
from .lists import import_weights, models, nets
from .restore import advise, denoise, weights

COMMANDS = (
    weights,
    demo,
    info,
    advise,
    convert,
    models,
    nets,
    noise,
    score,
    audit,
    import_weights,
)


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command(short_help="Restore a noisy cube.")(denoise)
    for command in COMMANDS:
        app.command(command.__name__.replace("_", "-"))(command)
