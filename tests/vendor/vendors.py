"""The vendors' plugins that these tests know: where they are, and what each needs to run on a plain machine.

Nothing here is patched: each is the package as it comes from PyPI. What is not installed is skipped.
"""

from __future__ import annotations

import importlib.util
import json
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_VULKAN = Path("/usr/lib/chromium/vk_swiftshader_icd.json")  # Debian's chromium has a driver for the CPU
_INTEL = [{"type": "CPU", "vendor": "Intel", "vendor_id": 0x8086}]
_GOOGLE = [{"type": "CPU"}, {"type": "GPU", "vendor": "Google", "vendor_id": 0x1AE0}]


@dataclass(frozen=True)
class Vendor:
    """One plugin. ``tolerance`` is how far its float32 results may be from those of a CPU, relative to the
    largest; ``devices`` says what hardware it has to be told of, which only ephost can: another host takes it
    for that behind a library that says so of the processor (``disguise``).
    """

    name: str
    module: str
    library_in_module: str
    registration: str
    tolerance: float
    devices: list[dict[str, object]] = field(default_factory=list)
    files: tuple[Path, ...] = ()
    option_files: Mapping[str, str] = field(default_factory=dict)  # option -> a file in the module
    environment: Mapping[str, str] = field(default_factory=dict)
    # Models of real_models.py that it does wrong by itself, and why; docs/vendors.md has the evidence.
    faults: Mapping[str, str] = field(default_factory=dict)
    models: tuple[str, ...] = ("one", "light", "cls", "rec")  # those that it runs in seconds on two cores
    # What it does not give back in one round of registering, running and unregistering, in onnxruntime too:
    # bytes, handles of the host's by kind, and open files.
    lost_bytes: int = 0
    lost_handles: Mapping[str, int] = field(default_factory=dict)
    lost_files: int = 0
    disguise: Mapping[str, str] = field(default_factory=dict)  # settings of tests/vendor/disguise
    breaks: tuple[str, ...] = ()  # rules of the layer `validate`, in any session

    @property
    def folder(self) -> Path | None:
        """Where the package is installed."""
        spec = importlib.util.find_spec(self.module)
        locations = list(spec.submodule_search_locations or []) if spec else []
        return Path(locations[0]) if locations else None

    @property
    def library(self) -> Path:
        """The plugin's library, of an installed package."""
        assert self.folder is not None
        return self.folder / self.library_in_module

    @property
    def options(self) -> dict[str, str]:
        """The provider options that it needs."""
        assert self.folder is not None
        return {key: str(self.folder / file) for key, file in self.option_files.items()}

    def missing(self, host: str = "ephost", disguised: bool = False) -> str:
        """Why it cannot run here in a host, as it is or ``disguised``; "" when it can."""
        if sys.platform != "linux" or platform.machine() != "x86_64":
            return "the vendors' packages that are known here are for Linux on x86-64"
        if importlib.util.find_spec(host) is None:
            return f"{host} is not installed"
        if self.folder is None or not self.library.exists():
            return f"{self.module} is not installed"
        for file in self.files:
            if not file.exists():
                return f"there is no {file}"
        if host != "ephost" and self.devices and not (disguised and self.disguise):
            return f"{host} cannot be told of the hardware that {self.name} asks for"
        return ""

    def disguised(self, folder: Path) -> tuple[Path, dict[str, str]]:
        """A library that stands between a host and it, built in the folder, and what that needs in the
        environment: the plugin then sees in any host the hardware that it asks for.
        """
        library = folder / "libdisguise.so"
        source = Path(__file__).parent / "disguise" / "disguise.c"
        # What stays in the process may be asked by a plugin that stays there.
        flags = ["-std=c11", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-z,nodelete"]
        flags += ["-Wall", "-Wextra", "-Wconversion", "-Werror"]
        include = f"-I{Path(__file__).parents[2] / 'include'}"
        subprocess.run(["cc", *flags, include, source, "-o", library, "-ldl"], check=True)
        return library, {"DISGUISE_PLUGIN": str(self.library), **self.disguise}

    def variables(self) -> dict[str, str]:
        """What its process needs in the environment."""
        made = dict(self.environment)
        if self.devices:
            made["EPHOST_HARDWARE_DEVICES"] = json.dumps(self.devices)
        return made


def variables_of(vendors: Iterable[Vendor]) -> dict[str, str]:
    """What a process with all of these needs in the environment."""
    made: dict[str, str] = {}
    devices: list[dict[str, object]] = []
    for vendor in vendors:
        made.update(vendor.variables())
        devices.extend(device for device in vendor.devices if device not in devices)
    if devices:  # of one type the one with a name, which some plugin asks for
        named = {device["type"] for device in devices if "vendor" in device}
        kept = [device for device in devices if "vendor" in device or device["type"] not in named]
        made["EPHOST_HARDWARE_DEVICES"] = json.dumps(kept)
    return made


VENDORS = {
    vendor.name: vendor
    for vendor in (
        Vendor(
            "nxrt",
            "nxrt_ep_cpu",
            "libonnx_runtime_ep_cpu_plugin.so",
            "nxrt",
            1e-4,
            lost_bytes=10 << 10,  # the names in its kernel registry
            lost_handles={"3": 1},  # a memory info
            breaks=("EPV-OWN-008",),  # the same
        ),
        Vendor(
            "ggml",
            "onnxruntime_ggml",
            "lib/libonnxruntime_ggml.so",
            "ggml",
            1e-2,  # it computes some convolutions in float16
            environment={"ORT_GGML_LOG": "off"},
            lost_bytes=2 << 20,
        ),
        Vendor(
            "openvino",
            "onnxruntime_ep_openvino",
            "libonnxruntime_providers_openvino_plugin.so",
            "openvino",
            2e-2,  # it may compute in bfloat16 where the CPU can
            devices=_INTEL,
            disguise={"DISGUISE_VENDOR": "Intel", "DISGUISE_VENDOR_ID": "0x8086"},
        ),
        Vendor(
            "qnn",
            "onnxruntime_qnn",
            "libonnxruntime_providers_qnn.so",
            "QNNExecutionProvider",  # the name that its compiled models ask for
            5e-2,  # float16 throughout
            option_files={"backend_path": "libQnnHtp.so"},
            lost_bytes=80 << 10,
        ),
        Vendor(
            "webgpu",
            "onnxruntime_ep_webgpu",
            "libonnxruntime_providers_webgpu.so",
            "webgpu",
            1e-4,
            devices=_GOOGLE,
            disguise={"DISGUISE_TYPE": "1", "DISGUISE_VENDOR": "Google", "DISGUISE_VENDOR_ID": "0x1AE0"},
            files=(_VULKAN,),
            models=("one", "cls"),
            faults={
                "light_shufflenet": "grouped Conv, channels last, of 6 or other channels a group above 4",
                "light_squeezenet": "Softmax of an opset below 13 along an axis that is not the last",
            },
            lost_files=1,  # SwiftShader's, for the code that it makes
            lost_bytes=1 << 20,
            # The loader of drivers lies beside the driver, unless the system has one.
            environment={
                "XDG_RUNTIME_DIR": "/tmp",
                "VK_DRIVER_FILES": str(_VULKAN),
                "LD_LIBRARY_PATH": str(_VULKAN.parent),
            },
        ),
    )
}
