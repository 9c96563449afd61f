"""User interfaces: the command line, ``mdc.load``, exports, ``mdc init`` and the demo."""
