"""SugarCrepe's official files with the images of a parquet file: the items whose image is at hand."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mdc.data.sources.choices.parquet_images import parquet_images
from mdc.data.sources.choices.sugarcrepe import SugarCrepe


def open_source(source: Mapping[str, Any], data_dir: Path) -> SugarCrepe:
    """See mdc.data.sources.source."""
    columns = source["image_column"], source["name_column"]
    return SugarCrepe(source, data_dir, partial(parquet_images, data_dir / source["images"], *columns))
