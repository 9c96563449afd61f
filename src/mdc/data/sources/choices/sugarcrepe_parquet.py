"""SugarCrepe's official files with the images of a parquet file: the items whose image is in it."""

from collections.abc import Callable
from functools import partial
from typing import Any

from mdc.data.formats.samples import Skipped
from mdc.data.sources.choices.parquet_images import parquet_images
from mdc.data.sources.choices.sugarcrepe import SugarCrepe


class StoredSugarCrepe(SugarCrepe):
    def by_name(self) -> Callable[[Skipped], Any]:
        source = self.config
        return partial(parquet_images, self.data_dir / source["images"], source["image_column"], source["name_column"])


open_source = StoredSugarCrepe  # see mdc.data.sources.source
