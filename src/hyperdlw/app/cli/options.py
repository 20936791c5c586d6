"""Options and checks that several commands share."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from enum import StrEnum
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ...errors import BadOption

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ... import pipeline
    from ...cube import Cube


class DeviceChoice(StrEnum):
    """Values of ``--device``."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"
    mps = "mps"


class ScheduleChoice(StrEnum):
    """Values of ``--schedule``."""

    paper = "paper"
    converged = "converged"


# --- options that several commands share

In = Annotated[str, typer.Argument(metavar="IN", help="Cube to read: a file or a PNG folder.")]
Out = Annotated[str, typer.Argument(metavar="OUT", help="File to write; its ending is the format.")]
Model = Annotated[str, typer.Option("--model", "-m", help="What is clean: see 'hyperdlw models'.")]
Weights = Annotated[
    str,
    typer.Option(
        "--weights",
        "-w",
        help="Network ('hyperdlw nets'), formula, file with weights or a mask; 'a*b' multiplies; "
        "'original': none, and the model as published.",
    ),
]
Quality = Annotated[
    str,
    typer.Option(
        "--quality", metavar="fast|normal|best", help="Less time or a better result; of 'plain'."
    ),
]
Strength = Annotated[
    float, typer.Option("--strength", help="1 is right for the noise level; larger is smoother.")
]
Rank = Annotated[
    str | None,
    typer.Option(
        "--rank", metavar="N|auto", help="Rank, of models that have one; 'auto' estimates it."
    ),
]
Denoiser = Annotated[
    str | None,
    typer.Option(
        "--denoiser",
        metavar="NAME|FILE",
        help="Denoiser of pnp (eigen), or of fasthymix (framelet, gauss); a file with one.",
    ),
]
AutoStrength = Annotated[
    str,
    typer.Option(
        "--strength",
        metavar="NUMBER|auto",
        help="1 is right for the noise level; larger is smoother; auto: smallest estimated risk.",
    ),
]
Schedule = Annotated[
    ScheduleChoice,
    typer.Option("--schedule", help="Steps the networks were trained with, or to a tolerance."),
]
Range = Annotated[
    str,
    typer.Option(
        "--range",
        metavar="auto|minmax|LO,HI",
        help="Values that become 0 and 1: of the signal, of the data, or given ('0,1').",
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="Most memory to use, such as 2G; larger cubes are worked on in tiles.",
    ),
]
Device = Annotated[
    DeviceChoice,
    typer.Option("--device", help="Where networks and solver work; auto: a graphics card if any."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing outputs.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Exit with 3 and write nothing if the solver falls short."),
]


@dataclass(frozen=True)
class InputOptions:
    """How a cube is read; the fields are options of every command that reads one."""

    key: Annotated[
        str | None, typer.Option("--key", help="Variable, where a file has several.")
    ] = None
    axes: Annotated[
        str | None, typer.Option("--axes", help="Stored order of band, row, column, such as 'rcb'.")
    ] = None
    nodata: Annotated[
        float | None, typer.Option("--nodata", help="Stored value that means 'not measured'.")
    ] = None
    shape: Annotated[
        str | None,
        typer.Option(
            "--shape",
            metavar="AxBxC:TYPE",
            help="Of a file without a header: sizes in stored order, such as 224x512x614:uint16.",
        ),
    ] = None

    def open_cube(self, path: str) -> Cube:
        """The cube of a file, in memory."""
        from ... import io

        return io.open_cube(path, **asdict(self))


AS_STORED = InputOptions()
"""A cube is read as its file says."""


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the fields of its dataclass arguments in their place, as options."""
    own = inspect.signature(command, eval_str=True).parameters
    kinds = {name: p.annotation for name, p in own.items()}
    groups = {n: k for n, k in kinds.items() if isinstance(k, type) and is_dataclass(k)}
    options: dict[str, inspect.Parameter] = {}
    for name, parameter in own.items():
        if name in groups:
            options |= inspect.signature(groups[name], eval_str=True).parameters
        else:
            options[name] = parameter

    @wraps(command)
    def run(**given: object) -> None:
        for name, group in groups.items():
            given[name] = group(**{f.name: given.pop(f.name) for f in fields(group)})
        command(**given)

    # typer reads the options of a command off its signature.
    named = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in options.values()]
    vars(run)["__signature__"] = inspect.Signature(named)
    return run


def as_float32(
    cube: Cube,
    data: NDArray[np.generic],
    key: str | None,
    valid: NDArray[np.bool_] | None = None,
) -> Cube:
    """Another quantity on the pixels of a cube, stored as it is, in float32."""
    import numpy as np

    from ...pipeline import describe_quantity

    mask = np.ones(cube.shape, bool) if valid is None else valid
    like = describe_quantity(cube, key)
    return replace(like, data=data.astype(np.float32), valid=mask)


def split_words(text: str) -> tuple[str, ...]:
    """Names separated by commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def parse_range(text: str) -> pipeline.Range:
    """'auto', 'minmax', or two numbers with a comma or a blank between them."""
    if text in ("auto", "minmax"):
        return "auto" if text == "auto" else "minmax"
    try:
        low, high = (float(part) for part in text.replace(",", " ").split())
    except ValueError:
        raise typer.BadParameter(
            f"--range is auto, minmax or two numbers such as '0,1', not '{text}'"
        ) from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise BadOption(f"--range needs two numbers, the lower one first, not '{text}'")
    return low, high


def parse_rank(text: str | None) -> int | Literal["auto"] | None:
    """'auto', a whole number, or nothing."""
    if text is None:
        return None
    if text == "auto":
        return "auto"
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise typer.BadParameter(f"--rank is a whole number from 1, or auto, not '{text}'")
    return int(text)


def parse_strength(text: str) -> pipeline.Strength:
    """'auto' or a number."""
    try:
        return "auto" if text == "auto" else float(text)
    except ValueError:
        raise typer.BadParameter(f"--strength is a number or auto, not '{text}'") from None
