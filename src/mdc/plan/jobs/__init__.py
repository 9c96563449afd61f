"""What is to be done: every job of a scale, typed, with everything that decides its result. See :mod:`mdc.plan.jobs.plan`."""
