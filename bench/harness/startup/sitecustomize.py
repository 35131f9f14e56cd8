"""Python imports this as it starts: ephost comes from ``PYTHONPATH``, and from nowhere before that.

An editable installation, as ``make develop`` makes it, has a finder that gives its own checkout whatever the
path says.
"""

import sys

sys.meta_path[:] = [
    finder for finder in sys.meta_path if not type(finder).__module__.startswith("_editable_skbc_ephost")
]
