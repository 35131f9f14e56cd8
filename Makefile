# What a checkout is used with:
#   make develop   a virtual environment with all that the project needs, and the C half built in place
#   make demo      that, and a real model on two plugins: samples/recognize_text.py
#   make test      that, and the tests
#   make test-aarch64  a wheel for aarch64 Linux, and the tests of ONNX's nodes, the samples and the CPU plugin under
#                  qemu, without changing the machine's packages; slow. Of other tests: .ci/aarch64 tests/FOLDER
#   make test-windows  a wheel for Windows, and tests of it by CPython for Windows in wine, without changing the machine's
#                  packages. Of other tests: .ci/wine tests/FOLDER
#   make test-gpu  the tests that need an NVIDIA GPU; without one each is skipped, with the reason
#   make vendor-report  that, and how a sample of ONNX's node tests does on vendors' plugins in both hosts, in
#                  build/develop/vendor-report (report.md, report.json)
#   make bench     that, and measurements beside onnxruntime, kept in bench/results; BENCH="calls opening" takes some
#   make results   the tables and plots of the documents, made from bench/results
#   make lint      that, and what the sources are held to besides the tests
#   make wheel     a wheel in dist/ with all that it needs, for Linux systems as new as this one; WHEEL_ARGS are pip's
#   make docs      the documentation as a site, with the API reference, in site/; DOCS=serve shows it at localhost:8000
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
# A client of model servers, for the tests of `ephost serve`. What it asks for of protobuf and ml-dtypes is older than what
# onnx is used with here, but it works with that, too; what else it needs is in the extra [test].
CLIENT_PACKAGES := tritonclient==2.73.0
# For the build, which happens in this environment so that it can go on where it stopped.
BUILD_PACKAGES := "scikit-build-core>=0.10" "cffi>=1.17" "pycparser>=2.21" "numpy>=2.0" "onnx>=1.18" "cmake>=3.25" "ninja"
# oneDNN, for the CPU plugin, where there is a build of it.
ifeq ($(shell uname -sm),Linux x86_64)
BUILD_PACKAGES += onednn-cpu-gomp==2023.2.0 onednn-devel-cpu-gomp==2023.2.0
endif

.PHONY: develop demo test test-aarch64 test-windows test-gpu lint docs clean vendor-report bench results wheel
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
	python -m pip install --quiet --no-deps $(VENDOR_PACKAGES) $(CLIENT_PACKAGES)
	touch $@

demo: develop
	@python samples/recognize_text.py

test: develop
	python -m pytest $(or $(TEST_ARGS),-n auto --maxprocesses 8)

test-aarch64: $(VENV)/.installed
	.ci/aarch64 tests/reference tests/samples tests/native tests/plugins/cpu $(TEST_ARGS)

test-windows: develop
	.ci/wine $(TEST_ARGS)

test-gpu: develop
	python -m pytest -m gpu $(TEST_ARGS)

# Status 1 is a case that onnxruntime does better, which the report lists: docs/vendors.md knows some.
vendor-report: develop
	python -m tests.vendor.report $(BUILD)/vendor-report --vendor none --vendor nxrt --vendor ggml --every 6 \
	  || [ $$? -eq 1 ]

# Each of them is a script with options of its own; docs/performance.md says what each measures. MODELS is a folder that
# bench/export_models.py has filled, if any.
BENCH ?= imports calls io_binding opening event_loop serving cpu shapes nbits attention limits classical operators element_types layers pages scaling vendor_runs
MODELS ?=
models := $(if $(MODELS),--models $(MODELS))
bench: develop $(BENCH:%=bench-%)

bench-%: develop
	python bench/$*.py --save
bench-cpu: develop
	python bench/cpu.py $(models) --save
bench-scaling: develop
	python bench/cpu.py $(models) --scaling --seconds 1 --save
bench-vendor_runs: develop
	python bench/vendor_runs.py --vendor nxrt --save

results: develop
	python bench/make_documents.py

lint: develop
	.ci/lint $(BUILD)

# auditwheel looks which versions of glibc and libstdc++ are needed, names the wheel by the oldest Linux that has
# them, and puts libgomp into it, which oneDNN's library is linked to. (The plugin's own functions take the place of
# libgomp's, but the loader wants to see it, and small systems do not have it.)
DIST ?= dist
WHEEL_ARGS ?=
wheel: $(VENV)/.installed
	rm -rf build/wheel && mkdir -p build/wheel
	python -m pip wheel --quiet --no-deps --wheel-dir build/wheel $(WHEEL_ARGS) .
	python -m auditwheel repair --wheel-dir $(DIST) build/wheel/ephost-*.whl

# NO_MKDOCS_2_WARNING: mkdocs-material speaks of its successor in every build.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 python -m mkdocs $(if $(filter serve,$(DOCS)),serve,build --strict --quiet)

$(VENV)/.docs: docs/requirements.txt | $(VENV)/.installed
	python -m pip install --quiet -r docs/requirements.txt
	touch $@

clean:
	rm -rf build site $(VENV)
	find host -name '*.so' -delete
