"""What a person calls: the command line, ``mdc.load``, exports, ``mdc init`` and the demo."""
