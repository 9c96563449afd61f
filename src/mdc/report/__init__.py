"""Estimates with intervals, claims, tables, figures and the index page."""
