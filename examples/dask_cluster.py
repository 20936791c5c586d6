"""A Dask cluster: the strips of a file go to its workers. Needs the extra 'scale'.

python examples/dask_cluster.py

From the command line: ``hyperdlw denoise in.hdr out.hdr --scheduler ADDRESS``. Workers read the input
and write into the folder of the run, so they must see both under the same names.
"""

import numpy as np
from distributed import LocalCluster
from pictures import show_bands

import hyperdlw
from hyperdlw.testbed import make_textured_scene

clean = make_textured_scene(8, 96, 48, rng=np.random.default_rng(7))
noisy = hyperdlw.noise.case(1, clean, np.random.default_rng(1)).y
hyperdlw.save_cube(hyperdlw.Cube.from_array(noisy), "flight.hdr", overwrite=True)
hyperdlw.denoise_file("flight.hdr", "alone.hdr", tile=48, overwrite=True)

# Two workers in this process stand for a cluster; elsewhere its address is all you need.
with LocalCluster(n_workers=2, processes=False, dashboard_address=None) as cluster:
    report = hyperdlw.denoise_file(
        "flight.hdr", "cluster.hdr", tile=48, scheduler=cluster.scheduler_address, overwrite=True
    )
alone, shared = (hyperdlw.open_cube(name).data for name in ("alone.hdr", "cluster.hdr"))

print(f"one process against the cluster: largest difference {np.abs(alone - shared).max():.1g}")
panels = {"noisy": noisy, "one process": alone, "cluster": shared, "clean": clean}
show_bands("dask_cluster.png", {name: x[4].T for name, x in panels.items()}, columns=2)
