"""The Python half of the C ABI, one module for each section of it."""
