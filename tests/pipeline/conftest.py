"""The small project, made once."""

from made_project import made as made
from made_project import own_copy as own_copy
from made_project import pictures as pictures
from made_project import r as r
from made_project import refused as refused
