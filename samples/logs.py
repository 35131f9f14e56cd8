"""Messages of the host and of plugins come through Python's logging.

The host's are under "ephost", a plugin's under "ephost.plugin.NAME", where NAME is what it was registered as.
"""

import logging
import sys

import ephost as ort
from ephost.plugins import sample_kernels
from onnx import parser

logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(levelname)-7s %(name)s: %(message)s")
logging.getLogger("ephost.plugin.bundled").setLevel(
    logging.WARNING
)  # one plugin may be quieter than the rest
ort.set_default_logger_severity(1)  # 0 verbose, 1 info, 2 warning (the default), 3 error, 4 fatal

MODEL = parser.parse_model(
    """<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }"""
)

ort.register_execution_provider_library("bundled", sample_kernels.get_library_path())
options = ort.SessionOptions()
devices = [device for device in ort.get_ep_devices() if device.registration_name == "bundled"]
options.add_provider_for_devices(devices, {})
session = ort.InferenceSession(MODEL.SerializeToString(), options)
