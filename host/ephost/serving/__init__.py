"""A model server that speaks the Open Inference Protocol: what ``ephost serve`` runs."""
