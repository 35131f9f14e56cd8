"""The submodules of onnxruntime's ``capi`` that programs import from, with the same classes in them."""
