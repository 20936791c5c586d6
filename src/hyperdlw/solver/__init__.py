"""The equation  minimise f(x; y, w) + sum_i g_i(K_i x), and the one ADMM that solves it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
