from . import theory as theory
from .advise import Advice as Advice
from .advise import advise as advise
