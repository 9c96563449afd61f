"""Export of trained models and features to formats of other libraries."""
