from . import demo as demo
from . import real_demo as real_demo
from .catalogue import EXPERIMENTS as EXPERIMENTS
from .catalogue import BenchOptions as BenchOptions
