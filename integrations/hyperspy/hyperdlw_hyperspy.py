"""HyperSpy signals: ``restored = denoise_signal(signal)``.

A spectrum image of HyperSpy has the axes (row, col | band); everything that is known of the signal,
axes, units and metadata, stays with the restored one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import hyperdlw

if TYPE_CHECKING:
    from hyperspy.signals import Signal1D


def denoise_signal(signal: Signal1D, **options: Any) -> Signal1D:
    """The signal without its noise.

    Args:
        signal: a spectrum image, two navigation axes and one signal axis, in memory or lazy.
        options: of :func:`hyperdlw.denoise`, such as ``model``, ``weights`` and ``strength``.
    """
    sizes = signal.axes_manager.navigation_dimension, signal.axes_manager.signal_dimension
    if sizes != (2, 1):
        raise ValueError(
            f"a spectrum image has two navigation axes and one signal axis, not {sizes[0]} and {sizes[1]}"
        )
    cube = hyperdlw.Cube.from_array(np.asarray(signal.data), axes="rcb")
    result = hyperdlw.denoise(cube, **options)
    restored = signal._deepcopy_with_new_data(
        np.ascontiguousarray(result.cube.data.transpose(1, 2, 0))
    )
    title = restored.metadata.get_item("General.title", "")
    restored.metadata.set_item("General.title", f"{title} restored".strip())
    restored.metadata.set_item("hyperdlw", result.report.as_dict())
    return restored
