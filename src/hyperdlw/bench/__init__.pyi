from . import demo as demo
from .experiments import EXPERIMENTS as EXPERIMENTS
from .experiments import Asked as Asked
