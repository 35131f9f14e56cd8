"""What ``import onnxruntime`` finds in processes that a program on ephost started: the program's host.

This folder is put before others by ``ephost.as_onnxruntime``. An interpreter that has no ephost gets the
onnxruntime that it has.
"""

import importlib
import sys

del sys.modules[__name__]
try:
    install = importlib.import_module("ephost.as_onnxruntime").install_as_onnxruntime
except ImportError:
    _here = __file__.rpartition("onnxruntime.py")[0].rstrip("/\\")
    sys.path[:] = [entry for entry in sys.path if entry.rstrip("/\\") != _here]
    importlib.invalidate_caches()
    importlib.import_module(__name__)
else:
    install()
