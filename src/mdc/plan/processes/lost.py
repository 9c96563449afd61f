"""The exception of a process whose peer has ended."""

from __future__ import annotations


class LostPeer(Exception):
    """Another process of this run is gone. That process reports the reason itself."""
