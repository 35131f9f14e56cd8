"""Tables and plots of the documents, made from ``bench/results`` by ``make_documents.py``."""
