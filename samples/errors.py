"""What can go wrong, and how to catch it: one exception class for each error code of the ABI.

Each names the culprit in its message, and leaves everything as it was.
"""

import ephost as ort
import numpy as np
from ephost import errors
from ephost.plugins import sample_kernels
from onnx import parser

MODEL = parser.parse_model(
    """<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Erf(x) }"""
).SerializeToString()

try:
    ort.register_execution_provider_library("vendor", "libno_such_ep.so")
except errors.NoSuchFile as error:
    print("no library:   ", error)

try:
    ort.InferenceSession(b"this is no model")
except errors.InvalidProtobuf as error:
    print("no model:     ", error)

session = ort.InferenceSession(MODEL)
try:
    session.run(None, {"x": np.zeros(3, np.float32)})
except errors.InvalidArgument as error:
    print("wrong feed:   ", str(error).replace("\n", " "))

# Nodes that no plugin claims run on the bundled CPU plugin, or else on a fallback, which is slow. This option
# makes them an error.
ort.register_execution_provider_library("bundled", sample_kernels.get_library_path())
options = ort.SessionOptions()
devices = [device for device in ort.get_ep_devices() if device.registration_name == "bundled"]
options.add_provider_for_devices(devices, {})
options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
try:
    ort.InferenceSession(MODEL, options)
except errors.Fail as error:
    print("not claimed:  ", error)

# All of them have one base, and carry the ABI's error code.
try:
    ort.unregister_execution_provider_library("nobody")
except errors.OnnxRuntimeException as error:
    print(f"unregistering: {error} ({type(error).__name__}, code {error.code})")
