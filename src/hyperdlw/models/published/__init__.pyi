from .registry import check_options as check_options
from .registry import find as find
from .registry import is_rival as is_rival
from .registry import registry as registry
from .registry import restore as restore
