"""The extension module that cffi makes of the public headers and host/native/python.h."""

from typing import Any

ffi: Any
lib: Any
