"""Names for the arrays that kernels take and return."""

import numpy as np
import numpy.typing as npt

__all__ = ["BoolArray", "ComplexArray", "FloatArray", "IntArray"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
ComplexArray = npt.NDArray[np.complex128]
