"""The parameters of the pipeline: typed, validated, resolved.

``params.yaml`` is the one place where a hyper-parameter lives. This package says what it may hold. Anything else (an
unknown key, a wrong type, ``1e-4`` read as text, a backbone that does not exist, a reversed range) ends in one line
that names the key, the value and what is allowed, before any job starts. It imports neither torch nor OpenCLIP."""
