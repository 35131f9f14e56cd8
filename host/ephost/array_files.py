"""Files of arrays, as ``numpy.save`` and ``numpy.savez`` write them."""

from __future__ import annotations

import os
import zlib
from tokenize import TokenError
from zipfile import BadZipFile, is_zipfile

import numpy as np

from ephost.reading import refuse_special

# What numpy, and what it reads with, raise over contents: OSError where a place in them is none in the file.
_UNREADABLE = (
    *(ValueError, EOFError, OverflowError, NotImplementedError, RuntimeError, MemoryError, OSError),
    *(BadZipFile, TokenError, zlib.error),
)


def load_arrays(path: str | os.PathLike[str]) -> np.ndarray | dict[str, np.ndarray]:
    """The array that ``numpy.save`` has written, or the arrays by name of ``numpy.savez``.

    Raises:
        ValueError: it is neither. The text says why, as far as that can be told.
        OSError: the file cannot be opened.
        Fail: it is a pipe or a device.
    """
    refuse_special(path, "the file of arrays")
    with open(path, "rb") as file:
        try:
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return loaded
            with loaded as held:
                return {name: held[name] for name in held.files}
        except _UNREADABLE as error:
            # What is no file of numpy's is taken for one of pickle's.
            is_other = "pickle" in str(error) and not is_zipfile(path)
            raise ValueError("" if is_other else str(error) or type(error).__name__) from None
