"""How a run is shown on the console."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from . import console

if TYPE_CHECKING:
    from torch import Tensor

    from ...io import CubeReader
    from ...pipeline import Options, Plan
    from ...solver import State


class ConsoleProgress(ExitStack):
    """Prints notes and the plan, then a bar or lines now and then.

    It has the methods of :class:`hyperdlw.pipeline.Progress`, which is not imported here: torch takes
    seconds.
    """

    def __init__(self, silent: bool) -> None:
        super().__init__()
        self.silent = silent
        self.reader: CubeReader | None = None
        self._step: Callable[[State[Tensor]], None] | None = None
        self._item: Callable[[str, int, int], None] | None = None

    def plan_made(self, plan: Plan, reader: CubeReader, options: Options) -> None:
        self.reader = reader
        console.notes(reader, self.silent)
        if not plan.tiled:
            steps = options.count_steps(reader.shape)
            self._step = self.enter_context(console.progress(steps, self.silent))
            return
        if not self.silent:
            console.err.print(f"hyperdlw: plan: {plan}", markup=False)
            if not reader.lazy:
                console.err.print(
                    "hyperdlw: note: this format is read whole; convert it to ENVI or Zarr"
                )
        self._item = self.enter_context(console.stages(self.silent))

    def step_made(self, state: State[Tensor]) -> None:
        if self._step is not None:
            self._step(state)

    def item_done(self, stage: str, done: int, count: int) -> None:
        if self._item is not None:
            self._item(stage, done, count)
