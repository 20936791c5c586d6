"""Dead detector elements: they read one value along the whole track, and are filled.

python examples/dead_elements.py
"""

import numpy as np
from pictures import compare

import hyperdlw
from hyperdlw.testbed import make_textured_scene

clean = make_textured_scene(31, 64, 64, rng=np.random.default_rng(7))
noisy = hyperdlw.noise.case("dead-elements", clean, np.random.default_rng(2)).y

result = hyperdlw.denoise(noisy)

print("dead columns of single bands:", result.report.set_aside["dead_columns"])
compare("dead_elements.png", clean, noisy, result.cube.data)
