"""From a model to a plan: load -> infer -> fold -> partition -> plan, one module a stage."""
