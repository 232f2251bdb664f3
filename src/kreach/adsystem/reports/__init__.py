"""Reports: one question, one pipeline, one struct; who may see what is a policy."""
