# What a checkout is used with:
#   make develop   a virtual environment with all that the project needs, and the C half built in place
#   make demo      that, and a real model on two plugins: samples/recognize_text.py
#   make test      that, and the tests
#   make test-gpu  the tests that need an NVIDIA GPU; without one each is skipped, with the reason
#   make vendor-report  that, and how a sample of ONNX's node tests does on vendors' plugins in both hosts, in
#                  build/develop/vendor-report (report.md, report.json)
#   make lint      that, and what the sources are held to besides the tests
#   make docs      the documentation as a site, with the API reference, in site/
#   make clean     removes what these made
PYTHON ?= python3
VENV ?= .venv
BUILD ?= build/develop
TEST_ARGS ?=
# Options of the build, as cmake takes them: -DEPHOST_WERROR=ON, ...
CMAKE_ARGS ?=

bin := $(abspath $(VENV))/bin
export PATH := $(bin):$(PATH)

# Vendors' plugins, and packages whose model files tests and the demo open. What they depend on is left out:
# it is not needed for that, and some ask for another onnxruntime than the one that the tests compare with.
VENDOR_PACKAGES := nxrt-ep-cpu==0.1.0.dev6 onnxruntime-ggml==0.2.0 rapidocr-onnxruntime==1.4.4 magika==1.0.3
# For the build, which happens in this environment so that it can go on where it stopped.
BUILD_PACKAGES := "scikit-build-core>=0.10" "cffi>=1.17" "pycparser>=2.21" "numpy>=2.0" "cmake>=3.25" "ninja"
# oneDNN, for the CPU plugin, where there is a build of it.
ifeq ($(shell uname -sm),Linux x86_64)
BUILD_PACKAGES += onednn-cpu-gomp==2023.2.0 onednn-devel-cpu-gomp==2023.2.0
endif

.PHONY: develop demo test test-gpu lint docs clean vendor-report
develop: $(VENV)/.installed
	cmake -S . -B $(BUILD) -G Ninja --log-level=WARNING -DPython_EXECUTABLE=$(bin)/python \
	  -DEPHOST_INPLACE=ON -DCMAKE_EXPORT_COMPILE_COMMANDS=ON $(CMAKE_ARGS)
	cmake --build $(BUILD)

# The package is the checkout itself; what it compiles is built by the lines above, where it can go on where it
# stopped.
$(VENV)/.installed: pyproject.toml Makefile
	@command -v $${CC:-cc} >/dev/null || { echo "a C compiler is needed (Debian: apt install gcc)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	python -m pip install --quiet --upgrade pip
	python -m pip install --quiet $(BUILD_PACKAGES)
	python -m pip install --quiet --no-build-isolation --editable ".[dev]" \
	  --config-settings=editable.mode=inplace --config-settings=wheel.cmake=false --config-settings=wheel.py-api=py3
	python -m pip install --quiet --no-deps $(VENDOR_PACKAGES)
	touch $@

demo: develop
	@python samples/recognize_text.py

test: develop
	python -m pytest $(TEST_ARGS)

test-gpu: develop
	python -m pytest -m gpu $(TEST_ARGS)

# Status 1 is a case that onnxruntime does better, which the report lists: docs/vendors.md knows some.
vendor-report: develop
	python -m tests.vendor.report $(BUILD)/vendor-report --vendor none --vendor nxrt --vendor ggml --every 6 \
	  || [ $$? -eq 1 ]

lint: develop
	.ci/lint $(BUILD)

# NO_MKDOCS_2_WARNING: mkdocs-material speaks of its successor in every build.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 python -m mkdocs build --strict --quiet

$(VENV)/.docs: docs/requirements.txt | $(VENV)/.installed
	python -m pip install --quiet -r docs/requirements.txt
	touch $@

clean:
	rm -rf build site $(VENV)
	find host -name '*.so' -delete
