from . import demo as demo
from .catalogue import EXPERIMENTS as EXPERIMENTS
from .catalogue import BenchOptions as BenchOptions
