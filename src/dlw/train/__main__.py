"""``torchrun --nproc-per-node 2 -m dlw.train RECIPE --data DIR``: one run over several processes."""

from __future__ import annotations

import typer

from ..cli import guarded
from .command import train_command

if __name__ == "__main__":
    app = typer.Typer(add_completion=False)
    app.command()(train_command)
    guarded(app)
