"""The small project, made once, and what holds of every figure that a test draws."""

from drawn_figures import at_most_two_lines_stand_below_a_figure as at_most_two_lines_stand_below_a_figure
from made_project import made as made
from made_project import own_copy as own_copy
from made_project import pictures as pictures
from made_project import r as r
from made_project import refused as refused
