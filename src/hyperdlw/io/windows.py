"""Windows of a cube: which bands, rows and columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..errors import BadInput

Bands = slice | Sequence[int] | None
Index = slice | list[int]


def inside(
    shape: tuple[int, int, int], rows: slice, cols: slice, bands: Bands
) -> tuple[Index, slice, slice]:
    """The window with explicit limits inside the image."""
    cuts = []
    for name, cut, length in (("rows", rows, shape[1]), ("cols", cols, shape[2])):
        start, stop, step = cut.indices(length)
        if step != 1:
            raise BadInput(f"{name} of a window go one by one, not in steps of {step}")
        cuts.append(slice(start, max(start, stop)))
    if bands is None:
        bands = slice(None)
    if isinstance(bands, slice):
        start, stop, step = bands.indices(shape[0])
        if step == 1:
            return slice(start, max(start, stop)), cuts[0], cuts[1]
        bands = range(start, stop, step)
    chosen = [int(b) for b in bands]
    wrong = [b for b in chosen if not 0 <= b < shape[0]]
    if wrong:
        raise BadInput(f"there is no band {wrong[0]}; bands are numbered 0 to {shape[0] - 1}")
    return chosen, cuts[0], cuts[1]


def extent(index: Index, count: int) -> int:
    return len(range(*index.indices(count))) if isinstance(index, slice) else len(index)


def windows(
    shape: tuple[int, int, int], itemsize: int, tile: tuple[int, int], most: int = 2**26
) -> Iterator[tuple[slice, slice]]:
    """Windows of whole tiles that cover an image, each of at most ``most`` bytes or one tile.

    Args:
        shape: (bands, rows, columns).
        itemsize: bytes of a number.
        tile: rows and columns that a file holds together.
        most: bytes of a window with all bands.

    >>> list(windows((2, 5, 3), 1, (2, 3), 12))[-1]
    (slice(4, 5, None), slice(0, 3, None))
    """
    bands, rows, cols = shape
    height, width = (min(t, n) for t, n in zip(tile, (rows, cols), strict=True))
    wide = width * max(1, most // max(1, bands * height * width * itemsize))
    high = height
    if wide >= cols:
        high = height * max(1, most // max(1, bands * height * cols * itemsize))
    for r in range(0, rows, high):
        for c in range(0, cols, wide):
            yield slice(r, min(r + high, rows)), slice(c, min(c + wide, cols))
