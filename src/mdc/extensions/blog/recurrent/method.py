"""The parameters of Show, Attend and Tell."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from mdc.methods.autoregressive.method import LeftToRight


class Recurrent(LeftToRight):
    """``doubly_stochastic``: the weight λ of Xu et al.'s equation 14, by which every part of an image is looked at."""

    objective: Literal["recurrent"]
    doubly_stochastic: Annotated[float, Field(ge=0)]

    abilities: ClassVar = {
        "train": "mdc.extensions.blog.recurrent.loss",
        "score": "mdc.methods.autoregressive.score",
        "generate": "mdc.extensions.blog.recurrent.generate",
    }


METHOD = Recurrent
