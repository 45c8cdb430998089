"""Switches of PyTorch's backends, for programs that set them: `adjit.backends.cudnn.benchmark = True`. There is the CPU alone, and results
are deterministic, whatever they say.

>>> import adjit as aj
>>> aj.backends.cudnn.benchmark = True
>>> aj.backends.cudnn.is_available(), aj.backends.mps.is_available()
(False, False)
"""

from adjit.backends import cuda, cudnn, unavailable

mps = mkl = mkldnn = openmp = unavailable

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]
