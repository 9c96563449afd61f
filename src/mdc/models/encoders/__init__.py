"""Image encoders that are not trained here, one module for each kind (``mdc.plan.config.kinds.encoders``).

Each has ``tower(job)``, the architecture without weights; ``tower(job, root, checkpoint)`` is the same with its weights, by
which only :mod:`mdc.training.precompute.import_encoder` has it: everything after it reads the weights that this job kept.
"""
