"""What holds of every figure that a test of this folder draws."""

from drawn_figures import at_most_two_lines_stand_below_a_figure as at_most_two_lines_stand_below_a_figure
