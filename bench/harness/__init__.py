"""What the benchmarks share.

A host is measured in a process of its own (``sides``, ``worker``): threads of one host spin for a while
after a run, and a plugin that two hosts load from one file keeps one set of global variables. The hosts are
asked in turns, since absolute times drift from minute to minute; every figure is a ratio of two medians.

``machine`` says where and of what a measurement was taken, ``results`` keeps it in ``bench/results``.
"""
