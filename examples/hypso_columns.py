"""HYPSO: columns of the detector with gains of their own, on good data.

python examples/hypso_columns.py

Gains that differ by 0.3 % are below what the noise lets one see in a single row. The mean over all
rows shows them. The noise becomes weaker; most of the gains stay, as both curves show.
"""

import numpy as np
from pictures import show_curves

import hyperdlw
from hyperdlw.testbed import make_textured_scene

clean = make_textured_scene(31, 96, 64, rng=np.random.default_rng(7))
noisy = hyperdlw.noise.case("column-gains", clean, np.random.default_rng(1)).y
result = hyperdlw.denoise(noisy)
restored = result.cube.data


def column_error(x, band=15):
    """How far the mean of every column is from the truth, in percent."""
    return 100 * (x[band].mean(axis=0) / clean[band].mean(axis=0) - 1)


for name, x in (("before", noisy), ("after", restored)):
    error = np.sqrt(((x - clean) ** 2).mean())
    print(f"{name}: columns off by {column_error(x).std():.2f} %, error {error:.5f}")
columns = np.arange(clean.shape[2])
show_curves(
    "hypso_columns.png",
    {"noisy": (columns, column_error(noisy)), "restored": (columns, column_error(restored))},
    "column of the detector",
    "mean of the column, error in %",
)
