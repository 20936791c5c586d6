"""Hyperspectral denoising with data-driven loss weighting."""

import os
from typing import TYPE_CHECKING

import lazy_loader

__version__ = "0.2.0.dev0"

# Large arrays of torch in huge pages, where Linux has them on request: glibc gives arrays above 32 MB
# back at once, and faulting them in again page by page takes a quarter of the time of a 1024 x 1024 cube.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

# Every name is imported when it is first used: torch takes seconds, ``hyperdlw --help`` should not.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["models", "weights"],
    submod_attrs={
        "cube": ["Cube"],
        "errors": ["DlwError"],
        "io": ["open_cube", "save_cube"],
        "pipeline": [
            "Report",
            "Result",
            "advise",
            "audit",
            "denoise",
            "denoise_file",
            "predict_weights",
            "register_accessor",
        ],
        "solver": [
            "Model",
            "Problem",
            "Schedule",
            "Term",
            "data_terms",
            "operators",
            "penalties",
            "solve",
            "term",
        ],
        "testbed": ["metrics", "noise", "scenes"],
    },
)

if TYPE_CHECKING:
    from . import models as models
    from . import weights as weights
    from .cube import Cube as Cube
    from .errors import DlwError as DlwError
    from .io import open_cube as open_cube
    from .io import save_cube as save_cube
    from .pipeline import Report as Report
    from .pipeline import Result as Result
    from .pipeline import advise as advise
    from .pipeline import audit as audit
    from .pipeline import denoise as denoise
    from .pipeline import denoise_file as denoise_file
    from .pipeline import predict_weights as predict_weights
    from .pipeline import register_accessor as register_accessor
    from .solver import Model as Model
    from .solver import Problem as Problem
    from .solver import Schedule as Schedule
    from .solver import Term as Term
    from .solver import data_terms as data_terms
    from .solver import operators as operators
    from .solver import penalties as penalties
    from .solver import solve as solve
    from .solver import term as term
    from .testbed import metrics as metrics
    from .testbed import noise as noise
    from .testbed import scenes as scenes
