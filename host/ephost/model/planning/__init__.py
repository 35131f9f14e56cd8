"""What stage 5 (:mod:`ephost.model.plan`) is made of, in the order in which it is done: who runs a node
(``runners``), where each value lies (``homes``), what the fallback runs (``fallback``), how C is told
(``handover``). ``steps`` is the outcome.
"""
