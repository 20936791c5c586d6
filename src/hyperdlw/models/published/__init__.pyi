from . import fasthymix as fasthymix
from . import hyres as hyres
from . import lrmr as lrmr
from . import mnf as mnf
from . import nmog as nmog
