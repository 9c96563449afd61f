"""What a process of a run learns when another one has ended."""

from __future__ import annotations


class LostPeer(Exception):
    """Another process of this run is gone; it says why itself."""
